"""What a session has submitted, written down before and after each submission.

One JSON object a line (:mod:`pytest_gsw.jobs.journal_lines`), appended and synced to the disk, so that a session
that is killed at any moment leaves at most one line cut, the last. A later session reads which jobs there are,
which submissions never got their answer, which rows were still waiting, and whether something was lost.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import make_directory, write_new
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal_lines import Lines, maybe_number, number, read_lines, seal, text, texts, whole
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, JobStatus, LogBefore, Stop
from pytest_gsw.jobs.steps import kept, of_kept

#: Name of the file in a run's directory.
NAME = "journal.jsonl"
#: A copy of the line that names the run's rows, which nothing else tells.
COPY = "session.jsonl"

_STATUS_FIELDS = ("raw_state", "exit_code", "signal", "reason", "nodes", "submit_s", "start_s", "end_s")


@dataclass(frozen=True)
class Submission:
    """What a journal says of one row's latest submission."""

    #: When it was about to be submitted, seconds since the epoch; 0 where it was not yet (again).
    intended_s: float
    #: The scheduler's id; ``None`` where no answer was written down.
    job_id: str | None = None
    #: How the job ended, once that was seen.
    ended: JobStatus | None = None
    #: Why the session ended the job early, where it did.
    stopped: Stop | None = None
    #: Whether the session cancelled the job because it ended itself; only the job's end tells whether that came first.
    cancelled: bool = field(default=False, kw_only=True)
    #: The row's jobs before this one.
    attempts: tuple[Attempt, ...] = ()
    #: The row's definition when it was submitted, and the image that was known by then; empty where that is not told.
    definition: str = ""
    image: str | None = None
    #: As :attr:`~pytest_gsw.jobs.model.JobSpec.variables`.
    variables: Mapping[str, str] | None = field(default=None, kw_only=True)
    #: What had the name of its job's log before it; ``None`` where that was not noted.
    logs_before: tuple[LogBefore, ...] | None = None
    #: As :attr:`~pytest_gsw.jobs.model.Job.other_name`.
    other_name: str = field(default="", kw_only=True)
    #: The name of the job as it was submitted, and the figures that were documented for the row then.
    name: str = field(default="", compare=False)
    documented: Mapping[str, float] = field(default_factory=dict)

    def is_of(self, job_id: str) -> bool:
        """Whether a job may be this submission's: its own, or any where its answer was lost."""
        return self.job_id == job_id or (self.job_id is None and self.intended_s > 0)


@dataclass(frozen=True)
class Past:
    """What a journal says of a whole session."""

    cluster: str
    #: Node ids of all rows that were to run, in whichever of the run's sessions.
    rows: tuple[str, ...]
    #: By row id, the rows that were submitted or about to be.
    submissions: Mapping[str, Submission] = field(default_factory=dict)
    #: The release of the recipes whose bundled rows they are; ``None``: those of the documents, or of other tables.
    release: str | None = None
    #: By option, what of its command line holds for a session that goes on with it: paths, and how rows are judged.
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: What of the journal cannot be relied on, a line each: ``…/journal.jsonl:17 is not readable``.
    damage: tuple[str, ...] = ()
    #: When the run began, seconds since the epoch; 0 where that is not known.
    begun_s: float = field(default=0.0, compare=False)


