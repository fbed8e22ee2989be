"""The cluster itself: it answers, and it leaves nothing behind, however it ends."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from . import cluster as cluster_module
from .cluster import ClusterError, SlurmCluster, missing_requirements
from .conftest import start

INSTALL = "apt-get install --no-install-recommends -y slurmctld slurmd slurm-client slurmdbd munge mariadb-server"


def left_behind(directory: Path) -> list[int]:
    assert directory != Path()
    assert not directory.exists()
    return cluster_module._processes_of(directory)


def _a_job_runs(cluster: SlurmCluster) -> bool:
    return cluster.run("squeue", "-h", "-o", "%T").strip() == "RUNNING"


def test_a_lost_job_is_ended_with_the_cluster(tmp_path: Path) -> None:
    for cluster in start(1, accounting=False):
        directory = cluster.directory
        cluster.run("sbatch", f"--chdir={tmp_path}", "-o", f"{tmp_path}/out", "--wrap", "setsid sleep 300; sleep 300")
        cluster.wait_until(functools.partial(_a_job_runs, cluster), "it runs", 20)
        assert cluster.rpc_counts()["REQUEST_SUBMIT_BATCH_JOB"] == 1
    assert left_behind(directory) == []


def test_a_start_that_fails_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = missing_requirements()
    if problem is not None:
        pytest.skip(problem)
    cluster = SlurmCluster(1)
    directories = []

    def fail() -> None:
        directories.append(cluster.directory)
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "start_slurmctld", fail)
    with pytest.raises(KeyboardInterrupt), cluster:
        pass
    assert left_behind(directories[0]) == []


def test_a_daemon_that_ends_is_named_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = missing_requirements()
    if problem is not None:
        pytest.skip(problem)
    cluster = SlurmCluster(1, accounting=False)
    slurm_conf = cluster._slurm_conf
    monkeypatch.setattr(cluster, "_slurm_conf", lambda ports: slurm_conf(ports) + "NoSuchOption=1\n")
    with pytest.raises(ClusterError, match=r"(?s)^waited until slurmctld answers, but slurmctld ended.*NoSuchOption"):
        cluster.__enter__()


def test_sigterm_ends_all(tmp_path: Path) -> None:
    problem = missing_requirements()
    if problem is not None:
        pytest.skip(problem)
    program = """\
        import time
        from slurm.cluster import SlurmCluster

        with SlurmCluster(1, accounting=False) as cluster:
            print(cluster.directory, flush=True)
            time.sleep(60)
        """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        assert directory.is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    assert left_behind(directory) == []


def test_what_is_missing_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_BINARIES", ("sh", "no-such-daemon", "nor-this-one"))
    assert missing_requirements() == f"a Slurm cluster needs no-such-daemon, nor-this-one: {INSTALL}"
    monkeypatch.setattr(cluster_module, "_BINARIES", ("sh",))
    monkeypatch.setattr(cluster_module.os, "geteuid", lambda: 1000)
    assert missing_requirements() == (f"a Slurm cluster needs root, because slurmd does: run as root, after {INSTALL}")


@pytest.mark.parametrize(("required", "outcome"), [("0", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_machine_without_slurm_skips_unless_it_must_not(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(cluster_module, "_BINARIES", ("no-such-daemon",))
    monkeypatch.setenv("GSW_REQUIRE_SLURM", required)
    with pytest.raises(outcome, match=rf"a Slurm cluster needs no-such-daemon: {INSTALL}$"):
        next(start(1))
