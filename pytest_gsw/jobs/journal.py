"""The journal of a run: what its sessions submit, written before and after each submission.

One JSON object a line, appended and synced to the disk: a session that is killed at any moment leaves at most the
last line incomplete. A later session reads from it which jobs there are, which submissions got no answer, which rows
were still waiting, and whether something was lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import make_directory, read_bounded, write_new
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import minute
from pytest_gsw.common.typed_json import facts, plain, read
from pytest_gsw.errors import ConfigurationError, SubmissionError, TakenOverError
from pytest_gsw.jobs.model import Attempt, EarlyStop, FoundJob, Job, JobSpec, LogBefore, scancel
from pytest_gsw.jobs.scripts import cluster_of
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.jobs.step_ends import limited_steps

# -- Lines of a journal -----------------------------------------------------------------------------
#
# Each has a number and a checksum, which show damage and loss. A sealed line is a JSON object whose first key is
# ``n``, counted from 1 over the life of the file, and whose last is ``crc``, the CRC-32 of all before it.


_JSON = json.JSONEncoder(default=plain, allow_nan=False)
_BEFORE_SUM = b', "crc": "'
_AFTER_SUM = b'"}'
_SEAL_BYTES = len(_BEFORE_SUM) + 8 + len(_AFTER_SUM)


@dataclass(frozen=True)
class ParsedJournal:
    """All lines of a journal."""

    #: Each event with the number of its line, from 1.
    readable: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    #: Faults, each with the number of a line: ``(17, "is not readable")``.
    damage: tuple[tuple[int, str], ...] = ()
    #: The number of the next line.
    next_number: int = 1
    #: Bytes up to the end of the last whole line.
    whole_bytes: int = 0


def seal(event: Mapping[str, Any], number: int) -> bytes:
    """An event as a line."""
    body = _JSON.encode({"n": number, **event}).encode()[:-1]
    return body + _BEFORE_SUM + b"%08x" % zlib.crc32(body) + _AFTER_SUM + b"\n"


def read_lines(content: bytes) -> ParsedJournal:
    """The lines of a journal's bytes, however damaged they are."""
    pieces = content.split(b"\n")
    whole_bytes = len(content) - len(pieces[-1])
    readable: list[tuple[int, Mapping[str, Any]]] = []
    damage: list[tuple[int, str]] = []
    number = 0
    for place, piece in enumerate(pieces, 1):
        if not piece:
            continue  # the end
        event = _unseal(piece)
        if event is None:
            cut = place == len(pieces)
            damage.append((place, "is cut: its session ended while it was written" if cut else "is not readable"))
            continue
        line_number = event["n"]
        if line_number <= number:
            damage.append((place, f"is number {line_number}, and number {number} comes before it"))
            continue
        if line_number > number + 1:
            one, several = f"number {line_number - 1}", f"numbers {number + 1} to {line_number - 1}"
            lost = f"{one} of the journal is" if line_number == number + 2 else f"{several} of the journal are"
            damage.append((place, f"is number {line_number}: {lost} lost"))
        number = line_number
        readable.append((place, event))
        if place == len(pieces):
            whole_bytes = len(content)  # only its line end is missing
    return ParsedJournal(tuple(readable), tuple(damage), number + 1, whole_bytes)


def _unseal(piece: bytes) -> dict[str, Any] | None:
    """The event of a sealed line, ``None`` if the seal is broken or missing."""
    body, mark = piece[:-_SEAL_BYTES], piece[-_SEAL_BYTES:]
    if mark != _BEFORE_SUM + b"%08x" % zlib.crc32(body) + _AFTER_SUM:
        return None
    try:
        event = json.loads(body + b"}")
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


#: Name of the file in a run's directory.
NAME = "journal.jsonl"
#: A copy of the line that names the run's rows, the only source of them.
COPY = "session.jsonl"


