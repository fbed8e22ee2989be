"""A session takes a run, and what an earlier session of it has left: its jobs, and the rows that were still waiting."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from pytest_gsw.common.files import make_directory
from pytest_gsw.common.words import counted, minute
from pytest_gsw.errors import ConfigurationError, RunError, SchedulerAwayError
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.jobs.journal import Journal, Past, Standing, Submission, by_row, changes, is_next, read_journal, take_up
from pytest_gsw.jobs.model import Job, JobSpec, Named
from pytest_gsw.jobs.ownership import RunLock
from pytest_gsw.results.next_steps import is_interrupted
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.session.settings import Settings

#: The session's hold of its run.
_LOCK = pytest.StashKey[RunLock]()
_LINES_TOLD = 5


def told_of_past(directory: Path, past: Past) -> str:
    """With which run a session goes on, since when that has been there, and what of it is left to do; one line."""
    records, _ = read_run(directory)
    judged = {record.row.node_id for record in records if not is_interrupted(record)} & set(past.rows)
    rows, left = counted(len(past.rows), "row"), len(past.rows) - len(judged)
    verb, begun = "is" if len(judged) == 1 else "are", f", begun {minute(past.begun_s)}" if past.begun_s else ""
    more = "none is left" if not left else "1 is left" if left == 1 else f"{left} are left"
    return f"gsw: goes on with run {directory.name}{begun}: {len(judged)} of {rows} {verb} judged, {more} to run"


def own_run(config: pytest.Config, settings: Settings, tell: Callable[[str], None]) -> tuple[Settings, Journal | None]:
    """Take the run for this session; what is returned knows what an earlier session wrote until its very end.

    A replay, which submits nothing, has no journal, and owns nothing.

    Args:
        config: pytest's.
        settings: The session's.
        tell: Writes a line on the screen.

    Raises:
        pytest.UsageError: Another session owns it, or nothing can be written there.
    """
    directory = settings.run_directory
    lock = RunLock(directory)
    try:
        make_directory(directory, private=True)
        if settings.replay is not None:
            return settings, None
        lock.take(tell)
        config.stash[_LOCK] = lock
        if settings.past is not None:
            settings = dataclasses.replace(settings, past=read_journal(directory))
        return settings, Journal(directory, lock.check)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None
    except OSError as error:
        raise unwritable(directory, error) from None


def unwritable(directory: Path, error: OSError) -> pytest.UsageError:
    """What a session says that cannot write down what it is about to do."""
    room = "make room there, or " if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
    return pytest.UsageError(
        f"the results cannot be written to {directory}: {error.strerror}\n"
        f"next: {room}give another directory with --gsw-results=DIR"
    )


def leave_run(config: pytest.Config) -> None:
    """Let go of the run, at the session's end."""
    lock = config.stash.get(_LOCK, None)
    if lock is not None:
        lock.release()


def take_over(
    fleet: Fleet, past: Past | None, specs: dict[str, JobSpec | RunError], tell: Callable[[str], None]
) -> tuple[dict[str, Submission], dict[str, Submission]]:
    """Of a session that is resumed: take its jobs over, so that only the rest is submitted.

    Args:
        fleet: What gets the jobs.
        past: What the earlier session has left; ``None`` where there was none.
        specs: How each row is started, or why it cannot be; rows whose jobs are taken over are removed.
        tell: Writes a line on the screen.

    Returns:
        What that session did for rows that are still to be submitted: earlier attempts, and submissions
        of which the scheduler cannot say now whether they got through. And what it did for those that
        have a job.

    Raises:
        pytest.UsageError: The journal is damaged, and the scheduler does not tell what it lacks.
    """
    if past is None:
        return {}, {}
    taking = _Taking(fleet, past, tell)
    wanted = [spec for spec in specs.values() if isinstance(spec, JobSpec)]
    _tell_damage(past, tell)
    taking.ask(wanted)
    left: dict[str, Submission] = {}
    attached: dict[str, Submission] = {}
    for spec in wanted:
        row_id = spec.row_id
        try:
            standing = taking.standing(spec)
        except RunError as error:
            specs[row_id] = error
            fleet.started[row_id] = spec
            continue
        submission, job = standing.past, standing.job
        specs[row_id] = standing.spec
        if submission is None:
            continue
        if job is not None and (submission.ended is not None or fleet.launcher.jobs_outlive_session):
            fleet.attach(job, submission)
            attached[row_id] = dataclasses.replace(submission, job_id=job.id)
            del specs[row_id]
            _tell_changes(submission, spec, tell)
        elif submission.job_id is None:
            left[row_id] = submission
        else:  # its job ended with its session; those before it did not
            left[row_id] = dataclasses.replace(submission, job_id=None, intended_s=0.0)
    return left, attached