class Journal:
    """Writes the journal of one run; every method returns only when its lines are on the disk.

    A sync takes milliseconds, and much longer on a shared file system: what is known at the same time is written
    with one call. One thread alone may write. Before each submission, ``check`` is asked, which raises an OSError where
    the run belongs to another session by now.

    Raises:
        OSError: The journal cannot be written, or is no file of this user's own.
    """

    def __init__(self, directory: Path, check: Callable[[], None] = lambda: None) -> None:
        make_directory(directory, private=True)
        self._directory = directory
        self._check = check
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = os.open(directory / NAME, flags, 0o600)
        #: Whether the last line was cut; it must not swallow the next.
        self._is_torn = False
        content = (directory / NAME).read_bytes()
        lines = read_lines(content)
        self._number = lines.next_number
        if len(content) > lines.whole_bytes:
            # A line that a killed session left cut says nothing, because nothing was done before it was whole.
            os.ftruncate(self._descriptor, lines.whole_bytes)
        elif content and not content.endswith(b"\n"):
            self._append(b"\n")

    def session(
        self,
        cluster: str,
        rows: Sequence[str],
        release: str | None = None,
        paths: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """A session starts, with these rows (node ids) of a release, by these options."""
        of: dict[str, Any] = {} if release is None else {"release": release}
        of |= {"paths": {name: list(given) for name, given in paths.items()}} if paths else {}
        event = {"event": "session", "cluster": cluster, "rows": list(rows), **of, "time_s": int(time.time())}
        self._write(event)
        with contextlib.suppress(FileExistsError):  # of the run's first session
            write_new(self._directory / COPY, seal(event, 1))

    def intents(self, specs: Iterable[JobSpec], now_s: float) -> None:
        """Rows are about to be submitted; none of them may be before this returns.

        Raises:
            OSError: It cannot be written, or the run belongs to another session by now.
        """
        self._check()
        self._write(*(_intent(spec, now_s) for spec in specs))

    def submitted(self, *jobs: Job) -> None:
        """The scheduler has answered with these jobs."""
        self._write(*(_submitted(job) for job in jobs))

    def refused(self, *row_ids: str) -> None:
        """The scheduler has refused these rows, or was not asked after all: there is no job to look for."""
        self._write(*({"event": "refused", "row": row_id} for row_id in row_ids))

    def ended(self, *ends: tuple[Job, JobStatus]) -> None:
        """Jobs were seen to have ended; the scheduler may soon forget them."""
        self._write(*(_ended(job, status) for job, status in ends))

    def stopped(self, job: Job, stop: Stop) -> None:
        """A job is about to be ended early."""
        self._write({"event": "stopped", "row": job.spec.row_id, "job": job.id, **asdict(stop)})

    def cancelled(self, *jobs: Job) -> None:
        """Jobs are about to be cancelled because the session ends."""
        self._write(*({"event": "cancelled", "row": job.spec.row_id, "job": job.id} for job in jobs))

    def repeated(self, row_id: str, attempt: Attempt) -> None:
        """A job that ended is not the row's last: the row is about to be submitted again."""
        facts = {"job": attempt.job_id, "why": attempt.why, "without": list(attempt.excluded_nodes)}
        measured = {"measured": True} if attempt.measured else {}
        self._write({"event": "repeated", "row": row_id, **facts, **measured})

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, *events: Mapping[str, Any]) -> None:
        """Append these lines, and sync all of them to the disk at once."""
        lines = b"".join(seal(event, self._number + place) for place, event in enumerate(events))
        self._number += len(events)
        self._append(lines)
        os.fsync(self._descriptor)

    def _append(self, lines: bytes) -> None:
        if self._is_torn:
            lines = b"\n" + lines
        self._is_torn = True
        while lines:  # a disk that is all but full takes a part
            lines = lines[os.write(self._descriptor, lines) :]
        self._is_torn = False


def _intent(spec: JobSpec, now_s: float) -> dict[str, Any]:
    defined = {"definition": spec.definition, "image": spec.image} if spec.definition else {}
    documented = {"documented": dict(spec.documented)} if spec.documented else {}
    variables = {} if spec.variables is None else {"variables": dict(spec.variables)}
    names = {"event": "intent", "row": spec.row_id, "name": spec.name}
    return {**names, "time_s": now_s, **defined, **documented, **variables}


def _submitted(job: Job) -> dict[str, Any]:
    before = job.logs_before
    logs = {} if before is None else {"logs_before": [astuple(log) for log in before]}
    other = {"other_name": job.other_name} if job.other_name else {}
    facts = {"row": job.spec.row_id, "job": job.id, **other, "time_s": job.submitted_s, **logs}
    return {"event": "submitted", **facts}


def _ended(job: Job, status: JobStatus) -> dict[str, Any]:
    """An end."""
    some = {
        "steps": kept(status.steps),
        "derived_exit_code": status.derived_exit_code or None,
        "unchecked": status.unchecked or None,
        "siblings": list(status.siblings) or None,
    }
    facts = {"row": job.spec.row_id, "job": job.id, "state": status.state.value}
    facts |= {name: getattr(status, name) for name in _STATUS_FIELDS}
    return {"event": "ended", **facts, **{name: value for name, value in some.items() if value is not None}}


def read_journal(directory: Path) -> Past:
    """What the journal of a run's directory says, and what of it cannot be relied on.

    Raises:
        ConfigurationError: There is no journal, or nothing in it, or beside it, names the run's rows.
    """
    path = directory / NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"no run to resume in {directory}: {path.name}: {error.strerror}") from None
    try:
        copy = (directory / COPY).read_bytes()
    except OSError:
        copy = b""
    return past_of(content, copy, directory)


def past_of(content: bytes, copy: bytes, directory: Path) -> Past:
    """What a journal's bytes say, and those of the copy of its first session's line, which may be empty.

    Raises:
        ConfigurationError: Nothing names the run's rows.
    """
    path, lines = directory / NAME, read_lines(content)
    damage = list(lines.damage)
    sessions, submissions = _sessions(read_lines(copy)), dict[str, Submission]()
    for line in lines.readable:
        event = line.event
        try:
            if event.get("event") == "session":
                sessions.append(_session(event))
                continue
            row = text(event, "row")
            if row in submissions or event.get("event") == "intent":
                after = _after(submissions.get(row), event.get("event"), event)
                if after is None:
                    submissions.pop(row, None)
                else:
                    submissions[row] = after
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            damage.append((line.place, f"is not readable: {error}"))
    told = tuple(f"{path}:{place} {what}" for place, what in sorted(damage))
    if not sessions and told:
        raise ConfigurationError(
            f"the run {directory.name} cannot be resumed: which rows it had is not known: {told[0]}\n"
            f"next: squeue --me lists its jobs, whose names have {directory.name} in them; end them with scancel, "
            "and run the rows anew"
        )
    if not sessions:
        raise ConfigurationError(f"no run to resume in {directory}: {path.name} says nothing of a session")
    rows = tuple(dict.fromkeys(row for session in sessions for row in session.rows))
    begun_s = min(session.begun_s for session in sessions)
    return replace(sessions[-1], rows=rows, submissions=submissions, damage=told, begun_s=begun_s)