@dataclass(frozen=True)
class Submission:
    """One row's latest submission, by the journal."""

    #: Time just before the submission, seconds since the epoch; 0 before that.
    intended_s: float
    #: The scheduler's id; ``None`` if no answer was written down.
    job_id: str | None = None
    #: The job's end, once known.
    ended: JobStatus | None = None
    #: Why the session ended the job early; ``None`` if it did not.
    stopped: EarlyStop | None = None
    #: True if the session cancelled the job at its own end; the job may have ended before that.
    cancelled: bool = field(default=False, kw_only=True)
    #: The row's jobs before this one.
    attempts: tuple[Attempt, ...] = ()
    #: The row's definition at the submission, and the image as known by then; empty if unknown.
    definition: str = ""
    image: str | None = None
    #: The job's :attr:`~pytest_gsw.jobs.model.JobSpec.variables`.
    variables: Mapping[str, str] | None = field(default=None, kw_only=True)
    #: Files with the name of its job's log before it; ``None`` if unknown.
    logs_before: tuple[LogBefore, ...] | None = None
    #: The job's :attr:`~pytest_gsw.jobs.model.Job.other_name`.
    other_name: str = field(default="", kw_only=True)
    #: The name of the job, and the row's documented figures at the submission.
    name: str = field(default="", compare=False)
    documented: Mapping[str, float] = field(default_factory=dict)

    def is_of(self, job_id: str) -> bool:
        """True if a job may be this submission's: its own, or any if its answer was lost."""
        return self.job_id == job_id or (self.job_id is None and self.intended_s > 0)


@dataclass(frozen=True)
class RunState:
    """A run by its journal: the one form in which later sessions and reports read it."""

    cluster: str
    #: Node ids of all rows that were to run, in whichever of the run's sessions.
    rows: tuple[str, ...]
    #: The rows that were submitted or about to be, by id.
    submissions: Mapping[str, Submission] = field(default_factory=dict)
    #: The release of the recipes whose bundled rows they are; ``None``: those of the documents, or of other tables.
    release: str | None = None
    #: Values of its command line by option, for a session that resumes it: paths, and the rules of judging.
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Damage of the journal, a line each: ``…/journal.jsonl:17 is not readable``.
    damage: tuple[str, ...] = ()
    #: Start of the run, seconds since the epoch; 0 if unknown.
    begun_s: float = field(default=0.0, compare=False)
    #: The run's directory.
    directory: Path = field(default=Path(), compare=False)

    @property
    def row_ids(self) -> tuple[str, ...]:
        """The ids of its rows."""
        return tuple(node_id.partition("::")[2] for node_id in self.rows)


