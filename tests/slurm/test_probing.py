"""Facts of the nodes of a running job, read from outside by a step of its own on a real Slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gsw.jobs.slurm.client import parse_ends, sacct_command
from pytest_gsw.jobs.slurm.probing import Probe, probe_command
from pytest_gsw.jobs.step_ends import problem_of
from pytest_gsw.results.node_facts import compare, why_lines
from tests.messages import wording

from .cluster import SlurmCluster
from .conftest import start


@pytest.fixture(scope="module")
def small() -> Iterator[SlurmCluster]:
    yield from start(4)


def slurm(cluster: SlurmCluster, *command: str, directory: Path | None = None) -> str:
    done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, check=True, cwd=directory)
    return done.stdout.strip()


def test_a_probe_of_a_job_that_holds_all_gpus(small: SlurmCluster, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 0, 00000000:4F:00.0, NVIDIA H100, 580.126.20\n")
    (tools / "nvidia-smi").chmod(0o755)
    go_on = tmp_path / "go-on"
    step = f"srun --ntasks-per-node=1 --gres=gpu:8 sh -c 'touch {tmp_path}/began-$SLURMD_NODENAME; until [ -e {go_on} ]; do sleep 0.1; done'"
    job = slurm(small, "sbatch", "--parsable", "-N4", "--gres=gpu:8", f"--wrap={step}", directory=tmp_path)
    small.wait_until(lambda: len([*tmp_path.glob("began-*")]) == 4, "the job's step")
    environ = {
        **small.environ,
        "PATH": f"{tools}:{small.environ['PATH']}",
        "HF_TOKEN": "hf_secret",
        "SLURM_LABELIO": "1",
    }
    command = probe_command(job, 4, "nvidia", "", window_s=60, version="22.05.8")
    first, last = (Probe(command, environ, 4).result.result() for _ in range(2))
    assert (first.problem, last.problem) == ("", "")
    facts = compare(first.text, last.text, small.node_names)
    assert (facts.nodes, facts.gpus, facts.silent, facts.cut, facts.findings) == (4, 4, "", "", ())
    assert facts.versions["driver"] == {"580.126.20": "n[001-004]"}
    assert why_lines(facts)[0][1].startswith("nothing differs: ")

    # None of these costs the job anything.
    options = command[: command.index("sh")]
    assert "hf_secret" not in Probe((*options, "env"), environ, 4).result.result().text
    failed = Probe((*options, "sh", "-c", "exit 255"), environ, 4).result.result()
    assert failed.problem.endswith("Exited with exit code 255")
    hung = Probe((*options, "sleep", "1000"), environ, 4, 2).result.result()
    assert hung.problem == wording("no probe", why="no end within 2 s")
    go_on.touch()
    small.wait_until(lambda: "COMPLETED" in slurm(small, "sacct", "-X", "-n", "-o", "State", "-j", job), "its end")
    small.wait_until(
        lambda: len(parse_ends(slurm(small, *sacct_command([job])))[job].status.steps or ()) == 6, "its steps on record"
    )
    status = parse_ends(slurm(small, *sacct_command([job])))[job].status
    assert problem_of(status) is None

    refused = Probe(command, environ, 4).result.result()
    assert refused.text == ""
    assert refused.problem.startswith("not read: ")
