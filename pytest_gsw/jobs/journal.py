"""What a session has submitted, written down before and after each submission.

One JSON object a line, appended and synced to the disk, so that a session that is killed at
any moment leaves at most one line cut, the last. A later session reads which jobs there are,
which submissions never got their answer, and which rows were still waiting.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.layout import make_directory
from pytest_gsw.jobs.model import Attempt, Job, JobSpec, JobState, JobStatus, Stop

#: Name of the file in a run's directory.
NAME = "journal.jsonl"

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
    #: The row's jobs before this one.
    attempts: tuple[Attempt, ...] = ()
    #: The row's definition when it was submitted, and the image that was known by then; empty where nobody says.
    definition: str = ""
    image: str | None = None

    def is_of(self, job_id: str) -> bool:
        """Whether a job may be this submission's: its own, or any where its answer was lost."""
        return self.job_id == job_id or (self.job_id is None and self.intended_s > 0)


@dataclass(frozen=True)
class Past:
    """What a journal says of a whole session."""

    cluster: str
    #: Node ids of all rows that were to run.
    rows: tuple[str, ...]
    #: By row id, the rows that were submitted or about to be.
    submissions: Mapping[str, Submission] = field(default_factory=dict)
    #: How many jobs each row was to have in any case, and at most after these.
    first_jobs: int = 1
    confirm_jobs: int = 0


class Journal:
    """Writes the journal of one run; every method returns only when its lines are on the disk.

    Args:
        directory: The run's directory; it is made if it is not there.
    """

    def __init__(self, directory: Path) -> None:
        make_directory(directory)
        self._descriptor = os.open(directory / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._lock = threading.Lock()
        #: Whether the last line was cut; it must not swallow the next.
        self._is_torn = False
        # A line that a killed session left cut must not swallow the next one.
        if os.fstat(self._descriptor).st_size:
            self._append(b"\n")

    def session(self, cluster: str, rows: Sequence[str], first_jobs: int = 1, confirm_jobs: int = 0) -> None:
        """A session starts, with these rows (node ids), and so many jobs for each."""
        jobs = {"first_jobs": first_jobs, "confirm_jobs": confirm_jobs} if (first_jobs, confirm_jobs) != (1, 0) else {}
        self._write({"event": "session", "cluster": cluster, "rows": list(rows), **jobs})

    def intent(self, spec: JobSpec, now_s: float) -> None:
        """A row is about to be submitted."""
        defined = {"definition": spec.definition, "image": spec.image} if spec.definition else {}
        self._write({"event": "intent", "row": spec.row_id, "name": spec.name, "time_s": now_s, **defined})

    def submitted(self, job: Job) -> None:
        """The scheduler has answered with a job."""
        self._write({"event": "submitted", "row": job.spec.row_id, "job": job.id, "time_s": job.submitted_s})

    def refused(self, row_id: str) -> None:
        """The scheduler has refused the row: there is no job to look for."""
        self._write({"event": "refused", "row": row_id})

    def ended(self, *ends: tuple[Job, JobStatus]) -> None:
        """Jobs were seen to have ended; the scheduler may soon forget them. All are synced to the disk at once."""
        events = []
        for job, status in ends:
            facts = {name: getattr(status, name) for name in _STATUS_FIELDS}
            events.append(
                {"event": "ended", "row": job.spec.row_id, "job": job.id, "state": status.state.value, **facts}
            )
        self._write(*events)

    def stopped(self, job: Job, stop: Stop) -> None:
        """A job is about to be ended early."""
        self._write({"event": "stopped", "row": job.spec.row_id, "job": job.id, **asdict(stop)})

    def repeated(self, row_id: str, attempt: Attempt) -> None:
        """A job that ended is not the row's last: the row is about to be submitted again."""
        facts = {"job": attempt.job_id, "why": attempt.why, "without": list(attempt.excluded_nodes)}
        measured = {"measured": True} if attempt.measured else {}
        self._write({"event": "repeated", "row": row_id, **facts, **measured})

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, *events: Mapping[str, Any]) -> None:
        self._append(b"".join(json.dumps(event, allow_nan=False).encode() + b"\n" for event in events))

    def _append(self, lines: bytes) -> None:
        with self._lock:
            if self._is_torn:
                lines = b"\n" + lines
            self._is_torn = True
            while lines:  # a disk that is all but full takes a part
                lines = lines[os.write(self._descriptor, lines) :]
            self._is_torn = False
            os.fsync(self._descriptor)


def read_journal(directory: Path) -> Past:
    """What the journal of a run's directory says; lines that are cut are passed over.

    Raises:
        ConfigurationError: There is no journal, or it says nothing of a session.
    """
    path = directory / NAME
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigurationError(f"no run to resume in {directory}: {path.name}: {error.strerror}") from None
    cluster: str | None = None
    rows: tuple[str, ...] = ()
    jobs: dict[str, int] = {}
    submissions: dict[str, Submission] = {}
    for line in lines:
        event = _event(line)
        kind, row = event.get("event"), str(event.get("row"))
        if kind == "session":
            cluster, rows = str(event["cluster"]), tuple(event["rows"])
            jobs = {name: int(event[name]) for name in ("first_jobs", "confirm_jobs") if name in event}
        elif row in submissions or kind == "intent":
            after = _after(submissions.get(row), kind, event)
            if after is None:
                submissions.pop(row, None)
            else:
                submissions[row] = after
    if cluster is None:
        raise ConfigurationError(f"no run to resume in {directory}: {path.name} says nothing of a session")
    return Past(cluster, rows, submissions, **jobs)


def _after(before: Submission | None, kind: Any, event: Mapping[str, Any]) -> Submission | None:
    """A row's submission after one more event; ``None`` where there is none any more."""
    if kind == "intent":
        time_s, defined = float(event["time_s"]), _defined(event)
        if before is None or before.job_id is not None:
            return Submission(time_s, attempts=before.attempts if before else (), **defined)
        if not before.intended_s:
            return replace(before, intended_s=time_s, **defined)
        # The answer of the one before was lost too, and it may have got through.
        is_same = (before.definition, before.image) == (defined["definition"], defined["image"])
        return before if is_same else replace(before, definition="", image=None)
    if before is None or (kind == "refused" and not before.attempts):
        return None
    if kind == "refused":
        return Submission(0.0, attempts=before.attempts)
    if kind == "submitted":
        time_s, defined = float(event["time_s"]), {"definition": before.definition, "image": before.image}
        return Submission(time_s, str(event["job"]), attempts=before.attempts, **defined)
    if kind == "stopped":
        return replace(before, stopped=Stop(event["fact"], event["advice"], event["saved_s"]))
    if kind == "ended":
        return replace(before, job_id=str(event["job"]), ended=_status(event))
    if kind == "repeated" and before.ended is not None:
        measured = bool(event.get("measured", False))
        attempt = Attempt(str(event["job"]), before.ended, str(event["why"]), tuple(event["without"]), measured)
        return Submission(0.0, attempts=(*before.attempts, attempt))
    return before


def _defined(event: Mapping[str, Any]) -> dict[str, Any]:
    """What an intent says of its row's definition; journals of earlier releases say nothing."""
    return {"definition": str(event.get("definition", "")), "image": event.get("image")}


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _status(event: Mapping[str, Any]) -> JobStatus:
    return JobStatus(JobState(event["state"]), **{name: event[name] for name in _STATUS_FIELDS})
