"""Take over a run from an earlier session: its jobs, and the rows that were still waiting."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pytest_gsw.common.files import make_directory
from pytest_gsw.common.text import command, minute, plural
from pytest_gsw.errors import ConfigurationError, RunError, SchedulerUnreachableError, TakenOverError
from pytest_gsw.executor.executor import Executor
from pytest_gsw.jobs import journal, scripts
from pytest_gsw.jobs.model import FoundJob, Job, JobSpec, scancel
from pytest_gsw.jobs.run_lock import RunLock
from pytest_gsw.results.junit import read_run
from pytest_gsw.results.suggested_commands import is_interrupted
from pytest_gsw.session import selection
from pytest_gsw.session.collect import BaselineItem
from pytest_gsw.session.failure_text import OneLineFailure, fail
from pytest_gsw.session.node_ids import row_of
from pytest_gsw.session.state import SESSION, Session
from pytest_gsw.tables.model import BLANK

# -- Rows of a run that vanished before it was resumed or replayed: they must not be forgotten


class LostRow(OneLineFailure, pytest.Item):
    """A row of the run that has vanished: an error, with its job."""

    def __init__(self, *, text: str, path_: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._text = text
        self._place = path_

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """The row's former place."""
        return self._place, None, f"{self.name} "

    def setup(self) -> NoReturn:
        """Fail with the fact and the job."""
        fail(self._text)

    def runtest(self) -> None:
        """Do nothing: the setup fails."""


def find_lost(session: pytest.Session, past: journal.RunState, runnable: Sequence[str]) -> list[LostRow]:
    """An item for each vanished row of the run; none for rows that were left out on purpose."""
    there = set(runnable)
    missing = [node_id for node_id in past.rows if row_of(node_id) not in there]
    selects = selection.is_selective(session.config)
    left_out = [node_id for node_id in missing if selects or not _is_named(session.config, node_id)]
    if left_out:
        session.config.stash[SESSION].left_alone = _left_alone_text(past, left_out)
    return [
        LostRow.from_parent(
            session,
            name=row_of(node_id),
            nodeid=node_id,
            path_=node_id.partition("::")[0],
            text=_vanished_text(row_of(node_id), past.submissions.get(row_of(node_id)), session.config),
        )
        for node_id in missing
        if node_id not in left_out
    ]


def _is_named(config: pytest.Config, node_id: str) -> bool:
    """True if the command line names no file, or the row's, or a directory above it."""
    given: Sequence[str] = getattr(config.option, "file_or_dir", None) or ()
    table = node_id.partition("::")[0]
    file = Path(os.path.realpath(config.rootpath / table))
    for argument in given:
        if "::" in argument:
            continue
        if f"{table}/".startswith(f"{argument.rstrip('/')}/"):
            return True
        place = os.path.realpath(config.invocation_params.dir / argument)
        if file.is_relative_to(place) and file.exists():  # a real directory contains no tables from elsewhere
            return True
    return not given


def _left_alone_text(past: journal.RunState, missing: Sequence[str]) -> str:
    """The line on the jobs of rows that were left out; empty if they have none."""
    jobs = _active_submissions(past, map(row_of, missing))
    verb = "is" if len(jobs) == 1 else "are"
    return (
        f"gsw: {plural(len(jobs), 'job')} of rows that are not selected {verb} left alone: {_ids(jobs)}" if jobs else ""
    )


def left_over(session: pytest.Session, executor: Executor | None) -> list[str]:
    """Lines on how to resume an interrupted session; none for any other."""
    lines = _abandoned_lines(session, executor)
    if lines or executor is None or not executor.rows.is_interrupted:
        return lines
    # The files that are to cover the whole run in the end.
    named = (("--junitxml", "xmlpath"), ("--gsw-report", "gsw_report"))
    files = [f"{flag}={value}" for flag, name in named if (value := session.config.getoption(name, None))]
    resume = command("pytest", f"--gsw-resume={session.config.stash[SESSION].settings.run_id}", *files)
    return [f"next: {resume} goes on where this session was interrupted"]


def _abandoned_lines(session: pytest.Session, executor: Executor | None) -> list[str]:
    """Lines on the run's jobs that a session did not take over before Ctrl-C ended it."""
    settings = session.config.stash[SESSION].settings
    ended_with_it = executor is not None and not executor.launcher.jobs_outlive_session
    if session.exitstatus != pytest.ExitCode.INTERRUPTED or settings.past is None or ended_with_it:
        return []
    rows = [item.baseline.id for item in session.items if isinstance(item, BaselineItem)]
    wanted = rows or settings.past.submissions  # Ctrl-C may have hit before any row was found
    open_rows = (row_id for row_id in wanted if executor is None or row_id not in executor.rows.phases)
    jobs = _active_submissions(settings.past, open_rows)
    if not jobs:
        return []
    known = [one.job_id for one in jobs if one.job_id]
    end = f"; {_scancel(session.config, *known)} ends {'it' if len(known) == 1 else 'them'}" if known else ""
    return [
        f"gsw: {plural(len(jobs), 'job')} of the run may run on: {_ids(jobs)}",
        f"next: pytest --gsw-resume={settings.run_id} goes on with {'it' if len(jobs) == 1 else 'them'}{end}",
    ]