class _Taking:
    """Where rows stand, by the journal and by what the scheduler says."""

    def __init__(self, fleet: Fleet, past: Past, tell: Callable[[str], None]) -> None:
        self._launcher = fleet.launcher
        self._past = past
        self._tell = tell
        self._since_s = past.begun_s
        #: By row, its jobs as the scheduler has them; ``None`` where it was not asked about all of them at once.
        self._named: Mapping[str, list[Named]] | None = None
        self._away = False
        self._hangs: RunError | None = None

    def ask(self, specs: Iterable[JobSpec]) -> None:
        """Ask for all jobs of these rows at once, if the launcher can do so.

        Raises:
            pytest.UsageError: The journal is damaged, and the scheduler does not tell what it lacks.
        """
        named = getattr(self._launcher, "named", None)
        unique = [spec for spec in specs if spec.unique_name]
        if named is None or not unique:
            return
        try:
            self._named = by_row(unique, named(unique, self._since_s))
        except SchedulerAwayError as error:
            self._away = True
            self._refuse_damage(error)
        except RunError as error:
            self._hangs = error
            self._refuse_damage(error)

    def _refuse_damage(self, error: RunError) -> None:
        if self._past.damage:
            raise pytest.UsageError(
                f"the run cannot be resumed now: its journal is damaged, and {error.fact}\n"
                "next: resume it again when the scheduler answers"
            )

    def standing(self, spec: JobSpec) -> Standing:
        """Where a row stands.

        Raises:
            RunError: That is not known, or it has two jobs.
        """
        past = self._past.submissions.get(spec.row_id)
        if self._named is not None and spec.unique_name:
            standing = take_up(spec, past, self._named.get(spec.row_id, ()))
            if standing.unknown:
                jobs = counted(len(standing.unknown), "job")
                self._tell(f"gsw: {spec.row_id}: found {jobs} that the journal lacks: {', '.join(standing.unknown)}")
            submission = standing.past
            if submission is not None and submission.intended_s and standing.job is None and spec.submits_itself:
                return self._looked_up(standing)  # by its script's answer: the job may have another name
            if submission is not None and submission.job_id is None:
                # The scheduler has none of its jobs, so that nothing has to be looked for again.
                standing = dataclasses.replace(standing, past=dataclasses.replace(submission, intended_s=0.0))
            return standing
        standing = take_up(spec, past, ())
        if standing.job is not None or not self._launcher.jobs_outlive_session:
            return standing
        return self._looked_up(standing)

    def _looked_up(self, standing: Standing) -> Standing:
        """A row without a job, once it was looked for by itself."""
        spec, past = standing.spec, standing.past or Submission(0.0)
        if not (past.intended_s or spec.unique_name or self._past.damage):
            return standing  # other sessions' jobs have its name as well
        since_s = past.intended_s or self._since_s
        if self._hangs is not None:
            raise self._hangs
        job: Job | None = None
        if not self._away:
            # The answer of a submission may not have been read, or written down. The job may be there all the same.
            try:
                job = self._launcher.find(spec, since_s)
            except SchedulerAwayError:
                self._away = True  # one question without an answer is enough: the fleet asks again in a while
        if job is not None and not is_next(job, past.attempts):
            job = None
        since_s = since_s if self._away else 0.0
        return dataclasses.replace(standing, past=dataclasses.replace(past, intended_s=since_s), job=job)


def _tell_damage(past: Past, tell: Callable[[str], None]) -> None:
    for line in past.damage[:_LINES_TOLD]:
        tell(f"gsw: {line}")
    more = len(past.damage) - _LINES_TOLD
    if more > 0:
        tell(f"gsw: and {counted(more, 'line')} more")
    if past.damage:
        tell("gsw: so every row of the run is looked up by its job's name before anything is submitted")


def _tell_changes(past: Submission, spec: JobSpec, tell: Callable[[str], None]) -> None:
    changed = changes(past, spec)
    if changed:
        tell(f"gsw: {spec.row_id}: its table has changed since its job was submitted: {'; '.join(changed)}")
