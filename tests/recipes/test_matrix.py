"""Each release's own scripts, unedited, under pytest-gsw on a real Slurm.

``GSW_RECIPES`` is a checkout or a bare clone, with its tags, of NVIDIA/dgxc-benchmarking or NVIDIA/exemplar-performance.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.conftest import start

from .releases import DATA, LARGE, LEFT_OVER, PASSED, RELEASES, Release, gpus_per_node
from .standins import install

RECIPES = os.environ.get("GSW_RECIPES", "")
pytestmark = pytest.mark.skipif(not RECIPES, reason="GSW_RECIPES=DIR, a checkout of the recipes, is not given")

CLUSTERS = """\
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    yield from start(32)


@pytest.fixture(scope="module")
def large() -> Iterator[SlurmCluster]:
    yield from start(288)


def check_out(tag: str, place: Path) -> None:
    """The recipes of a release, as they are, with an empty file for a tokenizer of megabytes: a clone may lack those."""
    inner = Path(RECIPES) / ".git"
    git = ["git", f"--git-dir={inner if inner.exists() else RECIPES}"]
    archive = subprocess.run(
        [*git, "archive", tag, "--", ".", ":(exclude)*.model"], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(place, filter="data")
    names = subprocess.run(
        [*git, "ls-tree", "-r", "--name-only", tag], check=True, capture_output=True, text=True
    ).stdout
    for name in names.splitlines():
        if name.endswith(".model"):
            (place / name).touch()


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


def run(release: Release, cluster: SlurmCluster, tmp_path: Path, matrix: list[str]) -> None:
    """A session of the rows, of which each is told as expected."""
    check_out(release.tag, tmp_path / "recipes")
    srun = shutil.which("srun", path=cluster.environ["PATH"])
    assert srun
    standins = install(tmp_path, srun)
    environ = {name: text for name, text in cluster.environ.items() if name not in {"STAGE_PATH", "PYTEST_ADDOPTS"}}
    environ |= {"NO_COLOR": "1", "COLUMNS": "200", "HF_TOKEN": "of-nobody", "SLURM_MPI_TYPE": "none"}
    environ["PATH"] = f"{standins}{os.pathsep}{environ['PATH']}"
    setup = environ | {"PATH": f"{standins}/setup{os.pathsep}{environ['PATH']}", "SBATCH_ACCOUNT": "root"}
    variables = {"VIRTUAL_ENV": f"{standins}/venv", "HF_TOKEN": "of-nobody"}
    place = tmp_path / "stage" / "{recipe}"
    if release.workloads:
        place = tmp_path / "stage"
        variables["LLMB_INSTALL"] = str(place)
        for workload in release.workloads:
            (place / "workloads" / workload).mkdir(parents=True, exist_ok=True)
    said = {}
    for recipe in sorted({recipe for recipe, _ in release.rows.values()}):
        where = str(place).replace("{recipe}", recipe)
        for name in DATA:
            Path(where, name).mkdir(parents=True, exist_ok=True)
        own = {"LLMB_INSTALL": where} if release.workloads else {"STAGE_PATH": where}
        said[recipe] = stage(tmp_path, recipe, setup | own)
    assert {recipe: text for recipe, text in said.items() if text} == {}
    (tmp_path / "clusters.yaml").write_text(
        CLUSTERS.format(
            name="lab",
            launcher=release.launcher,
            accelerator=release.accelerator,
            gpus_per_node=gpus_per_node(release.accelerator),
            stage=place,
            directory=tmp_path,
            environment=variables,
        )
    )
    options = ["--gsw-cluster=lab", "--gsw-poll-interval=1", "--junitxml=junit.xml"]
    if release.tables:
        for number, table in enumerate(release.tables):
            (tmp_path / "site").mkdir(exist_ok=True)
            (tmp_path / "site" / f"{number}.yaml").write_text(table)
        options.append("--gsw-baselines=site")
    elif not release.documents:
        options.append(f"--gsw-release={release.name}")
    options += ["-k", " or ".join(release.rows)] if not release.tables else []
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", *options]
    environ |= release.exported
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=400)
    found = outcomes(tmp_path / "junit.xml")
    matrix += [
        f"| {release.tag} | {recipe} | `{row}` {release.remark} | {found.get(row, 'not run')} |"
        for row, (recipe, _) in release.rows.items()
    ]
    wrong = {
        row: found.get(row) for row, (_, wanted) in release.rows.items() if wanted not in found.get(row, "not run")
    }
    assert wrong == {}, done.stdout + done.stderr
    assert {*found} == {*release.rows}


def name_of(release: Release) -> str:
    return "-".join(filter(None, [release.tag, release.accelerator, release.remark]))


@pytest.mark.parametrize("release", RELEASES, ids=name_of)
def test_release(release: Release, cluster: SlurmCluster, tmp_path: Path, matrix: list[str]) -> None:
    run(release, cluster, tmp_path, matrix)


@pytest.mark.parametrize("release", LARGE, ids=name_of)
def test_as_large_as_they_come(release: Release, large: SlurmCluster, tmp_path: Path, matrix: list[str]) -> None:
    run(release, large, tmp_path, matrix)


def test_what_a_shell_has_left_changes_no_run(cluster: SlurmCluster, tmp_path: Path, matrix: list[str]) -> None:
    run(LEFT_OVER, cluster, tmp_path, matrix)
    (log,) = tmp_path.glob("stage/llama3.1/results/24.11/bf16/8b/8/*.out")
    text = log.read_text()
    assert "trainer.max_steps=50 " in text
    assert "model.tensor_model_parallel_size=1 " in text