class Journal:
    """Writes the journal of one run; every method returns only when its lines are on the disk.

    A sync takes milliseconds, and much longer on a shared file system: facts of the same moment are written with one
    call. Only one thread may write. ``check`` is called before each line, and raises a TakenOverError if the run
    belongs to another session by now.

    Raises:
        OSError: The journal cannot be written, or is no file of this user's own.
    """

    def __init__(self, directory: Path, check: Callable[[], None] = lambda: None) -> None:
        make_directory(directory, private=True)
        self._directory = directory
        self._check = check
        #: Start of this session, seconds since the epoch.
        self._begun_s = 0
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = os.open(directory / NAME, flags, 0o600)
        #: True if the last line is incomplete; the next must not continue it.
        self._is_torn = False
        content = (directory / NAME).read_bytes()
        lines = read_lines(content)
        self._number = lines.next_number
        if len(content) > lines.whole_bytes:
            # A killed session's incomplete line is dropped: nothing was done before it was whole.
            os.ftruncate(self._descriptor, lines.whole_bytes)
        elif content and not content.endswith(b"\n"):
            self._append(b"\n")

    def session(
        self,
        cluster: str,
        rows: Sequence[str],
        release: str | None = None,
        paths: Mapping[str, Sequence[str]] | None = None,
        now_s: float | None = None,
    ) -> None:
        """Note the start of a session with these rows (node ids) of a release, by these options.

        ``now_s`` is the time by the scheduler's clock, by default this machine's.
        """
        options = {name: list(given) for name, given in (paths or {}).items()}
        host = redact(socket.gethostname())
        of = {"cluster": cluster, "rows": list(rows), "release": release, "paths": options, "host": host}
        self._begun_s = int(time.time() if now_s is None else now_s)
        event = {"event": "session", **of, "time_s": self._begun_s}
        self._write(event)
        with contextlib.suppress(FileExistsError):  # of the run's first session
            write_new(self._directory / COPY, seal(event, 1))

    def intents(self, specs: Iterable[JobSpec], now_s: float) -> None:
        """Note rows before their submission; none may be submitted before this returns.

        Raises:
            OSError: It cannot be written.
            TakenOverError: The run belongs to another session by now.
        """
        self._write(*(_intent_event(spec, now_s) for spec in specs))

    def submitted(self, *jobs: Job) -> None:
        """Note jobs that the scheduler has answered with."""
        self._write(*(_submitted_event(job) for job in jobs))

    def refused(self, *row_ids: str) -> None:
        """Note rows that have no job: refused by the scheduler, or not submitted after all."""
        self._write(*({"event": "refused", "row": row_id} for row_id in row_ids))

    def ended(self, *ends: tuple[Job, JobStatus]) -> None:
        """Note ended jobs, which the scheduler may soon forget."""
        self._write(*(_ended_event(job, status) for job, status in ends))

    def stopped(self, job: Job, stop: EarlyStop) -> None:
        """Note a job before it is ended early."""
        self._write({"event": "stopped", "row": job.spec.row_id, "job": job.id, **facts(EarlyStop, stop)})

    def cancelled(self, *jobs: Job) -> None:
        """Note jobs before they are cancelled at the session's end."""
        self._write(*({"event": "cancelled", "row": job.spec.row_id, "job": job.id} for job in jobs))

    def repeated(self, row_id: str, attempt: Attempt) -> None:
        """Note an ended job whose row is about to be submitted again."""
        facts = {"job": attempt.job_id, "why": attempt.why, "without": list(attempt.excluded_nodes)}
        self._write({"event": "repeated", "row": row_id, **facts, "measured": attempt.measured})

    def check(self) -> None:
        """Raise a TakenOverError, with the new owner, if the run belongs to another session by now."""
        try:
            self._check()
        except TakenOverError:
            events: tuple[tuple[int, Mapping[str, Any]], ...] = ()
            with contextlib.suppress(OSError):
                events = read_lines((self._directory / NAME).read_bytes()).readable
            # The new owner may have yet to write its line.
            later = [event for _, event in events if event["event"] == "session" and event["time_s"] > self._begun_s]
            owner: Mapping[str, Any] = later[-1] if later else {"time_s": time.time()}
            who, since = owner.get("host", "another session"), minute(owner["time_s"])
            raise TakenOverError(f"taken over by {who} since {since}; its results are there") from None

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, *events: Mapping[str, Any]) -> None:
        """Append these lines, and sync all of them to the disk at once."""
        self.check()
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


def _intent_event(spec: JobSpec, now_s: float) -> dict[str, Any]:
    variables = None if spec.variables is None else dict(spec.variables)
    defined = {"definition": spec.definition, "image": spec.image, "documented": dict(spec.documented)}
    names = {"event": "intent", "row": spec.row_id, "name": spec.name, "time_s": now_s}
    return {**names, **defined, "variables": variables}


def _submitted_event(job: Job) -> dict[str, Any]:
    logs = None if job.logs_before is None else [astuple(log) for log in job.logs_before]
    facts = {"row": job.spec.row_id, "job": job.id, "other_name": job.other_name, "time_s": job.submitted_s}
    return {"event": "submitted", **facts, "logs_before": logs}


def _ended_event(job: Job, status: JobStatus) -> dict[str, Any]:
    known = {**facts(JobStatus, status), "steps": limited_steps(status.steps)}
    return {"event": "ended", "row": job.spec.row_id, "job": job.id, **known}


