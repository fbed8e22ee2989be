"""A site's own launcher, held to the contract while the session runs.

Whatever it raises becomes an error of the rows that are concerned, with its name and place, and whatever
it answers is looked at before anything is decided by it. So one launcher's fault ends neither the
session nor another row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from pytest_gsw.errors import HookError, JobError, LogError, RunError, SubmissionError
from pytest_gsw.hooks.checks import job_id_problem, launcher_problems, status_problem
from pytest_gsw.hooks.faults import hook_error, not_that, wrong_answer
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher, Named
from pytest_gsw.logs.model import LogFormat, Parser, StepLog, Tail

#: The plugins of a session by their names.
Plugins = Sequence[tuple[str, object]]

#: What callers know of a method alone; of the others they know each error of a run.
_STRICT = (JobError, LogError)

#: How a launcher that fails has come in.
_HOOK = ("hook", "pytest_gsw_make_launcher")

#: How a launcher is asked for all jobs of a run.
NamedJobs = Callable[[Sequence[JobSpec], float], tuple[Named, ...]]

#: So many different faults of a launcher are told.
_MOST_TOLD = 5

_Answer = TypeVar("_Answer")


def is_own(value: object) -> bool:
    """Whether a launcher or a log format came with pytest-gsw, and not with a site."""
    return type(value).__module__.partition(".")[0] == "pytest_gsw"


def guarded_format(log_format: LogFormat, plugins: Callable[[], Plugins]) -> LogFormat:
    """A site's own log format, held to its contract; one that came with pytest-gsw as it is."""
    return log_format if is_own(log_format) else _GuardedFormat(log_format, plugins)


class _GuardedFormat:
    """A log format of a site; a fault of it is a ``LogError``."""

    def __init__(self, log_format: LogFormat, plugins: Callable[[], Plugins]) -> None:
        self._format = log_format
        self._plugins = plugins

    def __getattr__(self, name: str) -> Any:
        """What it says of itself."""
        return getattr(self._format, name)

    def reader(self) -> Parser:
        """A parser that has been fed nothing yet."""
        return _GuardedParser(_asked(self._plugins, self._format.reader), type(self._format).__name__, self._plugins)


class _GuardedParser:
    """A parser of a site's format: whatever it raises is an error of the log."""

    def __init__(self, parser: Any, name: str, plugins: Callable[[], Plugins]) -> None:
        self._parser = parser
        self._name = name
        self._plugins = plugins
        self.guards_itself: bool = getattr(parser, "guards_itself", False)

    def feed(self, offset: int, record: bytes) -> None:
        """Take the next record."""
        _asked(self._plugins, self._parser.feed, offset, record)

    def log(self) -> StepLog:
        """What all records fed by now say."""
        log: object = _asked(self._plugins, self._parser.log)
        if not isinstance(log, StepLog):
            raise LogError(f"the parser of {self._name} returned {type(log).__name__}, wanted a StepLog")
        return log

    def tail(self, count: int) -> Tail:
        """The end of the log."""
        tail: Tail = self._parser.tail(count)
        return tail

    def __deepcopy__(self, memo: dict[int, Any]) -> _GuardedParser:
        return _GuardedParser(_asked(self._plugins, deepcopy, self._parser, memo), self._name, self._plugins)


def _asked(plugins: Callable[[], Plugins], method: Callable[..., _Answer], *arguments: object) -> _Answer:
    try:
        return method(*arguments)
    except RunError:
        raise
    except Exception as error:
        found = hook_error(error, plugins())
        raise LogError(found.fact, found.evidence, advice=found.advice) from error


def guarded_launcher(
    launcher: Launcher, hook: Any, plugins: Callable[[], Plugins], tell: Callable[[str], None]
) -> Launcher:
    """What the hook for launchers returned, held to its contract; one that came with pytest-gsw as it is.

    Raises:
        HookError: It is no launcher, or raises when it is asked what it is.
    """
    if is_own(launcher):
        return launcher
    try:
        problems = launcher_problems(launcher)
        if not problems:
            return GuardedLauncher(launcher, plugins, tell)
    except Exception as error:
        raise _failing(HookError, error, plugins) from error
    raise wrong_answer(hook, not_that(launcher, "launcher", problems))


def _failing(kind: type[RunError], error: BaseException, plugins: Callable[[], Plugins]) -> RunError:
    found = hook_error(error, plugins())
    return kind(f"the launcher fails: {found.fact}", (_HOOK, *found.evidence), advice=found.advice)


