"""What a session that goes on with another does with each row: by the journal, and by what the scheduler has.

The journal may lack its end, or lines in its midst. The scheduler knows every job by its row's own name, so what it
lists is added to what the journal says before anything is submitted. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.model import (
    Attempt,
    Job,
    JobKey,
    JobSpec,
    JobState,
    JobStatus,
    Named,
    in_words,
    scancel,
)

#: Why a job is not its row's last where the journal does not say so any more.
LOST = "the journal has lost why the row was run again"

_AGAIN = re.compile(r"again([0-9]{1,6})\.(.+)", re.DOTALL)


@dataclass(frozen=True)
class Standing:
    """Where a row stands when its session is taken up."""

    #: How its next job is to be started, or how its last one was.
    spec: JobSpec
    #: What is known of its last submission; ``None`` where it has had none.
    past: Submission | None = None
    #: Its job, which goes on or has ended; ``None`` where it is to be submitted.
    job: Job | None = None
    #: The jobs that the scheduler has and the journal lacks, in words.
    unknown: tuple[str, ...] = ()


def attempt_of(name: str) -> tuple[str, int]:
    """A job's name without the number of its attempt, and that number: ``again2.gsw-x`` → ``gsw-x``, 2."""
    match = _AGAIN.fullmatch(name)
    return (name, 1) if match is None else (match[2], int(match[1]))


def by_row(specs: Iterable[JobSpec], named: Iterable[Named]) -> dict[str, list[Named]]:
    """Jobs by the id of the row whose name they bear, whichever attempt they are; other users' names are left out."""
    rows = {attempt_of(spec.name)[0]: spec.row_id for spec in specs if spec.unique_name}
    found: dict[str, list[Named]] = {}
    for job in named:
        row_id = rows.get(attempt_of(job.name)[0])
        if row_id is not None:
            found.setdefault(row_id, []).append(job)
    return found


def take_up(spec: JobSpec, past: Submission | None, named: Sequence[Named]) -> Standing:
    """Where a row stands, by how its first job is started, its journal, and all jobs that the scheduler has of it.

    Raises:
        SubmissionError: Two jobs have a name that only one can have, or the journal and the scheduler name two.
    """
    past = past or Submission(0.0)
    found = _by_attempt(spec, named)
    placed = _placed(spec, past, found)
    keys = {number: job.key for number, job in found.items()} | placed
    over = {attempt.key: attempt for attempt in past.attempts}
    top = max(keys, default=0)
    # The journal tells of the last one that another was to follow.
    now = top + 1 if not top or keys[top] in over else top
    attempts: list[Attempt] = []
    for number in range(1, now):
        key = keys.get(number)
        attempt = None if key is None else over.get(key) or _lost(past, key, found.get(number))
        spec = spec.again() if attempt is None else attempt.after(spec)
        attempts += [] if attempt is None else [attempt]
    known = set(placed.values())
    unknown = tuple(in_words(job.key) for _, job in sorted(found.items()) if job.key not in known)
    past = replace(past, attempts=tuple(attempts))
    if now > top:
        return Standing(spec, past, unknown=unknown)
    if keys[now] == past.key:
        cluster, job_id = keys[now]
        return Standing(
            spec, past, Job(job_id, spec, past.intended_s, past.logs_before, cluster, past.other_name), unknown
        )
    # The scheduler has a job that the journal lacks: its answer was never read, or its lines are lost.
    newest = found[now]
    is_awaited = past.job_id is None and past.intended_s > 0 and now == max(placed, default=0) + 1
    since_s = past.intended_s if is_awaited else newest.status.submit_s or 0.0
    taken = Submission(since_s, newest.id, attempts=past.attempts, name=newest.name, documented=past.documented)
    taken = replace(taken, cluster=newest.cluster)
    if is_awaited:
        taken = replace(taken, definition=past.definition, image=past.image)
    return Standing(spec, taken, Job(newest.id, spec, since_s, cluster=newest.cluster), unknown)


def is_next(job: Job, attempts: Iterable[Attempt]) -> bool:
    """Whether a job that was found by its name is the one that follows these attempts.

    A name that is the row's own is that of one attempt. Its id tells nothing more: a scheduler that lost its state
    gives ids out again, and :class:`~pytest_gsw.jobs.claims.Claims` says so.
    """
    return job.has_unique_name or not any(job.key == attempt.key for attempt in attempts)


def changes(past: Submission, spec: JobSpec) -> tuple[str, ...]:
    """Which documented figures differ from those at the submission: ``step_time_s was 1.0, and is 1.2``."""
    then, now = past.documented, spec.documented
    names = sorted({*then, *now})
    return tuple(
        f"{name} was {_figure(then, name)}, and is {_figure(now, name)}"
        for name in names
        if then.get(name) != now.get(name)
    )


def _figure(figures: Mapping[str, float], name: str) -> str:
    return f"{figures[name]:g}" if name in figures else "not documented"


def _by_attempt(spec: JobSpec, named: Sequence[Named]) -> dict[int, Named]:
    found: dict[int, Named] = {}
    for job in named:
        _, number = attempt_of(job.name)
        other = found.setdefault(number, job)
        if other.key != job.key:
            keys = sorted(one.key for one in named if one.name == job.name)
            raise SubmissionError(
                f"{len(keys)} jobs have the name that only one can have: {job.name}",
                (("jobs", ", ".join(map(in_words, keys))),),
                advice=f"end those that are not wanted (squeue --me; scancel ID), and run {spec.row_id} anew",
            )
    return found


def _placed(spec: JobSpec, past: Submission, found: Mapping[int, Named]) -> dict[int, JobKey]:
    """Which attempt each job is that the journal knows; it may have lost those before it.

    Raises:
        SubmissionError: The scheduler has another job in the place of one, or by its id.
    """
    numbers = {job.key: number for number, job in found.items()}
    ended_s = {attempt.key: attempt.status.end_s for attempt in past.attempts}
    placed: dict[int, JobKey] = {}
    for key in (*(attempt.key for attempt in past.attempts), past.key):
        if key is None:
            continue
        expected = max(placed, default=0) + 1
        number = numbers.get(key, expected)
        other = found.get(number)
        if other is not None and number != expected and _is_after(other, ended_s.get(key)):
            raise SubmissionError(
                f"the scheduler gave the id {key[1]} twice: job {key[1]} had ended before {other.name} was submitted",
                (("job", in_words(key)),),
                advice=f"it has lost its state, as in a restart; end it ({scancel(key)}), and run {spec.row_id} anew",
            )
        if other is not None and other.key != key:
            one, two = in_words(key), in_words(other.key)
            raise SubmissionError(
                f"two jobs for one row: {one} by the journal, and {two} by the name {other.name}",
                (("jobs", f"{one}, {two}"),),
                advice=f"end both if they still run ({scancel(key, other.key)}), and run {spec.row_id} anew",
            )
        placed[number] = key
    return placed


def _is_after(job: Named, ended_s: float | None) -> bool:
    """Whether a job was submitted after another one's end, by the scheduler's own clock."""
    return ended_s is not None and job.status.submit_s is not None and job.status.submit_s > ended_s


def _lost(past: Submission, key: JobKey, job: Named | None) -> Attempt:
    """One job that is not its row's last, of which the journal does not say so."""
    if key == past.key and past.ended is not None:
        status = past.ended
    else:
        status = JobStatus(JobState.UNKNOWN) if job is None else job.status
    # One that ended well is followed by another only where a row has several jobs, all of which count.
    is_good = status.state is JobState.COMPLETED and not status.exit_code
    return Attempt(key[1], status, LOST, measured=is_good, cluster=key[0])