class JournalWriter:
    """Writes a run's journal as far as the disk allows; does nothing for a replay, which submits nothing.

    Args:
        journal: Records every submission, before and after it.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        #: Why the journal is incomplete; empty if it is complete.
        self.problem = ""
        #: Who has taken the run over; empty if this session owns it.
        self.taken_over = ""

    def check(self) -> None:
        """Raise a TakenOverError if the run belongs to another session by now: its jobs are that one's."""
        if self._journal is not None:
            try:
                self._journal.check()
            except TakenOverError as error:
                self.taken_over = str(error)
                raise

    @property
    def kept(self) -> bool:
        """True if there is a journal for a later session to read."""
        return self._journal is not None

    def intents(self, specs: list[JobSpec], now_s: float) -> str | None:
        """Record that these rows are about to be submitted.

        Returns:
            The reason why none of them may be submitted; ``None`` if they are recorded.
        """
        if self._journal is not None:
            try:
                self._journal.intents(specs, now_s)
            except OSError as error:
                return f"nothing was submitted: the run's journal cannot be written: {error.strerror}"
        return None

    def write(self, event: Callable[..., None], *facts: object) -> None:
        """Record an event; a full disk costs later sessions, not this one's results."""
        if self._journal is not None:
            try:
                event(self._journal, *facts)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()


def read_journal(directory: Path) -> RunState:
    """The state of the run in a directory, by its journal.

    Raises:
        ConfigurationError: There is no journal, or neither it nor its copy names the run's rows.
    """
    path = directory / NAME
    try:
        content = read_bounded(path)
    except OSError as error:
        raise ConfigurationError(f"no run to resume in {directory}: {path.name}: {error.strerror}") from None
    try:
        copy = read_bounded(directory / COPY)
    except OSError:
        copy = b""
    return run_state_of(content, copy, directory)


def run_state_of(content: bytes, copy: bytes, directory: Path) -> RunState:
    """The state of a run by its journal's bytes, and those of the copy of its first line, which may be empty.

    Raises:
        ConfigurationError: Neither names the run's rows.
    """
    path, lines = directory / NAME, read_lines(content)
    damage = list(lines.damage)
    sessions, submissions = list[RunState](), dict[str, Submission]()
    copied = ((0, event) for _, event in read_lines(copy).readable[:1])
    for place, event in (*copied, *lines.readable):
        try:
            if event["event"] == "session":
                sessions.append(_session_state(event))
                continue
            row = event["row"]
            if row in submissions or event["event"] == "intent":
                after = _next_submission(submissions.get(row), event["event"], event)
                if after is None:
                    submissions.pop(row, None)
                else:
                    submissions[row] = after
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # of another release
            damage.append((place, f"is not readable: {error}"))
    # A damaged or missing copy is no damage of the journal.
    faults = tuple(f"{path}:{place} {what}" for place, what in sorted(damage) if place)
    if not sessions and faults:
        raise ConfigurationError(
            f"the run {directory.name} cannot be resumed: which rows it had is not known: {faults[0]}\n"
            f"next: squeue --me lists its jobs, whose names have {directory.name} in them; end them with scancel, "
            "and run the rows anew"
        )
    if not sessions:
        raise ConfigurationError(f"no run to resume in {directory}: {path.name} names no session")
    rows = tuple(dict.fromkeys(row for session in sessions for row in session.rows))
    begun_s = min(session.begun_s for session in sessions)
    known = replace(sessions[-1], rows=rows, begun_s=begun_s, directory=directory)
    return replace(known, submissions=submissions, damage=faults)


def _session_state(event: Mapping[str, Any]) -> RunState:
    paths = {name: tuple(given) for name, given in event["paths"].items()}
    return RunState(
        event["cluster"], tuple(event["rows"]), release=event["release"], paths=paths, begun_s=event["time_s"]
    )


