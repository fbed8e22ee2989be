"""Which failures are the infrastructure's, and which nodes are suspects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.jobs.model import EarlyStop, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.validation.retryable import InfrastructureFailure, infrastructure_failure, suspect_nodes
from pytest_gsw.validation.run import Run
from tests.endless import it_ends
from tests.unit.logs.lines import NOISE, maxtext

FAILED = JobStatus(JobState.FAILED, exit_code=1, nodes="n[16-19]")
NODE_FAILURE = b"srun: error: Node failure on n17\n"
ABORTED = b"srun: error: n18: task 130: Aborted\nsrun: error: n19: tasks 131-138: Killed\n"
NCCL = b"12: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:911, unhandled system error\n"
STEPS = b"".join(maxtext(step, "4.500") for step in range(3))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_bytes(b"")
    return path


def run(
    log: Path | None, status: JobStatus = FAILED, batch_output: Path | None = None, other_files: tuple[Path, ...] = ()
) -> Run:
    return Run("481221", status, log, batch_output, other_files=other_files)


# -- whose failure it is ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        (JobState.NODE_FAIL, InfrastructureFailure("node failure", ("n17",))),
        (JobState.BOOT_FAIL, InfrastructureFailure("boot failure", ("n17",))),
        (JobState.PREEMPTED, InfrastructureFailure("preemption")),
    ],
)
def test_states_that_tell_of_the_infrastructure(log: Path, state: JobState, failure: InfrastructureFailure) -> None:
    log.write_bytes(STEPS + NODE_FAILURE)
    assert infrastructure_failure(run(log, replace(FAILED, state=state))) == failure


@pytest.mark.parametrize(
    "state",
    sorted(set(JobState) - {JobState.NODE_FAIL, JobState.BOOT_FAIL, JobState.PREEMPTED, JobState.FAILED}, key=str),
)
@pytest.mark.parametrize("exit_code", [None, 0, 1])
def test_no_other_state_is_run_again_whatever_the_log_says(log: Path, state: JobState, exit_code: int | None) -> None:
    if (state, exit_code) == (JobState.COMPLETED, 0):
        return  # it may be a script that went on after its training had died
    log.write_bytes(STEPS + NODE_FAILURE + NCCL)
    assert infrastructure_failure(run(log, replace(FAILED, state=state, exit_code=exit_code), log)) is None


COMPLETED = replace(FAILED, state=JobState.COMPLETED, exit_code=0)


@pytest.mark.parametrize(
    ("lines", "failure"),
    [
        (STEPS + NODE_FAILURE, InfrastructureFailure("node failure", ("n17",))),
        (STEPS + NCCL + STEPS[-90:], InfrastructureFailure("NCCL error")),
        (NODE_FAILURE + STEPS, None),  # the training began all the same
        (STEPS + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n", None),
        (STEPS + b"srun: error: n18: task 3: Exited with exit code 1\n", None),
        (STEPS, None),
    ],
)
def test_a_job_that_is_said_to_have_ended_well(log: Path, lines: bytes, failure: InfrastructureFailure | None) -> None:
    log.write_bytes(lines)
    assert infrastructure_failure(run(log, COMPLETED)) == failure
    assert infrastructure_failure(run(None, COMPLETED)) is None


def test_what_went_to_stderr_of_a_job_that_is_said_to_have_ended_well(log: Path, tmp_path: Path) -> None:
    log.write_bytes(STEPS)
    errors = tmp_path / "run.err"
    errors.write_bytes(NODE_FAILURE)
    assert infrastructure_failure(run(log, COMPLETED, other_files=(errors,))) == InfrastructureFailure(
        "node failure", ("n17",)
    )
    errors.write_bytes(NOISE)
    assert infrastructure_failure(run(log, COMPLETED, other_files=(errors,))) is None


@pytest.mark.parametrize("state", JobState)
def test_a_job_that_the_session_ended_is_not_run_again(log: Path, state: JobState) -> None:
    log.write_bytes(NODE_FAILURE + NCCL)
    stopped = replace(run(log, replace(FAILED, state=state)), stopped=EarlyStop("stalled at step 17"))
    assert infrastructure_failure(stopped) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (NCCL, "NCCL error"),
        (b"NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.\n", "GPU error (Xid)"),
        (b"NVRM: Xid (PCI:0000:41:00): 31, pid=42, MMU Fault\n", None),
        (b"ModuleNotFoundError: No module named 'megatron'\n", None),
    ],
)
@pytest.mark.parametrize("where", ["log", "stderr", "batch"])
def test_causes_of_a_failure(tmp_path: Path, where: str, line: bytes, why: str | None) -> None:
    """Which causes are the infrastructure's, each signature says: tests/unit/logs/test_failures.py."""
    log, errors, batch = tmp_path / "run.log", tmp_path / "run.err", tmp_path / "slurm-481221.out"
    log.write_bytes(NOISE + STEPS + (line if where == "log" else b""))
    errors.write_bytes(NOISE + (line if where == "stderr" else b""))
    batch.write_bytes(line if where == "batch" else b"")
    failure = infrastructure_failure(run(log, batch_output=batch, other_files=(errors,)))
    assert (failure and failure.why) == why