def _sessions(copy: Lines) -> list[Past]:
    """The session that the copy tells of; nothing is said of a copy that is damaged or missing."""
    found = []
    for line in copy.readable[:1]:
        with contextlib.suppress(ValueError):
            found.append(_session(line.event))
    return found


def _session(event: Mapping[str, Any]) -> Past:
    return Past(
        text(event, "cluster"),
        texts(event, "rows"),
        release=text(event, "release", "") or None,
        paths=_paths(event),
        begun_s=number(event, "time_s"),
    )


def _paths(event: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """By option, what of a session's command line holds for its run's next one."""
    paths = event.get("paths")
    return {name: texts(paths, name) for name in paths} if isinstance(paths, dict) else {}


def _after(before: Submission | None, kind: Any, event: Mapping[str, Any]) -> Submission | None:
    """A row's submission after one more event, ``None`` where none is left; a ValueError where the event is wrong."""
    if kind == "intent":
        time_s, defined = number(event, "time_s"), _defined(event)
        if before is None or before.job_id is not None:
            return Submission(time_s, attempts=before.attempts if before else (), **defined)
        if not before.intended_s:
            return replace(before, intended_s=time_s, **defined)
        # The answer of the one before was lost too, and it may have got through.
        is_same = (before.definition, before.image) == (defined["definition"], defined["image"])
        known = before if is_same else replace(before, definition="", image=None)
        return known if known.variables == defined["variables"] else replace(known, variables=None)
    if before is None or (kind == "refused" and not before.attempts):
        return None
    if kind == "refused":
        return Submission(0.0, attempts=before.attempts)
    if kind == "submitted":
        time_s, job_id, logs = number(event, "time_s"), text(event, "job"), _logs_before(event)
        new = replace(before, intended_s=time_s, job_id=job_id, logs_before=logs)
        return replace(new, ended=None, stopped=None, cancelled=False, other_name=text(event, "other_name", ""))
    if kind == "stopped":
        saved_s = maybe_number(event, "saved_s")
        return replace(before, stopped=Stop(text(event, "fact"), text(event, "advice"), saved_s))
    if kind == "cancelled" and text(event, "job") == before.job_id:
        return replace(before, cancelled=True)
    if kind == "ended":
        return replace(before, job_id=text(event, "job"), ended=_status(event))
    if kind == "repeated" and before.ended is not None:
        job_id, ended, measured = text(event, "job"), before.ended, bool(event.get("measured", False))
        if job_id != before.job_id:  # the line of its own end is lost, and the times are another job's
            ended = replace(ended, submit_s=None, start_s=None, end_s=None)
        attempt = Attempt(job_id, ended, text(event, "why"), texts(event, "without"), measured)
        return Submission(0.0, attempts=(*before.attempts, attempt))
    return before


def _logs_before(event: Mapping[str, Any]) -> tuple[LogBefore, ...] | None:
    noted = event.get("logs_before")
    return None if noted is None else tuple(LogBefore(str(path), *map(int, facts)) for path, *facts in noted)


def _defined(event: Mapping[str, Any]) -> dict[str, Any]:
    """What an intent says of its row's definition."""
    image, documented, variables = event.get("image"), event.get("documented", {}), event.get("variables")
    for name, mapping in (("documented", documented), ("variables", {} if variables is None else variables)):
        if not isinstance(mapping, dict):
            raise ValueError(f"{name} is no mapping")  # noqa: TRY004 - of a file's content
    return {
        "definition": text(event, "definition", ""),
        "image": None if image is None else text(event, "image"),
        "name": text(event, "name", ""),
        "documented": {name: number(documented, name) for name in documented},
        "variables": None if variables is None else {name: text(variables, name) for name in variables},
    }


def _status(event: Mapping[str, Any]) -> JobStatus:
    exit_code = maybe_number(event, "exit_code")
    return JobStatus(
        JobState(text(event, "state")),
        raw_state=text(event, "raw_state"),
        exit_code=None if exit_code is None else int(exit_code),
        signal=whole(event, "signal", 0),
        reason=text(event, "reason"),
        nodes=text(event, "nodes"),
        submit_s=maybe_number(event, "submit_s"),
        start_s=maybe_number(event, "start_s"),
        end_s=maybe_number(event, "end_s"),
        steps=of_kept(event.get("steps")),
        derived_exit_code=text(event, "derived_exit_code", ""),
        unchecked=text(event, "unchecked", ""),
        siblings=texts(event, "siblings", []),
    )