def _next_submission(before: Submission | None, kind: str, event: Mapping[str, Any]) -> Submission | None:
    """A row's submission after one more event, ``None`` if none is left."""
    if kind == "intent":
        new = read(Submission, {**event, "intended_s": event["time_s"]})
        if before is None or before.job_id is not None or not before.intended_s:
            return replace(new, attempts=before.attempts if before else ())
        # The answer of the one before was lost too, and it may have got through.
        is_same = (before.definition, before.image) == (new.definition, new.image)
        known = before if is_same else replace(before, definition="", image=None)
        return known if known.variables == new.variables else replace(known, variables=None)
    if before is None or (kind == "refused" and not before.attempts):
        return None
    if kind == "refused":
        return Submission(0.0, attempts=before.attempts)
    if kind == "submitted":
        logs = event["logs_before"]
        logs_before = None if logs is None else tuple(LogBefore(*log) for log in logs)
        new = replace(before, intended_s=event["time_s"], job_id=event["job"], logs_before=logs_before)
        return replace(new, ended=None, stopped=None, cancelled=False, other_name=event["other_name"])
    if kind == "stopped":
        return replace(before, stopped=read(EarlyStop, event))
    if kind == "cancelled" and event["job"] == before.job_id:
        return replace(before, cancelled=True)
    if kind == "ended":
        return replace(before, job_id=event["job"], ended=read(JobStatus, event))
    if kind == "repeated" and before.ended is not None:
        job_id, ended = event["job"], before.ended
        if job_id != before.job_id:  # the line of its own end is lost, and the times are another job's
            ended = replace(ended, submit_s=None, start_s=None, end_s=None)
        attempt = Attempt(job_id, ended, event["why"], tuple(event["without"]), event["measured"])
        return Submission(0.0, attempts=(*before.attempts, attempt))
    return before


# -- Rows of a resumed run, by the journal and by the scheduler's jobs ------------------------------
#
# The journal may lack its end, or lines in its midst. The scheduler has every job by its row's own name: its list
# completes the journal before anything is submitted. Pure functions.


#: Why a job is not its row's last, if the journal has lost the reason.
LOST = "the journal has lost why the row was run again"

_AGAIN = re.compile(r"again([0-9]{1,6})\.(.+)", re.DOTALL)


@dataclass(frozen=True)
class ResumeState:
    """A row at the start of a resumed session."""

    #: The spec of its next job, or of its last one.
    spec: JobSpec
    #: Its last submission; one that was not yet intended if it has had none.
    past: Submission
    #: Its job, which runs or has ended; ``None`` if it is to be submitted.
    job: Job | None = None
    #: Ids of jobs that the scheduler has and the journal lacks.
    unknown: tuple[str, ...] = ()


def attempt_of(name: str) -> tuple[str, int]:
    """A job's name without the number of its attempt, and that number: ``again2.gsw-x`` → ``gsw-x``, 2."""
    match = _AGAIN.fullmatch(name)
    return (name, 1) if match is None else (match[2], int(match[1]))


def by_row(specs: Iterable[JobSpec], named: Iterable[FoundJob]) -> dict[str, list[FoundJob]]:
    """Jobs by the id of the row whose name they have, whichever attempt they are; other names are left out."""
    rows = {attempt_of(spec.name)[0]: spec.row_id for spec in specs if spec.unique_name}
    placed = [(rows.get(attempt_of(job.name)[0]), job) for job in named]
    return grouped([(row_id, job) for row_id, job in placed if row_id is not None])