class GuardedLauncher:
    """A launcher of a site. What it says of itself is read once; its version, which may take a command, when asked for.

    Each method raises what :class:`~pytest_gsw.jobs.model.Launcher` says, whatever the site's own raises.

    Args:
        launcher: The site's.
        plugins: The session's plugins, for the names of those that fail.
        tell: Tells the user of a question that the launcher did not answer, once.
    """

    def __init__(
        self, launcher: Launcher, plugins: Callable[[], Plugins], tell: Callable[[str], None] = lambda _line: None
    ) -> None:
        self._launcher = launcher
        self._plugins = plugins
        self._tell = tell
        self._told: set[str] = set()
        self.name = launcher.name
        self.log_wait_s = launcher.log_wait_s
        self.poll_interval_s = launcher.poll_interval_s
        self.parallel_submissions = launcher.parallel_submissions
        self.jobs_outlive_session = launcher.jobs_outlive_session
        self.cluster_keys: Collection[str] = getattr(launcher, "cluster_keys", ())
        #: Asks for all jobs of a run at once; ``None`` where the launcher cannot.
        self.named: NamedJobs | None = self._all_named if hasattr(launcher, "named") else None

    @property
    def version(self) -> str:
        """The scheduler's version, "" where the launcher does not tell."""
        try:
            version: object = self._ask(HookError, getattr, self._launcher, "version", "")
        except RunError as error:
            self._tell_once(error.fact)  # no verdict rests on it
            return ""
        return version if isinstance(version, str) else ""

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """The exact command that :meth:`submit` runs."""
        command = self._ask(HookError, self._launcher.command, spec)
        return tuple(map(str, command))

    def submit(self, spec: JobSpec) -> Job:
        """Start one job."""
        return self._job("submit", self._ask(SubmissionError, self._launcher.submit, spec), spec)

    def find(self, spec: JobSpec, since_s: float) -> Job | None:
        """The job that was submitted for this spec at or after a time, by its name."""
        job = self._ask(SubmissionError, self._launcher.find, spec, since_s)
        return None if job is None else self._job("find", job, spec)

    def _all_named(self, specs: Sequence[JobSpec], since_s: float) -> tuple[Named, ...]:
        """All jobs that bear these rows' own names, whichever attempt they are."""
        named = getattr(self._launcher, "named")  # noqa: B009 - it is optional, so that the contract lacks it
        jobs: object = self._ask(SubmissionError, named, specs, since_s)
        if not isinstance(jobs, Collection) or not all(isinstance(job, Named) for job in jobs):
            raise SubmissionError(self._wrong("named", f"{jobs!r}, wanted a tuple of Named"))
        for job in jobs:
            problem = job_id_problem(job.id) or status_problem(job.status)
            if problem is not None or not isinstance(job.name, str):
                raise SubmissionError(self._wrong("named", f"{job!r}: {problem or 'its name is no text'}"))
        return tuple(jobs)

    def poll(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of each job by its row's id; unknown, with the reason, where the launcher fails."""
        try:
            answers: object = self._ask(HookError, self._launcher.poll, jobs)
        except RunError as error:
            return dict.fromkeys((job.spec.row_id for job in jobs), self._unknown(error.fact))
        if not isinstance(answers, Mapping):
            why = self._wrong("poll", f"{type(answers).__name__}, wanted a mapping of row ids to JobStatus")
            return dict.fromkeys((job.spec.row_id for job in jobs), self._unknown(why))
        return {job.spec.row_id: self._status(job, answers) for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all these jobs."""
        self._ask(JobError, self._launcher.cancel, jobs)

    def find_log(self, job: Job) -> Path:
        """The one log that belongs to this job."""
        log = self._ask(LogError, self._launcher.find_log, job)
        if not isinstance(log, Path):
            raise LogError(self._wrong("find_log", f"{log!r}, wanted a pathlib.Path; none is a LogError"))
        return log

    def batch_output(self, job: Job) -> Path | None:
        """The batch shell's own output, as far as the launcher tells it."""
        try:
            output = self._ask(HookError, self._launcher.batch_output, job)
        except RunError:
            return None  # it explains failures, and decides nothing
        return output if isinstance(output, Path) else None

    def close(self) -> None:
        """Let go of whatever is held."""
        self._ask(JobError, self._launcher.close)

    def _ask(self, kind: type[RunError], method: Callable[..., _Answer], *arguments: object) -> _Answer:
        try:
            return method(*arguments)
        except RunError as error:
            if kind not in _STRICT or isinstance(error, kind):
                raise
            raise kind(error.fact, error.evidence, error.tail, error.advice) from error
        except (Exception, SystemExit) as error:
            raise _failing(kind, error, self._plugins) from error

    def _job(self, method: str, job: object, spec: JobSpec) -> Job:
        if not isinstance(job, Job):
            raise SubmissionError(self._wrong(method, f"{type(job).__name__}, wanted a Job"))
        problem = job_id_problem(job.id)
        if problem is None and job.spec.row_id != spec.row_id:
            problem = f"{job.id!r} for {spec.row_id}, but with the spec of {job.spec.row_id}"
        if problem is not None:
            raise SubmissionError(self._wrong(method, f"a Job whose id is {problem}"))
        return job

    def _status(self, job: Job, answers: Mapping[str, object]) -> JobStatus:
        answer = answers.get(job.spec.row_id)
        if isinstance(answer, JobStatus):
            problem = status_problem(answer)
            if problem is None:
                return answer
            return self._unknown(self._wrong("poll", f"for {job.spec.row_id} a JobStatus with {problem}"))
        if answer is not None:
            return self._unknown(self._wrong("poll", f"{answer!r} for {job.spec.row_id}, wanted a JobStatus"))
        if job.id in answers:
            why = f"job {job.id} by the job's id; statuses are by the row's id, job.spec.row_id"
            return self._unknown(self._wrong("poll", why))
        return JobStatus(JobState.UNKNOWN, reason="no answer")

    def _wrong(self, method: str, what: str) -> str:
        return f"{type(self._launcher).__name__}.{method} returned {what}"

    def _unknown(self, reason: str) -> JobStatus:
        self._tell_once(f"{reason}; what is not known for ten minutes is an error")
        return JobStatus(JobState.UNKNOWN, reason=reason)

    def _tell_once(self, line: str) -> None:
        if line not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(line)
            self._tell(line)