def _active_submissions(past: journal.RunState, row_ids: Iterable[str]) -> list[journal.Submission]:
    """Submissions of these rows whose jobs are not known to have ended."""
    submissions = [past.submissions[row_id] for row_id in row_ids if row_id in past.submissions]
    return [one for one in submissions if one.ended is None and (one.job_id is not None or one.intended_s)]


def _ids(submissions: Iterable[journal.Submission]) -> str:
    return ", ".join(one.job_id or f"one called {one.name}" for one in submissions)


def _scancel(config: pytest.Config, *ids: str) -> str:
    """The command line that ends jobs of the session's cluster."""
    cluster = config.stash[SESSION].settings.cluster
    return scancel(scripts.value_of(() if cluster is None else cluster.submission.sbatch, "clusters") or "", *ids)


def _vanished_text(row_id: str, past: journal.Submission | None, config: pytest.Config) -> str:
    fact = f"{row_id} was a row of this run, and is not there any more: renamed, removed or skipped"
    if config.stash[SESSION].settings.replay is not None:
        return f"{fact}\n\nnext       name the tables of that run: --gsw-baselines, --gsw-release or --gsw-suite"
    if past is None or (past.job_id is None and not past.intended_s):
        # Filled in, a row with a blank has another name.
        advice = "run the row anew" if BLANK in row_id else "give the row its name back, and resume again"
        return f"{fact}; it was never submitted\n\nnext       {advice}"
    if past.job_id is None:
        fate = "whether it was submitted is not known"
        end = f"look for its job: squeue --me --name={past.name}"
    elif past.ended is not None:
        fate = f"its job {past.job_id} has ended {past.ended.state.value}, and was not judged"
        end = ""
    else:
        fate = f"its job {past.job_id} may still run"
        end = f"end its job: {_scancel(config, past.job_id)}"
    advice = "give the row its name back, and resume again" + (f"; or {end}" if end else "")
    return f"{fact}; {fate}\n\nnext       {advice}"


_MOST_LINES = 5


def resume_summary(directory: Path, past: journal.RunState) -> str:
    """The line on the resumed run: its start, and the counts of its judged and remaining rows."""
    records, _ = read_run(directory)
    judged = {record.row.node_id for record in records if not is_interrupted(record)} & set(past.rows)
    rows, left = plural(len(past.rows), "row"), len(past.rows) - len(judged)
    verb, begun = "is" if len(judged) == 1 else "are", f", begun {minute(past.begun_s)}" if past.begun_s else ""
    more = "none is left" if not left else "1 is left" if left == 1 else f"{left} are left"
    return f"gsw: goes on with run {directory.name}{begun}: {len(judged)} of {rows} {verb} judged, {more} to run"


def own_run(state: Session, tell: Callable[[str], None]) -> tuple[journal.RunState | None, journal.Journal | None]:
    """Lock the run for this session; return its state at the earlier session's very end, and its journal.

    A replay, which submits nothing, has no journal, and owns nothing.

    Args:
        state: The session.
        tell: Writes a line on the screen.

    Raises:
        pytest.UsageError: Another session owns it, or nothing can be written there.
    """
    directory, past = state.settings.run_directory, state.settings.past
    lock = RunLock(directory)
    try:
        make_directory(directory, private=True)
        if state.settings.replay is not None:
            return past, None
        lock.take(tell)
        state.lock = lock
        return None if past is None else journal.read_journal(directory), journal.Journal(directory, lock.check)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None
    except OSError as error:
        raise unwritable(directory, error) from None


def unwritable(directory: Path, error: OSError) -> pytest.UsageError:
    """The error of a session that cannot write its journal."""
    room = "make room there, or " if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
    return pytest.UsageError(
        f"the results cannot be written to {directory}: {error.strerror}\n"
        f"next: {room}give another directory with --gsw-results=DIR"
    )


