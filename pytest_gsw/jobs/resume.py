"""What a session that goes on with another does with each row: by the journal, and by what the scheduler has.

The journal may lack its end, or lines in its midst. The scheduler knows every job by its row's own name, so what it
lists is added to what the journal says before anything is submitted. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.directives import cluster_of
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, JobStatus, Named, scancel

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
    ids = {number: job.id for number, job in found.items()} | placed
    over = {attempt.job_id: attempt for attempt in past.attempts}
    top = max(ids, default=0)
    # The journal tells of the last one that another was to follow.
    now = top + 1 if not top or ids[top] in over else top
    attempts: list[Attempt] = []
    for number in range(1, now):
        job_id = ids.get(number)
        attempt = None if job_id is None else over.get(job_id) or _lost(past, job_id, found.get(number))
        spec = spec.again() if attempt is None else attempt.after(spec)
        attempts += [] if attempt is None else [attempt]
    known = set(placed.values())
    unknown = tuple(job.id for _, job in sorted(found.items()) if job.id not in known)
    past = replace(past, attempts=tuple(attempts))
    if now > top:
        return Standing(spec, past, unknown=unknown)
    if ids[now] == past.job_id:
        job = Job(ids[now], spec, past.intended_s, past.logs_before, past.other_name)
        return Standing(spec, past, job, unknown)
    # The scheduler has a job that the journal lacks: its answer was never read, or its lines are lost.
    newest = found[now]
    is_awaited = past.job_id is None and past.intended_s > 0 and now == max(placed, default=0) + 1
    since_s = past.intended_s if is_awaited else newest.status.submit_s or 0.0
    taken = Submission(since_s, newest.id, attempts=past.attempts, name=newest.name, documented=past.documented)
    if is_awaited:
        taken = replace(taken, definition=past.definition, image=past.image)
    return Standing(spec, taken, Job(newest.id, spec, since_s), unknown)


def is_next(job: Job, attempts: Iterable[Attempt]) -> bool:
    """Whether a job that was found by its name is the one that follows these attempts.

    A name that is the row's own is that of one attempt. Its id tells nothing more: a scheduler that lost its state
    gives ids out again, and :class:`~pytest_gsw.fleet.rows.Claims` says so.
    """
    return job.has_unique_name or not any(job.id == attempt.job_id for attempt in attempts)


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
        if other.id != job.id:
            ids = sorted(one.id for one in named if one.name == job.name)
            raise SubmissionError(
                f"{len(ids)} jobs have the name that only one can have: {job.name}",
                (("jobs", ", ".join(ids)),),
                advice=f"end those that are not wanted (squeue --me; scancel ID), and run {spec.row_id} anew",
            )
    return found


def _placed(spec: JobSpec, past: Submission, found: Mapping[int, Named]) -> dict[int, str]:
    """Which attempt each job is that the journal knows; it may have lost those before it.

    Raises:
        SubmissionError: The scheduler has another job in the place of one, or by its id.
    """
    numbers = {job.id: number for number, job in found.items()}
    ended_s = {attempt.job_id: attempt.status.end_s for attempt in past.attempts}
    placed: dict[int, str] = {}
    for job_id in (*(attempt.job_id for attempt in past.attempts), past.job_id):
        if job_id is None:
            continue
        expected = max(placed, default=0) + 1
        number = numbers.get(job_id, expected)
        other = found.get(number)
        if other is not None and number != expected and _is_after(other, ended_s.get(job_id)):
            raise SubmissionError(
                f"the scheduler gave the id {job_id} twice: job {job_id} had ended before {other.name} was submitted",
                (("job", job_id),),
                advice="it has lost its state, as in a restart; "
                f"end it ({scancel(cluster_of(spec), job_id)}), and run {spec.row_id} anew",
            )
        if other is not None and other.id != job_id:
            both = scancel(cluster_of(spec), job_id, other.id)
            raise SubmissionError(
                f"two jobs for one row: {job_id} by the journal, and {other.id} by the name {other.name}",
                (("jobs", f"{job_id}, {other.id}"),),
                advice=f"end both if they still run ({both}), and run {spec.row_id} anew",
            )
        placed[number] = job_id
    return placed


def _is_after(job: Named, ended_s: float | None) -> bool:
    """Whether a job was submitted after another one's end, by the scheduler's own clock."""
    return ended_s is not None and job.status.submit_s is not None and job.status.submit_s > ended_s


def _lost(past: Submission, job_id: str, job: Named | None) -> Attempt:
    """One job that is not its row's last, of which the journal does not say so."""
    if job_id == past.job_id and past.ended is not None:
        status = past.ended
    else:
        status = JobStatus(JobState.UNKNOWN) if job is None else job.status
    # One that ended well is followed by another only where a row has several jobs, all of which count.
    is_good = status.state is JobState.COMPLETED and not status.exit_code
    return Attempt(job_id, status, LOST, measured=is_good)
