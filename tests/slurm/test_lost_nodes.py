"""Nodes that fail jobs on a real Slurm: a prolog that fails, and nodes that end each job at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import properties, tiny_table
from tests.messages import wording

from .cluster import SlurmCluster
from .conftest import start
from .sessions import PASSED, ROW, Misfortune, Session, Site

#: Rows, each of one node of the four.
CASES = ("a", "b", "c", "d", "e", "f", "g", "h")
TABLE = tiny_table(*(f"gpus: 8, case: {case}, step_time_s: 1.000, line: 10" for case in CASES))
#: A recipe that ends at once on some nodes, with words that say nothing of the node.
BODY = 'case " {nodes} " in *" $SLURMD_NODENAME "*) {death};; esac; sleep 2; perfect'
DIES = "echo 'bash: /lustre/stage/x: Stale file handle' >&2; exit 1"
#: As on GPUs on which an earlier job has left a process.
DIES_OF_MEMORY = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.' >&2; exit 1"
#: The same of a script that ends well, whose step has failed.
DIES_IN_A_STEP = "srun bash -c 'exit 1'; exit 0"


@pytest.fixture(scope="module")
def slurm4() -> Iterator[SlurmCluster]:
    yield from start(4)


@pytest.fixture
def site(slurm4: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
    slurm4.cancel_all()


def records(session: Session) -> list[dict[str, Any]]:
    session.process.wait(300)
    return [json.loads(path.read_text()) for path in sorted(session.directory.glob(".gsw/runs/*/records/*.json"))]


def failing(nodes: Sequence[str], death: str = DIES, **changes: Any) -> Misfortune:
    body = BODY.format(nodes=" ".join(nodes), death=death)
    return Misfortune(body, sbatch="--exclusive", table=TABLE, **changes)


@pytest.mark.parametrize(
    ("nodes", "death", "retries"),
    [
        (["n001"], DIES, 0),
        (["n001"], DIES_OF_MEMORY, 0),
        (["n001"], DIES_IN_A_STEP, 2),
        (["n001", "n002"], DIES, 2),
    ],
    ids=["without retries", "memory", "a step", "two nodes"],
)
def test_nodes_that_end_each_job_at_once_are_left_out(
    slurm4: SlurmCluster, site: Site, nodes: list[str], death: str, retries: int
) -> None:
    session = site.run(slurm4, failing(nodes, death, options=(f"--gsw-retries={retries}", "--gsw-report=report")))
    found = records(session)
    assert [one["outcome"] for one in found] == ["passed"] * len(CASES), session.output
    attempts = [attempt for one in found for attempt in one["attempts"]]
    assert {attempt["nodes"] for attempt in attempts} == set(nodes)
    section = session.output.partition("nodes that fail jobs")[2].partition("=\n")[2].partition("\n=")[0]
    assert [line.partition(":")[0] for line in section.splitlines()] == [f"node {node}" for node in nodes]
    listed = nodes[0] if len(nodes) == 1 else "'n[001-002]'"
    assert session.output.count(wording("drain", nodes=listed)) == 1
    page = (session.directory / "report" / "index.html").read_text()
    assert all(page.count(f"node {node}: ") == 1 for node in nodes)


@pytest.mark.parametrize(("death", "retries", "jobs"), [(DIES, 0, 1), (DIES, 3, 2), (DIES_OF_MEMORY, 3, 1)])
def test_a_recipe_that_fails_on_each_node_blames_none(
    slurm4: SlurmCluster, site: Site, death: str, retries: int, jobs: int
) -> None:
    session = site.run(slurm4, failing(slurm4.node_names, death, options=(f"--gsw-retries={retries}",)))
    found = records(session)
    assert [(one["outcome"], len(one["attempts"]) + 1) for one in found] == [("error", jobs)] * len(CASES)
    assert "nodes that fail jobs" not in session.output
    assert "state=drain" not in session.output


def test_the_only_row_of_a_session_is_no_evidence_against_its_node(slurm4: SlurmCluster, site: Site) -> None:
    misfortune = failing(["n001"], options=("--gsw-retries=1",))
    session = site.run(slurm4, Misfortune(misfortune.body, options=misfortune.options))
    assert session.end().seen == PASSED
    assert "nodes that fail jobs" not in session.output


@contextlib.contextmanager
def prolog(cluster: SlurmCluster, directory: Path, flags: str) -> Iterator[None]:
    """A prolog that fails on n001."""
    script = directory / "prolog.sh"
    script.write_text('#!/bin/bash\n[ "$SLURMD_NODENAME" != n001 ]\n')
    script.chmod(0o755)
    files = [cluster.directory / name for name in ("slurm.conf", "daemons.conf")]
    texts = [file.read_text() for file in files]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text.replace("PrologFlags=NoHold", f"PrologFlags={flags}\nProlog={script}"))
    cluster.run("scontrol", "reconfigure")
    cluster.wait_until(lambda: str(script) in cluster.run("scontrol", "show", "config"), "the prolog is known")
    try:
        yield
    finally:
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        cluster.run("scontrol", "reconfigure")
        cluster.run("scontrol", "update", "nodename=n001", "state=resume")


@pytest.mark.parametrize("flags", ["Alloc", "NoHold"])
@pytest.mark.parametrize(("requeue", "retries"), [("--no-requeue", 1), ("--requeue", 1), ("--no-requeue", 0)])
def test_a_prolog_that_fails_is_the_infrastructures_failure(
    slurm4: SlurmCluster, site: Site, tmp_path: Path, flags: str, requeue: str, retries: int
) -> None:
    with prolog(slurm4, tmp_path, flags):
        session = site.run(
            slurm4,
            Misfortune("perfect", sbatch=f"--exclusive, {requeue}", options=(f"--gsw-retries={retries}",)),
        )
        told = session.end()
    lost = "node lost: n001 (drained: Prolog error)"
    if retries:
        assert told.seen == PASSED
        seen = properties(session.case())
        assert seen["gsw_attempts"] == "2"
        assert seen["gsw_attempt_1"].partition(" ")[2] == f"CANCELLED on n001: {lost}"
    else:
        assert (told.seen.outcome, told.seen.message) == ("error", f"job {told.job} never began: {lost}")
        assert "sinfo -R -n n001" in session.output
    assert ROW in session.output