def take_over(
    executor: Executor, past: journal.RunState | None, specs: dict[str, JobSpec | RunError], tell: Callable[[str], None]
) -> dict[str, journal.Submission]:
    """Take over the jobs of a resumed run; only the rest is submitted.

    Args:
        executor: The executor, which gets the jobs.
        past: The run so far; ``None`` for a new one.
        specs: How each row is started, or why it cannot be; rows whose jobs are taken over are removed.
        tell: Writes a line on the screen.

    Returns:
        The latest submission of each row: its job's; or, if it is still to be submitted, its earlier attempts and
        a submission that may have got through while the scheduler does not answer.

    Raises:
        pytest.UsageError: The journal is damaged, and the scheduler does not answer.
    """
    if past is None:
        return {}
    plan = _ResumePlan(executor, past, tell)
    wanted = [spec for spec in specs.values() if isinstance(spec, JobSpec)]
    _report_damage(past, tell)
    plan.ask(wanted)
    taken: dict[str, journal.Submission] = {}
    for spec in wanted:
        row_id = spec.row_id
        try:
            state = plan.state_of(spec)
        except RunError as error:
            specs[row_id] = error
            executor.rows.started[row_id] = spec
            continue
        submission, job = state.past, state.job
        specs[row_id] = state.spec
        if job is not None and (submission.ended is not None or executor.launcher.jobs_outlive_session):
            executor.attach(job, submission)
            taken[row_id] = dataclasses.replace(submission, job_id=job.id)
            del specs[row_id]
            if submission.definition and (changed := journal.changes(submission, spec)):
                tell(f"gsw: {row_id}: its table has changed since its job was submitted: {'; '.join(changed)}")
        elif submission.job_id is None:
            taken[row_id] = submission
        else:  # its job ended with its session; those before it did not
            taken[row_id] = dataclasses.replace(submission, job_id=None, intended_s=0.0)
    return taken


class _ResumePlan:
    """The states of rows, by the journal and by the scheduler."""

    def __init__(self, executor: Executor, past: journal.RunState, tell: Callable[[str], None]) -> None:
        self._launcher = executor.launcher
        self._past = past
        self._tell = tell
        self._since_s = past.begun_s
        #: The jobs of each row at the scheduler; ``None`` if the launcher cannot list all of them at once.
        self._named: Mapping[str, list[FoundJob]] | None = None
        self._away = False
        self._hangs: RunError | None = None

    def ask(self, specs: Iterable[JobSpec]) -> None:
        """List all jobs of these rows at once, if the launcher can do so.

        Raises:
            pytest.UsageError: Another session has the run; or the journal is damaged, and the scheduler does not
                answer.
        """
        unique = [spec for spec in specs if spec.unique_name]
        try:
            named = self._launcher.named(unique, self._since_s) if unique else None
            self._named = None if named is None else journal.by_row(unique, named)
        except TakenOverError as error:
            raise pytest.UsageError(
                f"{error}\nnext: wait until it has ended, or end it there, and resume then"
            ) from None
        except RunError as error:
            if self._past.damage:
                raise pytest.UsageError(
                    f"the run cannot be resumed now: its journal is damaged, and {error.fact}\n"
                    "next: resume it again when the scheduler answers"
                ) from None
            self._away = isinstance(error, SchedulerUnreachableError)
            self._hangs = None if self._away else error

    def state_of(self, spec: JobSpec) -> journal.ResumeState:
        """The state of a row.

        Raises:
            RunError: It is unknown, or the row has two jobs.
        """
        past = self._past.submissions.get(spec.row_id)
        if self._named is not None and spec.unique_name:
            state = journal.take_up(spec, past, self._named.get(spec.row_id, ()))
            if state.unknown:
                jobs = plural(len(state.unknown), "job")
                self._tell(f"gsw: {spec.row_id}: found {jobs} that the journal lacks: {', '.join(state.unknown)}")
            submission = state.past
            if submission.intended_s and state.job is None and spec.launch.submits_itself:
                return self._look_up(state)  # by its script's answer: the job may have another name
            if submission.job_id is None:
                # The scheduler has none of its jobs: nothing has to be looked up again.
                state = dataclasses.replace(state, past=dataclasses.replace(submission, intended_s=0.0))
            return state
        state = journal.take_up(spec, past, ())
        if state.job is not None or not self._launcher.jobs_outlive_session:
            return state
        return self._look_up(state)

    def _look_up(self, state: journal.ResumeState) -> journal.ResumeState:
        """Look up a row's job by itself."""
        spec, past = state.spec, state.past
        if not (past.intended_s or spec.unique_name or self._past.damage):
            return state  # other sessions' jobs have its name as well
        since_s = past.intended_s or self._since_s
        if self._hangs is not None:
            raise self._hangs
        job: Job | None = None
        if not self._away:
            # The answer of a submission may not have been read, or written down. The job may be there all the same.
            try:
                job = self._launcher.find(spec, since_s)
            except SchedulerUnreachableError:
                self._away = True  # one query without an answer is enough: the executor repeats it later
        if job is not None and not journal.is_next(job, past.attempts):
            job = None
        since_s = since_s if self._away else 0.0
        return dataclasses.replace(state, past=dataclasses.replace(past, intended_s=since_s), job=job)


def _report_damage(past: journal.RunState, tell: Callable[[str], None]) -> None:
    for line in past.damage[:_MOST_LINES]:
        tell(f"gsw: {line}")
    more = len(past.damage) - _MOST_LINES
    if more > 0:
        tell(f"gsw: and {plural(more, 'line')} more")
    if past.damage:
        tell("gsw: so every row of the run is looked up by its job's name before anything is submitted")