def test_the_earliest_cause_decides(log: Path) -> None:
    out_of_memory = b"7: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"
    log.write_bytes(STEPS + out_of_memory + NCCL)
    assert infrastructure_failure(run(log)) is None
    log.write_bytes(STEPS + NCCL + out_of_memory)
    assert infrastructure_failure(run(log)) == InfrastructureFailure("NCCL error")


def test_a_failure_without_a_cause_is_the_rows_own(log: Path) -> None:
    log.write_bytes(STEPS + b"srun: error: n17: task 130: Exited with exit code 1\n")
    assert infrastructure_failure(run(log)) is None
    assert infrastructure_failure(run(None)) is None


@pytest.mark.parametrize("unreadable", [Path("/proc/self/mem"), Path("/proc/self")])
def test_logs_that_cannot_be_read_tell_nothing(unreadable: Path) -> None:
    status = replace(FAILED, nodes="n17")
    assert infrastructure_failure(run(unreadable, status, unreadable)) is None
    lost = replace(status, state=JobState.NODE_FAIL)
    assert infrastructure_failure(run(unreadable, lost, unreadable)) == InfrastructureFailure("node failure", ("n17",))


# -- suspects -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nodes", "suspects"),
    [
        (ABORTED + NODE_FAILURE, "n[16-19]", ("n17",)),
        (NODE_FAILURE + b"srun: error: Node failure on n16\n" + NODE_FAILURE, "n[16-19]", ("n17", "n16")),
        (ABORTED, "n[16-19]", ("n18",)),
        (b" 3: srun: error: rack-2.node_7: tasks 0-3,5: Terminated\n", "", ("rack-2.node_7",)),
        (b"\x1b[31msrun: error: Node failure on n17\x1b[0m\n", "", ("n17",)),
        (STEPS, "n17", ("n17",)),
        (STEPS, "pool0-0017.example", ("pool0-0017.example",)),
        (STEPS, "n[16-19]", ()),
        (STEPS, "n16,n17", ()),
        (STEPS, "", ()),
        # Several nodes that failed at once are a list in Slurm's own form, which --exclude takes as well.
        (b"srun: error: Node failure on n[17-18]\n", "", ("n[17-18]",)),
        (b"srun: error: Node failure on rack[1,3]-n[17-18,20],m4\n", "", ("rack[1,3]-n[17-18,20],m4",)),
        (b"srun: error: Node failure on n17, killing job\n", "", ("n17",)),
        # What is cut or no list of nodes names none.
        (b"srun: error: Node failure on n[17-\n", "", ()),
        (b"srun: error: Node failure on n[17-18\n", "n16", ("n16",)),
        (b"srun: error: Node failure on --all\n", "", ()),
        (b"srun: error: Node failure on n17srun: error: Node failure on n18\n", "", ("n18",)),
        (b"srun: error: Node failure on " + b"n" * 500 + b"\n", "", ()),
        (b"srun: error: task 130: Aborted\n", "", ()),
        (b"error: n18: task 130: Aborted\n", "", ()),
    ],
)  # fmt: skip
def test_suspects(log: Path, text: bytes, nodes: str, suspects: tuple[str, ...]) -> None:
    log.write_bytes(NOISE + text)
    assert suspect_nodes(run(log, replace(FAILED, nodes=nodes))) == suspects


