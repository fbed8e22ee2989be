"""Recipes of release 25.04 and later as they are, with a stand-in for what submits and trains, on a real Slurm.

GSW_RECIPES=DIR is a clone of the recipes' repository; nothing of it is part of this one.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import SlurmCluster
from .recipes import CLUSTERS, TABLE, configured, nemo_run
from .sessions import PASSED, Site
from .test_launch_scripts import Launched

RECIPES = os.environ.get("GSW_RECIPES", "")

pytestmark = pytest.mark.skipif(not RECIPES, reason="GSW_RECIPES=DIR, a clone of the recipes, is not given")


def unpack(release: str, place: Path, *paths: str) -> None:
    """Put files of a release somewhere, as far as it has them."""
    git = ("git", "-C", RECIPES)
    there = [path for path in paths if subprocess.run([*git, "cat-file", "-e", f"{release}:{path}"]).returncode == 0]
    packed = subprocess.run([*git, "archive", release, *there], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place)  # noqa: S202 - of a repository that was asked for


@pytest.fixture
def launched(tmp_path: Path, slurm32: SlurmCluster) -> Iterator[Launched]:
    site = Site(tmp_path)
    yield Launched(site, slurm32, tmp_path)
    site.close()
    slurm32.cancel_all()


#: What stands in for python in the recipe's virtual environment: it submits as NeMo-Run does. Before 25.05 there was
#: no LLMB_INSTALL.
STAND_IN = ': "${LLMB_INSTALL=${STAGE_PATH-}}" "${GPU_TYPE=h100}" "${GPUS_PER_NODE=8}"; unset STAGE_PATH'


@pytest.mark.parametrize(
    ("release", "recipe", "size", "gpus"),
    [
        ("v25.04", "llama3.1", "8b", 8),
        ("v25.05", "llama3.1", "405b", 128),
        ("v25.08", "llama3.1", "405b", 256),
        ("v25.10", "llama3.1", "405b", 256),
        ("v26.06.01", "llama3.1", "70b", 64),
        ("v26.08.00", "llama3.1/pretrain/megatron_bridge", "8b", 8),
    ],
)
def test_llama_as_it_is(launched: Launched, release: str, recipe: str, size: str, gpus: int) -> None:
    directory = launched.directory
    stand_in = nemo_run(begin=STAND_IN)
    kinds = ("pretrain", "pretraining")
    clones = ("NeMo", "Megatron-Bridge")
    unpack(release, directory / "recipes", recipe, "common")
    (directory / "recipes" / recipe / "NeMo").mkdir(exist_ok=True)
    installed = "X: y" if release == "v25.04" else f"LLMB_INSTALL: {directory}/install"
    session = launched.run(
        "",
        table=TABLE.replace("directory: tiny", f"directory: {recipe}")
        .replace("size: 1b", f"size: {size}")
        .replace("gpus: 8,", f"gpus: {gpus},"),
        given={
            **{f"install/workloads/{kind}_llama3.1/{clone}/.keep": "" for kind in kinds for clone in clones},
            **{f"venv/bin/{name}": stand_in for name in ("python", "python3")},
            "clusters.yaml": CLUSTERS.replace(
                f"LLMB_INSTALL: {directory}/install", f"{installed}, VIRTUAL_ENV: {directory}/venv, HF_TOKEN: x"
            ).replace("    partition: batch\n", "    partition: batch\n    account: root\n"),
        },
    )
    assert session.rows() == {f"tiny_{size}_bf16[H100x{gpus}]": "passed"}, session.output


#: What llmb-run has installed: one recipe, ours.
METADATA = """\
general: {workload: tiny, workload_type: pretrain, framework: nemo2, model: tiny}
container: {images: ['nvcr.io#nvidia/nemo:26.04.01']}
run:
  launcher_type: %s
  launch_script: launch.sh
  gpu_configs: {h100: {model_configs: [{model_size: 1b, dtypes: [bf16], scales: [8]}]}}
"""
INSTALLED = """\
schema_version: 2
llmb_repo: {directory}/repo
llmb_install: {directory}/install
gpu_type: h100
cluster_name: eos
environment: {{}}
slurm: {{account: root, gpu: {{partition: batch}}, cpu: {{partition: batch}}}}
workloads:
  installed: [pretrain_tiny]
  config: {{pretrain_tiny: {{venv_path: {venv}, venv_type: venv}}}}
"""


#: The same before there were versions of it.
INSTALLED_THEN = """\
launcher: {{llmb_repo: {directory}/repo, llmb_install: {directory}/install, gpu_type: h100, node_architecture: x86_64}}
environment: {{}}
slurm: {{account: root, gpu_partition: batch, cpu_partition: batch, gpu_gres: null, cpu_gres: null}}
workloads:
  installed: [pretrain_tiny]
  config: {{pretrain_tiny: {{venv_path: {venv}, venv_type: venv}}}}
"""


@pytest.fixture
def llmb_run(release: str, tmp_path: Path) -> Path:
    """A virtual environment with a release's own llmb-run, as it is."""
    place = tmp_path / "llmb-run"
    unpack(release, place, "cli/llmb-run")
    venv.create(place / "venv", with_pip=True)
    subprocess.run([place / "venv" / "bin" / "pip", "install", "-q", place / "cli" / "llmb-run"], check=True)
    return place / "venv"


@pytest.mark.parametrize(
    ("release", "kind"), [("v25.10", "nemo"), ("v26.06.01", "nemo"), ("v26.06.01", "configured_sbatch")]
)
def test_llmb_run_as_it_is(launched: Launched, llmb_run: Path, release: str, kind: str) -> None:
    directory = launched.directory
    script = nemo_run() if kind == "nemo" else configured()
    session = launched.run(
        "",
        launcher="llmb-run",
        table=TABLE.replace("directory: tiny", "directory: pretrain_tiny"),
        given={
            "repo/tiny/metadata.yaml": METADATA % kind,
            "repo/tiny/launch.sh": script,
            "repo/release.yaml": "llmb_version: 26.06.01\n",
            "install/cluster_config.yaml": (INSTALLED_THEN if release == "v25.10" else INSTALLED).format(
                directory=directory, venv=llmb_run
            ),
            "install/workloads/pretrain_tiny/.keep": "",
            "clusters.yaml": CLUSTERS.replace("nemo-run", "llmb-run")
            .replace(f"{directory}/recipes", f"{directory}/install/workloads")
            .replace("{LLMB_INSTALL", f"{{VIRTUAL_ENV: {llmb_run}, LLMB_INSTALL"),
        },
    )
    told = session.end()
    assert told.seen == PASSED, session.output
    assert list(directory.glob(f"install/**/llmb-config_{told.job}.yaml"))
