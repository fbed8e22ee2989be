"""What steps say of a job whose script ended with 0; how Slurm 22.05 and 24.11 write each case was seen on real ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.jobs.slurm.client import parse_ends
from pytest_gsw.jobs.states import JobState, JobStatus, JobStep
from pytest_gsw.jobs.step_ends import MOST_KEPT, boost_step, is_well, limited_steps, problem_of
from tests.messages import wording

UID = 1000


def job(derived: str, *steps: str) -> JobStatus:
    """A job that ran from 100 to 200 and COMPLETED: each step is ``NAME STATE CODE START END``."""
    lines = [f"7|COMPLETED|0:0|{derived}|None|n1|90|100|200|gsw-a"]
    for number, step in enumerate(steps):
        name, state, code, start, end = step.split()
        lines.append(f"7.{number}|{state.replace('_by_', ' by ')}|{code}|||n1|100|{start}|{end}|{name}")
    return parse_ends("\n".join(lines))["7"].status


def fact(status: JobStatus, *may_fail: str) -> str | None:
    problem = problem_of(status, may_fail, UID)
    return None if problem is None else problem.fact


@pytest.mark.parametrize(
    ("derived", "steps"),
    [
        ("0:0", ()),
        ("0:0", ("train COMPLETED 0:0 101 199",)),
        # Helpers that Slurm ended with the job: asked to, or killed when they did not.
        ("0:0", ("dmon CANCELLED 0:15 101 200", "train COMPLETED 0:0 101 199")),
        ("0:0", ("dmon CANCELLED 0:9 101 207", "train COMPLETED 0:0 101 199")),
        # 24.11 counts them in DerivedExitCode, and writes the end of the job as theirs.
        ("0:15", ("dmon CANCELLED 0:15 101 200", "train COMPLETED 0:0 101 200")),
        ("0:15", ("dmon CANCELLED 0:15 101 201", "setup COMPLETED 0:0 101 110", "train COMPLETED 0:0 110 200")),
        ("0:9", ("dmon CANCELLED 0:9 101 207", "train COMPLETED 0:0 101 200")),
        # A site that keeps no steps: what slurmctld counted may be a helper.
        ("0:15", ()),
        # One that the script itself ended as it ended, although it had begun late.
        ("0:0", ("dmon CANCELLED_by_1000 0:15 199 200", "train COMPLETED 0:0 101 199")),
        # A probe of the session's that failed (sacct subtracts 128 from 255), or hung and was ended.
        ("255:0", ("train COMPLETED 0:0 101 199", "gsw-probe FAILED 127:0 120 121")),
        ("0:9", ("train COMPLETED 0:0 101 199", "gsw-probe CANCELLED_by_1000 0:9 120 153")),
        ("0:9", ("train COMPLETED 0:0 101 199", "gsw-probe CANCELLED_by_0 0:9 198 203")),
        # One that the script itself ended when the training was over.
        ("0:9", ("dmon CANCELLED_by_1000 0:9 101 180", "train COMPLETED 0:0 101 179")),
    ],
)
def test_a_job_that_ended_well(derived: str, steps: tuple[str, ...]) -> None:
    assert problem_of(job(derived, *steps), (), UID) is None


@pytest.mark.parametrize(
    "steps",
    [
        ("train CANCELLED_by_1000 0:15 101 180", "sleep COMPLETED 0:0 101 103"),
        ("train CANCELLED_by_1000 1:0 101 180", "sleep COMPLETED 0:0 101 179"),
        ("train CANCELLED 0:15 101 200", "sleep COMPLETED 0:0 101 103"),
        ("train CANCELLED 0:15 101 200",),
        # Slurm has whole seconds: these may be 1.1 and 2.9 s.
        ("train CANCELLED_by_1000 0:15 101 103", "sleep COMPLETED 0:0 101 103"),
    ],
)
def test_the_step_that_ran_longest_is_no_helper(steps: tuple[str, ...]) -> None:
    """Whatever else has completed meanwhile."""
    (_, ended) = steps[0].split(" ", 1)
    how = "with exit code 1" if " 1:0 " in ended else "by signal 15"
    assert fact(job("0:0", *steps)) == f"its step 0 (train) ended CANCELLED {how}"


BOOST = "bash FAILED 127:0 102 103"
TRAIN = "python COMPLETED 0:0 103 199"


@pytest.mark.parametrize(
    ("steps", "is_boost"),
    [
        (("hostname COMPLETED 0:0 101 102", BOOST, TRAIN), True),
        ((BOOST, TRAIN.replace("python", "bash")), True),
        # The training itself, which has failed, alone, first or last.
        ((BOOST,), False),
        (("bash FAILED 1:0 101 190", "convert COMPLETED 0:0 191 199"), False),
        (("bash COMPLETED 0:0 102 103", "bash FAILED 1:0 103 199"), False),
        ((BOOST, "bash FAILED 1:0 103 199"), False),
        (("bash CANCELLED 0:9 102 103", TRAIN), False),
    ],
)
def test_the_step_that_turns_the_boost_up_may_fail(steps: tuple[str, ...], is_boost: bool) -> None:
    status = job("127:0" if is_boost else "0:0", *steps)
    boost = boost_step(status.steps or ())
    assert (boost is not None) == is_boost
    assert (problem_of(status, (), UID, boost) is None) == is_boost


@pytest.mark.parametrize(
    ("derived", "steps", "wanted"),
    [
        ("1:0", ("false FAILED 1:0 101 102",), "0 (false) failed with exit code 1"),
        ("1:0", ("bash FAILED 1:0 101 200",), "0 (bash) failed with exit code 1"),
        # slurmctld heard of the script's end before that of the step: DerivedExitCode does not count it.
        ("0:0", ("false FAILED 1:0 101 200",), "0 (false) failed with exit code 1"),
        ("0:0", ("bash CANCELLED 0:9 101 200",), "0 (bash) ended CANCELLED by signal 9"),
        (
            "0:15",
            ("dmon CANCELLED 0:15 101 200", "train CANCELLED 0:15 101 200"),
            "0 (dmon) ended CANCELLED by signal 15, and 1 more step failed",
        ),
        ("0:0", ("bash NODE_FAIL 0:0 101 200",), "0 (bash) ended NODE_FAIL"),
        ("0:125", ("bash OUT_OF_MEMORY 0:125 101 150",), "0 (bash) ended OUT_OF_MEMORY by signal 125"),
        ("0:0", ("bash TIMEOUT 0:0 101 200",), "0 (bash) ended TIMEOUT"),
        ("0:0", ("bash RUNNING 0:0 101 Unknown",), "0 (bash) has no end on record: it is RUNNING"),
        ("0:0", ("bash EXPLODED 0:0 101 200",), "0 (bash) has no end on record: it is EXPLODED"),
        ("0:0", ("bash COMPLETED 3:0 101 150",), "0 (bash) ended with exit code 3"),
        (
            "1:0",
            ("a FAILED 1:0 101 102", "b FAILED 1:0 103 104", "c FAILED 1:0 103 104"),
            "0 (a) failed with exit code 1, and 2 more steps failed",
        ),
    ],
)
def test_a_step_that_failed(derived: str, steps: tuple[str, ...], wanted: str) -> None:
    assert fact(job(derived, *steps)) == f"its step {wanted}"


@pytest.mark.parametrize(
    ("derived", "number", "steps"),
    [
        ("0:0", 0, ("bash CANCELLED 0:9 101 201",)),
        ("0:0", 0, ("bash CANCELLED 0:6 101 200",)),
        ("0:9", 0, ("bash CANCELLED 0:9 101 200",)),
        ("0:15", 0, ("bash CANCELLED 0:15 101 200",)),
        ("0:11", 0, ("bash CANCELLED 0:11 101 200",)),
        ("0:0", 0, ("bash CANCELLED 0:9 101 199",)),
        # An administrator cancelled the training as the script ended.
        ("0:0", 0, ("train CANCELLED_by_0 0:15 101 200",)),
        ("0:0", 0, ("train CANCELLED_by_0 0:9 101 210",)),
        # After another step, none beside it, before the end, or by somebody.
        ("0:15", 1, ("fetch COMPLETED 0:0 101 110", "train CANCELLED 0:15 110 200")),
        ("0:15", 0, ("train CANCELLED 0:15 101 199", "dmon COMPLETED 0:0 101 150")),
        ("0:15", 0, ("dmon CANCELLED_by_0 0:15 101 200", "train COMPLETED 0:0 101 200")),
        # A rank that was killed, beside a helper that Slurm ended: within one second only the exit code tells.
        ("0:9", 1, ("dmon CANCELLED 0:15 101 200", "train CANCELLED 0:9 101 200")),
        # The training that somebody cancelled, alone, after another step, or not as this user.
        ("0:9", 0, ("train CANCELLED_by_1000 0:9 101 200",)),
        ("0:9", 1, ("fetch COMPLETED 0:0 101 110", "train CANCELLED_by_1000 0:9 110 200")),
        ("0:9", 0, ("dmon CANCELLED_by_0 0:9 101 180", "train COMPLETED 0:0 101 179")),
        ("0:9", 0, ("train CANCELLED_by_1000 0:9 101 150", "dmon COMPLETED 0:0 101 179")),
    ],
)
def test_a_step_that_was_cancelled_and_is_no_helper(derived: str, number: int, steps: tuple[str, ...]) -> None:
    name, _, code, *_ = steps[number].split()
    wanted = f"its step {number} ({name}) ended CANCELLED by signal {code.partition(':')[2]}"
    assert fact(job(derived, *steps)) == wanted


def test_steps_that_may_fail_are_excused_by_their_names_alone() -> None:
    status = job("3:0", "train COMPLETED 0:0 101 150", "convert FAILED 3:0 150 160")
    assert fact(status) == wording("step failed", number=1, name="convert", code=3)
    assert fact(status, "convert") is None
    assert fact(status, "conver", "train") == wording("step failed", number=1, name="convert", code=3)
    both = job("3:0", "train FAILED 2:0 101 150", "convert FAILED 3:0 150 160")
    assert fact(both, "convert") == wording("step failed", number=0, name="train", code=2)
    # sacct takes 128 from an exit code above that.
    assert fact(job("130:0", "convert FAILED 2:0 150 160"), "convert") is None
    assert fact(job("4:0", "convert FAILED 3:0 150 160"), "convert") is not None
    # A helper that Slurm ended beside it, and a rank that was killed in its shadow.
    beside = ("dmon CANCELLED 0:15 101 200", "train COMPLETED 0:0 101 199", "convert FAILED 3:0 150 160")
    assert fact(job("3:0", *beside), "convert") is None
    assert fact(job("3:0", "train CANCELLED 0:9 101 200", "convert FAILED 3:0 150 160"), "convert") is not None


def test_without_records_of_steps_only_that_one_failed_is_known() -> None:
    assert fact(job("1:0")) == wording("steps failed", code="1:0") + wording("not on record")
    known = JobStatus(JobState.COMPLETED, exit_code=0, derived_exit_code="1:0")
    assert fact(known, "convert") == wording("steps failed", code="1:0")
    assert fact(JobStatus(JobState.COMPLETED, exit_code=0, derived_exit_code="0:9")) is not None
    assert problem_of(JobStatus(JobState.COMPLETED, exit_code=0, derived_exit_code="0:0")) is None
    # slurmctld counts a helper that was ended with its job.
    assert problem_of(JobStatus(JobState.COMPLETED, exit_code=0, derived_exit_code="0:15")) is None
    assert problem_of(JobStatus(JobState.COMPLETED, exit_code=0)) is None  # as of local jobs


STEPS = st.builds(
    JobStep,
    st.from_regex(r"[0-9]{1,4}", fullmatch=True),
    st.text(st.characters(exclude_characters="\n"), max_size=20),
    st.just(JobState.FAILED),
    st.just("FAILED"),
    st.integers(0, 255),
    st.integers(0, 64),
    st.from_regex(r"n\[[0-9]{1,3}-[0-9]{1,3}\]", fullmatch=True),
    st.one_of(st.none(), st.integers(0, 2**32).map(float)),
    st.one_of(st.none(), st.integers(0, 2**32).map(float)),
)


@given(st.lists(STEPS, max_size=5))
def test_what_is_kept_of_steps_makes_them_again(steps: list[JobStep]) -> None:
    assert [JobStep.of_text(step.text) for step in steps] == steps
    assert limited_steps(tuple(steps)) == tuple(steps)
    assert limited_steps(None) is None


def test_of_many_steps_those_that_failed_are_kept() -> None:
    many: list[Any] = [JobStep(str(number), "x", JobState.COMPLETED, "COMPLETED", 0) for number in range(5000)]
    many[4999] = JobStep("4999", "x", JobState.FAILED, "FAILED", 1)
    again = limited_steps(tuple(many))
    assert again is not None
    assert (len(again), again[0].id) == (MOST_KEPT, "4999")


@given(st.lists(st.text(max_size=60), max_size=3))
def test_what_is_no_step_is_none_that_ended_well(texts: list[str]) -> None:
    assert not any(is_well(JobStep.of_text(text)) for text in texts)
