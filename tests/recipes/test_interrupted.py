"""Sessions that end while a release's own launch script runs: nothing is submitted twice, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster
from tests.slurm.conftest import start

from .clones import NEMO_RUN, RECIPES
from .projects import Project, prepare
from .releases import PASSED, V25_08, V26_08, Release, own

pytestmark = pytest.mark.skipif(
    not (RECIPES and NEMO_RUN), reason="GSW_RECIPES=DIR and GSW_NEMO_RUN=DIR, clones of the recipes and of NeMo-Run"
)

LLAMA = "llama3.1_8b_bf16[H100x8]"
RELEASES = [
    Release("v25.04", {LLAMA: ("llama3.1", PASSED)}),
    own("v25.08", [V25_08[2]], framework="nemo"),
    own("v26.08.00", [V26_08[3]._replace(size="8b", gpus=8)]),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    yield from start(8)


@pytest.fixture(params=RELEASES, ids=lambda release: release.tag)
def release(request: pytest.FixtureRequest) -> Release:
    found: Release = request.param
    return found


def jobs(cluster: SlurmCluster) -> list[str]:
    """The ids of all jobs that there have been."""
    return cluster.run("squeue", "-h", "-t", "all", "-o", "%i").split()


def until(project: Project, session: subprocess.Popen[str], pattern: str) -> None:
    """Wait until there is such a file, which a session has made."""

    def is_there() -> bool:
        return session.poll() is not None or bool(list(project.directory.glob(pattern)))

    project.cluster.wait_until(is_there, pattern, 120)
    assert session.poll() is None, project.output


@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("ends", [False, True], ids=["its script goes on", "its script ends, too"])
def test_a_session_that_is_killed_within_an_unedited_launch_script(
    release: Release, cluster: SlurmCluster, tmp_path: Path, where: str, ends: bool
) -> None:
    project = prepare(replace(release, exported={"GSW_STANDIN_HELD": where}), cluster, tmp_path)
    before = set(jobs(cluster))
    # Slurm counts whole seconds: a job of setup.sh could be the launch script's by its time.
    newest = max(cluster.run("squeue", "-h", "-t", "all", "-o", "%V").split(), default="")
    cluster.wait_until(lambda: time.strftime("%Y-%m-%dT%H:%M:%S") > newest, "the next second", 10)
    session = project.start()
    until(project, session, "bin/held")
    session.send_signal(signal.SIGKILL)
    session.wait()
    if ends:
        end_launch_scripts(project)
    project = replace(project, environ={**project.environ, "GSW_STANDIN_HELD": ""})
    resumed = project.start("--gsw-resume=last")
    cluster.wait_until(lambda: "collected" in project.output, "a session", 60)
    (project.directory / "bin" / "go").touch()
    ((row, (_, wanted)),) = release.rows.items()
    found = project.end(resumed)
    assert found == {row: wanted}, project.output
    assert len(set(jobs(cluster)) - before) == 1, project.output


def end_launch_scripts(project: Project) -> None:
    """End what runs in the project and is no session and no job, as a login node does that is started again."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and path.name != "self":
            kill_if_launching(path, project)


def kill_if_launching(process: Path, project: Project) -> None:
    try:
        environ = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return
    own = f"PATH={project.directory}".encode()
    if any(word.startswith(own) for word in environ) and not any(word.startswith(b"SLURM_JOB_ID=") for word in environ):
        os.kill(int(process.name), signal.SIGKILL)


def test_ctrl_c_ends_the_job_of_an_unedited_launch_script(
    release: Release, cluster: SlurmCluster, tmp_path: Path
) -> None:
    project = prepare(replace(release, exported={"GSW_STANDIN": "together"}), cluster, tmp_path)
    session = project.start()
    until(project, session, "ranks/jobs/*")
    session.send_signal(signal.SIGINT)
    (said,) = project.end(session).values()
    assert "interrupted: job " in said, project.output
    assert "was cancelled" in said
    cluster.wait_until(lambda: not cluster.run("squeue", "-h").strip(), "an empty queue", 60)
