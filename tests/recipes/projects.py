"""A project whose recipes are a release's own, staged by their own setup, and its sessions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.slurm.cluster import SlurmCluster

from .clones import MEGATRON_BRIDGE, NEMO_RUN, check_out, check_out_recipes, has, pin
from .releases import DATA, PASSED, Release, gpus_per_node
from .standins import install

CLUSTERS = """\
defaults: {{poll_interval: 1}}
clusters:
  {name}:
    scheduler: slurm
    launcher: {launcher}
    accelerator: {accelerator}
    gpus_per_node: {gpus_per_node}
    account: root
    partition: batch
    stage: {stage}
    recipes: {directory}/recipes
    environment: {environment}
"""


@dataclass(frozen=True)
class Project:
    """What is staged of a release on a cluster."""

    release: Release
    cluster: SlurmCluster
    directory: Path
    environ: Mapping[str, str]

    def start(self, *more: str) -> subprocess.Popen[str]:
        """A session of its rows, in a process of its own."""
        own = () if any(word.startswith("--gsw-resume") for word in more) else self._options()
        # To a file: what a killed session leaves running holds its output, too.
        with (self.directory / "output").open("w") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "pytest", "--junitxml=junit.xml", *own, *more],
                cwd=self.directory,
                env=dict(self.environ),
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def end(self, session: subprocess.Popen[str]) -> dict[str, str]:
        """What a session says of each row, once it has ended."""
        session.wait(400)
        return outcomes(self.directory / "junit.xml")

    @property
    def output(self) -> str:
        """What the last session has printed."""
        return (self.directory / "output").read_text()

    def _options(self) -> Sequence[str]:
        release = self.release
        if release.tables:
            return ("--gsw-cluster=lab",)
        chosen = () if release.documents else (f"--gsw-release={release.name}",)
        return ("--gsw-cluster=lab", *chosen, "-k", " or ".join(release.rows))


def prepare(release: Release, cluster: SlurmCluster, directory: Path) -> Project:
    """Check a release out, and stage it as its documents say."""
    recipes = sorted({recipe for recipe, _ in release.rows.values()})
    check_out_recipes(release.tag, directory / "recipes")
    srun = shutil.which("srun", path=cluster.environ["PATH"])
    assert srun
    standins = install(directory, Path(srun).parent, real=clone_nemo_run(directory, recipes))
    environ = {name: text for name, text in cluster.environ.items() if name not in {"STAGE_PATH", "PYTEST_ADDOPTS"}}
    environ |= {
        "NO_COLOR": "1",
        "COLUMNS": "200",
        "HF_TOKEN": "of-nobody",
        "SLURM_MPI_TYPE": "none",
        "PYTHONUNBUFFERED": "1",
    }
    environ["PATH"] = f"{standins}{os.pathsep}{environ['PATH']}"
    setup = environ | {"PATH": f"{standins}/setup{os.pathsep}{environ['PATH']}", "SBATCH_ACCOUNT": "root"}
    place = directory / "stage" if release.installed else directory / "stage" / "{recipe}"
    if release.installed:
        place.mkdir()
        (place / "llmb_repo").symlink_to(directory / "recipes")
    said = {}
    for recipe in recipes:
        where = str(place).replace("{recipe}", recipe)
        for name in DATA:
            Path(where, name).mkdir(parents=True, exist_ok=True)
        if release.installed:
            clone_workload(place, directory / "recipes" / recipe)
        own = {"LLMB_INSTALL" if release.installed else "STAGE_PATH": where}
        said[recipe] = stage(directory, recipe, setup | own)
    assert {recipe: text for recipe, text in said.items() if text} == {}
    variables = {"VIRTUAL_ENV": f"{standins}/venv", "HF_TOKEN": "of-nobody"}
    text = CLUSTERS.format(
        name="lab",
        launcher=release.launcher,
        accelerator=release.accelerator,
        gpus_per_node=gpus_per_node(release.accelerator),
        stage=place,
        directory=directory,
        environment=variables | ({"LLMB_INSTALL": str(place)} if release.installed else {}),
    )
    ini = "[pytest]\n" + ("gsw_baselines = site\n" if release.tables else "")
    tables = {f"site/{number}.yaml": table for number, table in enumerate(release.tables)}
    for name, content in {"clusters.yaml": text, "pytest.ini": ini, **tables}.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return Project(release, cluster, directory, environ | release.exported)


def clone_nemo_run(project: Path, recipes: list[str]) -> Path | None:
    """NeMo-Run as each recipe pins it; ``None`` where there is no clone of it."""
    pins = {pin(project / "recipes" / recipe, "NeMo-Run") for recipe in recipes} - {""}
    if not all(has(NEMO_RUN, commit) for commit in pins):
        return None
    place = project / "nemo-run"
    for commit in pins:
        check_out(NEMO_RUN, commit, place / commit)
    return place


def clone_workload(install: Path, recipe: Path) -> None:
    """What llmb-install clones for a recipe: of Megatron-Bridge what runs on this machine, of others the directory."""
    metadata = recipe / "metadata.yaml"
    if (recipe / "setup.sh").is_file() or not metadata.is_file():
        return  # its setup clones
    general = yaml.safe_load(metadata.read_text())["general"]
    place = install / "workloads" / f"{general['workload_type']}_{general['workload']}"
    for name in ("NeMo", "Megatron-Bridge", "torchtitan"):
        (place / name).mkdir(parents=True, exist_ok=True)
    commit = pin(recipe, "Megatron-Bridge")
    if has(MEGATRON_BRIDGE, commit):
        clone = place / "Megatron-Bridge"
        check_out(MEGATRON_BRIDGE, commit, clone, ["scripts/performance", "src"])
        for words in ("init -q", "add .", "-c user.name=n -c user.email=n@localhost commit -q -m clone"):
            subprocess.run(["git", *words.split()], cwd=clone, check=True)


def stage(project: Path, recipe: str, environ: Mapping[str, str]) -> str:
    """Run a recipe's setup; what it says where it fails."""
    place = project / "recipes" / recipe
    if not (place / "setup.sh").is_file():
        return ""
    script = ["bash", "setup.sh"]
    done = subprocess.run(script, cwd=place, env=environ, capture_output=True, text=True, check=False, timeout=120)
    return "" if done.returncode == 0 else f"setup.sh: {(done.stderr.strip().splitlines() or ['?'])[-1]}"


def outcomes(junit: Path) -> dict[str, str]:
    """What is said of each row: whether it was judged, and the first line of its message."""
    found = {}
    for case in ET.parse(junit).getroot().iter("testcase"):  # noqa: S314 - our own file
        said = [child for child in case if child.tag != "properties"]
        message = (said[0].text or "").splitlines()[0] if said else ""
        how = {"failure": "judged: failed", "error": "error" if message.startswith("job ") else "refused"}
        found[case.attrib["name"]] = f"{how.get(said[0].tag, said[0].tag)}: {message}" if said else PASSED
    return found