def take_up(spec: JobSpec, past: Submission | None, named: Sequence[FoundJob]) -> ResumeState:
    """The state of a row, by the spec of its first job, its journal, and all its jobs at the scheduler.

    Raises:
        SubmissionError: Two jobs have a name that only one can have, or the journal and the scheduler name two.
    """
    past = past or Submission(0.0)
    by_attempt = _by_attempt(spec, named)
    placed = _place_jobs(spec, past, by_attempt)
    ids = {number: job.id for number, job in by_attempt.items()} | placed
    over = {attempt.job_id: attempt for attempt in past.attempts}
    top = max(ids, default=0)
    # By the journal, another job was to follow the last one.
    now = top + 1 if not top or ids[top] in over else top
    attempts: list[Attempt] = []
    for number in range(1, now):
        job_id = ids.get(number)
        attempt = None if job_id is None else over.get(job_id) or _lost_attempt(past, job_id, by_attempt.get(number))
        spec = spec.again() if attempt is None else attempt.after(spec)
        attempts += [] if attempt is None else [attempt]
    known = set(placed.values())
    unknown = tuple(job.id for _, job in sorted(by_attempt.items()) if job.id not in known)
    past = replace(past, attempts=tuple(attempts))
    if now > top:
        return ResumeState(spec, past, unknown=unknown)
    if ids[now] == past.job_id:
        job = Job(ids[now], spec, past.intended_s, past.logs_before, past.other_name)
        return ResumeState(spec, past, job, unknown)
    # The scheduler has a job that the journal lacks: its answer was never read, or its lines are lost.
    newest = by_attempt[now]
    is_awaited = past.job_id is None and past.intended_s > 0 and now == max(placed, default=0) + 1
    since_s = past.intended_s if is_awaited else newest.status.submit_s or 0.0
    taken = Submission(since_s, newest.id, attempts=past.attempts, name=newest.name, documented=past.documented)
    if is_awaited:
        taken = replace(taken, definition=past.definition, image=past.image)
    return ResumeState(spec, taken, Job(newest.id, spec, since_s), unknown)


def is_next(job: Job, attempts: Iterable[Attempt]) -> bool:
    """True if a job that was found by its name is the one that follows these attempts.

    A name that is the row's own is that of one attempt. Its id proves nothing: a scheduler that lost its state
    reuses ids, which :class:`~pytest_gsw.executor.phases.UniqueJobs` detects.
    """
    return job.has_unique_name or not any(job.id == attempt.job_id for attempt in attempts)


def changes(past: Submission, spec: JobSpec) -> tuple[str, ...]:
    """Documented figures that differ from those at the submission: ``step_time_s was 1.0, and is 1.2``."""
    then, now = past.documented, spec.documented
    names = sorted({*then, *now})
    return tuple(
        f"{name} was {_figure(then, name)}, and is {_figure(now, name)}"
        for name in names
        if then.get(name) != now.get(name)
    )


def _figure(figures: Mapping[str, float], name: str) -> str:
    return f"{figures[name]:g}" if name in figures else "not documented"


def _by_attempt(spec: JobSpec, named: Sequence[FoundJob]) -> dict[int, FoundJob]:
    by_attempt: dict[int, FoundJob] = {}
    for job in named:
        _, number = attempt_of(job.name)
        other = by_attempt.setdefault(number, job)
        if other.id != job.id:
            ids = sorted(other.id for other in named if other.name == job.name)
            raise SubmissionError(
                f"{len(ids)} jobs have the name that only one can have: {job.name}",
                (("jobs", ", ".join(ids)),),
                advice=f"end those that are not wanted (squeue --me; scancel ID), and run {spec.row_id} anew",
            )
    return by_attempt


def _place_jobs(spec: JobSpec, past: Submission, found: Mapping[int, FoundJob]) -> dict[int, str]:
    """The journal's jobs by attempt; it may have lost those before.

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


def _is_after(job: FoundJob, ended_s: float | None) -> bool:
    """True if a job was submitted after another one's end, by the scheduler's own clock."""
    return ended_s is not None and job.status.submit_s is not None and job.status.submit_s > ended_s


def _lost_attempt(past: Submission, job_id: str, job: FoundJob | None) -> Attempt:
    """A job that is not its row's last, whose reason the journal has lost."""
    if job_id == past.job_id and past.ended is not None:
        status = past.ended
    else:
        status = JobStatus(JobState.UNKNOWN) if job is None else job.status
    # A job that ended well is followed by another only if a row has several jobs, all of which count.
    is_good = status.state is JobState.COMPLETED and not status.exit_code
    return Attempt(job_id, status, LOST, measured=is_good)
