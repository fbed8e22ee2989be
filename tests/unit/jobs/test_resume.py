"""What a session that goes on with another does with each row, by a journal that may be damaged and by the scheduler."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError, SubmissionError
from pytest_gsw.jobs.journal import (
    LOST,
    ResumeState,
    RunState,
    Submission,
    attempt_of,
    by_row,
    changes,
    read_lines,
    run_state_of,
    seal,
    take_up,
)
from pytest_gsw.jobs.model import Attempt, FoundJob, Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus

RUNNING = JobStatus(JobState.RUNNING, submit_s=1000.0)
GOOD = JobStatus(JobState.COMPLETED, exit_code=0, submit_s=1000.0)
BAD = JobStatus(JobState.NODE_FAIL, exit_code=0, submit_s=1000.0)
DIRECTORY = Path("/r/runs/R")


def spec(row_id: str = "a") -> JobSpec:
    name = f"gsw-R-{row_id}"
    return JobSpec(row_id, name, Path("/l"), Path("/r"), Path("/s"), 1, 8, {}, unique_name=True)


def named(job_id: str, attempt: int = 1, status: JobStatus = RUNNING, row_id: str = "a") -> FoundJob:
    name = f"gsw-R-{row_id}" if attempt == 1 else f"again{attempt}.gsw-R-{row_id}"
    return FoundJob(job_id, name, status)


def test_a_row_of_which_nobody_knows_a_job() -> None:
    assert take_up(spec(), None, ()) == ResumeState(spec(), Submission(0.0))
    assert take_up(spec(), Submission(5.0), ()) == ResumeState(spec(), Submission(5.0))


def test_a_job_that_the_journal_has() -> None:
    past = Submission(5.0, "7")
    for found in ((), (named("7"),)):
        assert take_up(spec(), past, found) == ResumeState(spec(), past, Job("7", spec(), 5.0))


def test_a_submission_whose_answer_was_lost_is_found_with_its_definition() -> None:
    standing = take_up(spec(), Submission(5.0, definition="abc", image="x"), [named("7")])
    assert standing == ResumeState(
        spec(), Submission(5.0, "7", definition="abc", image="x"), Job("7", spec(), 5.0), ("7",)
    )


def test_a_job_of_which_the_journal_says_nothing() -> None:
    standing = take_up(spec(), None, [named("7", status=GOOD)])
    assert (standing.job, standing.unknown) == (Job("7", spec(), 1000.0), ("7",))


def test_a_further_job_that_the_journal_lacks_takes_the_place_of_the_one_before() -> None:
    standing = take_up(spec(), Submission(5.0, "7", ended=GOOD), [named("7", status=GOOD), named("9", 2)])
    assert standing.past.attempts == (Attempt("7", GOOD, LOST, measured=True),)
    assert (standing.past.job_id, standing.past.ended, standing.unknown) == ("9", None, ("9",))
    assert (standing.spec.name, standing.spec.attempt) == ("again2.gsw-R-a", 2)
    standing = take_up(spec(), None, [named("7", status=BAD), named("8", 2, BAD), named("9", 3)])
    assert [(one.job_id, one.measured) for one in standing.past.attempts] == [("7", False), ("8", False)]
    assert standing.spec.name == "again3.gsw-R-a"


def test_attempts_of_the_journal_stay() -> None:
    attempt = Attempt("7", BAD, "node failure", ("n17",))
    standing = take_up(spec(), Submission(0.0, attempts=(attempt,)), [named("7", status=BAD), named("9", 2)])
    assert (standing.past.attempts, standing.past.job_id) == ((attempt,), "9")
    assert standing.spec.excluded_nodes == ("n17",)


def test_two_jobs_of_one_row_are_an_error_that_names_both() -> None:
    with pytest.raises(SubmissionError) as error:
        take_up(spec(), None, [named("7"), named("8")])
    assert str(error.value) == (
        "2 jobs have the name that only one can have: gsw-R-a\n"
        "\n"
        "jobs       7, 8\n"
        "next       end those that are not wanted (squeue --me; scancel ID), and run a anew"
    )
    with pytest.raises(SubmissionError, match=r"^two jobs for one row: 7 by the journal, and 8 by the name gsw-R-a\n"):
        take_up(spec(), Submission(5.0, "7", ended=GOOD), [named("8")])


def test_whose_jobs_they_are() -> None:
    assert attempt_of("again12.gsw-R-a") == ("gsw-R-a", 12)
    assert attempt_of("gsw-R-again2.a") == ("gsw-R-again2.a", 1)
    jobs = [
        named("1"),
        named("2", 2),
        named("3", row_id="b"),
        FoundJob("4", "gsw-R-", RUNNING),
        FoundJob("5", "", RUNNING),
    ]
    assert by_row([spec(), replace(spec("b"), unique_name=False)], jobs) == {"a": jobs[:2]}


def test_figures_that_have_changed() -> None:
    now = replace(spec(), documented={"step_time_s": 1.25, "mfu": 0.4})
    assert changes(Submission(0.0, documented={"step_time_s": 1.25, "mfu": 0.4}), now) == ()
    assert changes(Submission(0.0, documented={"step_time_s": 1.0, "tokens_per_s": 5.0}), now) == (
        "mfu was not documented, and is 0.4",
        "step_time_s was 1, and is 1.25",
        "tokens_per_s was 5, and is not documented",
    )


# -- what a journal that is damaged says ----------------------------------------------------------


def status_event(state: str, exit_code: int) -> dict[str, object]:
    texts = {"raw_state": state, "reason": "", "nodes": "n1", "derived_exit_code": "", "unchecked": ""}
    times = {"submit_s": 1000, "start_s": 1001, "end_s": 1002}
    steps = {"steps": None, "siblings": []}
    return {"event": "ended", "state": state, "exit_code": exit_code, "signal": 0, **texts, **times, **steps}


def a_life(dice: random.Random) -> tuple[list[bytes], bytes, dict[str, list[FoundJob]]]:
    """A session that was killed: its journal, the copy of its first line, and what the scheduler has by row."""
    rows = [f"r{number}" for number in range(12)]
    first = {"event": "session", "cluster": "eos", "rows": [f"t.yaml::{row}" for row in rows], "time_s": 1000}
    first |= {"release": None, "paths": {}}
    defined = {"definition": "", "image": None, "documented": {}, "variables": None}
    events: list[dict[str, object]] = [first]
    jobs: dict[str, list[FoundJob]] = {}
    ids = iter(range(100, 999))
    for row in rows:
        for attempt in range(1, dice.choice([1, 1, 2, 3, 4])):
            events.append({"event": "intent", "row": row, "name": spec(row).name, "time_s": 1000.5, **defined})
            if dice.random() < 0.1:
                events.append({"event": "refused", "row": row})
                break
            taken, job_id = dice.random() < 0.95, str(next(ids))
            ends = dice.choice([("COMPLETED", 0), ("NODE_FAIL", 0)])
            goes_on = dice.random() < 0.7
            if taken:
                status = JobStatus(JobState(ends[0] if goes_on else "RUNNING"), exit_code=ends[1], submit_s=1000.0)
                jobs.setdefault(row, []).append(named(job_id, attempt, status, row))
            if not taken or dice.random() < 0.1:
                break  # killed before the answer was written down
            known = {"other_name": "", "logs_before": None}
            events.append({"event": "submitted", "row": row, "job": job_id, "time_s": 1000.5, **known})
            if not goes_on:
                break
            events.append({**status_event(*ends), "row": row, "job": job_id})
            why = {"why": "x", "without": [], "measured": ends[0] == "COMPLETED"}
            events.append({"event": "repeated", "row": row, "job": job_id, **why})
    return [seal(event, number) for number, event in enumerate(events, 1)], seal(first, 1), jobs


def damaged(dice: random.Random, lines: list[bytes]) -> tuple[str, bytes]:
    content = bytearray(b"".join(lines))
    kind = dice.choice(["flip", "nul", "block", "cut", "twice", "dropped", "swapped", "garbage"])
    place, line = dice.randrange(len(content)), dice.randrange(len(lines))
    if kind == "flip":
        content[place] ^= 1 << dice.randrange(8)
    elif kind == "nul":
        content[place] = 0
    elif kind == "block":
        end = min(len(content), place + dice.choice([16, 512, 4096]))
        content[place:end] = bytes(end - place)
    elif kind == "cut":
        del content[place:]
    elif kind == "twice":
        return kind, b"".join([*lines[: line + 1], *lines[line:]])
    elif kind == "dropped":
        return kind, b"".join([*lines[:line], *lines[line + 1 :]])
    elif kind == "swapped":
        other = max(0, line - 1)
        lines = list(lines)
        lines[line], lines[other] = lines[other], lines[line]
        return kind, b"".join(lines)
    else:
        content[place:place] = bytes(dice.randrange(256) for _ in range(8))
    return kind, bytes(content)


def decided(past: RunState, jobs: dict[str, list[FoundJob]]) -> dict[str, ResumeState]:
    return {
        row: take_up(spec(row), past.submissions.get(row), jobs.get(row, ()))
        for row in (node_id.partition("::")[2] for node_id in past.rows)
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_two_hundred_damages_lose_no_row_submit_none_twice_and_are_told(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - damages, not secrets
    for trial in range(200):
        if trial % 20 == 0:
            lines, copy, jobs = a_life(dice)
            sound = run_state_of(b"".join(lines), copy, DIRECTORY)
            assert sound.damage == ()
            whole = decided(sound, jobs)
        kind, content = damaged(dice, lines)
        past = run_state_of(content, copy, DIRECTORY)
        found = decided(past, jobs)
        assert past.rows == sound.rows, (kind, trial)
        for row, standing in found.items():
            ids = [job.id for job in jobs.get(row, ())]
            attempts = [attempt.job_id for attempt in standing.past.attempts]
            # Its newest job is taken up, or the next one is submitted, under a name that none has had.
            assert [*attempts, *([standing.job.id] if standing.job else [])] == ids, (kind, trial, row)
            assert standing.job or row not in jobs or whole[row].job is None, (kind, trial, row)
            assert standing.spec.attempt == len(attempts) + 1, (kind, trial, row)
        if not past.damage:
            # The end of a journal may be gone without a trace: what it lacks is found by name, and told then.
            assert b"".join(lines).startswith(content), (kind, trial)
            for row, standing in found.items():
                own = past.submissions.get(row, Submission(0.0))
                known = {own.job_id, *(attempt.job_id for attempt in own.attempts)}
                assert set(standing.unknown) == {job.id for job in jobs.get(row, ())} - known, (kind, trial, row)
        else:
            assert all(line.startswith("/r/runs/R/journal.jsonl:") for line in past.damage)


def test_a_damaged_copy_does_no_harm_while_the_journal_is_sound() -> None:
    lines, copy, _ = a_life(random.Random(1))  # noqa: S311
    past = run_state_of(b"".join(lines), copy[:40], DIRECTORY)
    assert (past.damage, len(past.rows)) == ((), 12)


def test_a_run_whose_rows_nobody_knows_any_more() -> None:
    lines, _, _ = a_life(random.Random(1))  # noqa: S311
    with pytest.raises(ConfigurationError) as error:
        run_state_of(b"\0" * 50 + b"\n" + b"".join(lines[1:]), b"\0" * 50, DIRECTORY)
    assert str(error.value) == (
        "the run R cannot be resumed: which rows it had is not known: /r/runs/R/journal.jsonl:1 is not readable\n"
        "next: squeue --me lists its jobs, whose names have R in them; end them with scancel, and run the rows anew"
    )


def test_what_is_wrong_with_lines() -> None:
    lines = [seal({"event": "x"}, number) for number in range(1, 8)]
    content = b"".join([lines[0], lines[0], lines[2], b"\0\0\n", lines[6], lines[6][:9]])
    assert read_lines(content).damage == (
        (2, "is number 1, and number 1 comes before it"),
        (3, "is number 3: number 2 of the journal is lost"),
        (4, "is not readable"),
        (5, "is number 7: numbers 4 to 6 of the journal are lost"),
        (6, "is cut: its session ended while it was written"),
    )