def test_suspects_may_stand_in_the_batch_shells_output(log: Path, tmp_path: Path) -> None:
    batch = tmp_path / "slurm-481221.out"
    log.write_bytes(ABORTED)
    batch.write_bytes(NODE_FAILURE)
    assert suspect_nodes(run(log, batch_output=batch)) == ("n17",)
    assert suspect_nodes(run(None, batch_output=batch)) == ("n17",)
    assert suspect_nodes(run(tmp_path / "gone.log", batch_output=tmp_path / "gone.out")) == ()


@pytest.mark.parametrize("cause", ["PREEMPTION", "JOB REQUEUE"])
def test_who_takes_a_node_away_says_nothing_against_it(log: Path, cause: str) -> None:
    # A batch script that catches the signal and exits makes of a preemption a failure.
    log.write_bytes(
        b"slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2031-02-03T04:05:06 DUE TO %b ***\n" % cause.encode() + ABORTED
    )  # fmt: skip
    for nodes in ("n7", "n[16-19]"):
        failure = infrastructure_failure(run(log, replace(FAILED, nodes=nodes)))
        assert failure is not None
        assert failure.nodes == ()


def test_hostile_lines_are_harmless(log: Path) -> None:
    hostile = [
        b"srun: error: Node failure on " + b"n[1,2]," * 140_000,
        b"srun: error: Node failure on " + b"n[" * 450_000,
        b"error: Node failure on " * 40_000,
        b"srun: error: " + b"n" * 900_000 + b": task 1: Aborted",
        b"srun: error: n: tasks " + b"1,2-" * 200_000,
        b"error: " * 120_000,
        b"srun: error: Node failure on \xff\xfe\x00n17",
        b"srun: error: n\xc3\xa4: task 1: Aborted",
        bytes(range(256)) * 1000 + b"error: ",
        b"x" * (2 << 20) + b"srun: error: Node failure on n19",
    ]
    log.write_bytes(b"\n".join(hostile) + b"\n" + NODE_FAILURE)
    with it_ends():
        assert suspect_nodes(run(log)) == ("n17",)


@given(content=st.lists(st.sampled_from([b"srun: error: ", b"Node failure on ", b"n17", b"[1-", b"]", b",", b": task ", b"7: ", b"\n", b"\r", b"\xff", b" "]) | st.binary(max_size=4), max_size=60).map(b"".join))  # fmt: skip
def test_what_is_suspected_can_be_given_to_sbatch(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    log = tmp_path_factory.getbasetemp() / "any.log"
    log.write_bytes(content)
    for node in suspect_nodes(run(log, replace(FAILED, nodes=""))):
        assert node[0].isalnum()
        assert node.isascii()
        assert node.isprintable()
        assert " " not in node
        assert node.count("[") == node.count("]")


# -- the next attempt ---------------------------------------------------------------------

SPEC = JobSpec("row", "gsw-r1-row", Path("/r/launch.sh"), Path("/r"), Path("/s"), 2, 16, {}, unique_name=True)


def test_each_attempt_has_a_name_of_its_own_and_does_without_all_suspects() -> None:
    second = SPEC.again(("n17",))
    third = second.again(("n18", "n17"))
    assert [(spec.name, spec.attempt, spec.excluded_nodes) for spec in (SPEC, second, third)] == [
        ("gsw-r1-row", 1, ()),
        ("again2.gsw-r1-row", 2, ("n17",)),
        ("again3.gsw-r1-row", 3, ("n17", "n18")),
    ]
    assert third.environment == {**SPEC.environment, "GSW_ATTEMPT": "3"}
    assert replace(third, name=SPEC.name, attempt=1, excluded_nodes=(), environment=SPEC.environment) == SPEC


def test_a_name_that_sessions_share_stays() -> None:
    third = replace(SPEC, name="gsw-row", unique_name=False).again(()).again(("n18",))
    assert (third.name, third.attempt, third.excluded_nodes) == ("gsw-row", 3, ("n18",))


def test_a_job_on_a_tile_has_no_other_nodes() -> None:
    second = replace(SPEC, node_list="n17").again(("n17",), avoiding=("n17",))
    assert (second.node_list, second.excluded_nodes, second.avoided_nodes) == ("n17", (), ())
