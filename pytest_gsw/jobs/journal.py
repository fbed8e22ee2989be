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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus

#: Name of the file in a run's directory.
NAME = "journal.jsonl"

_STATUS_FIELDS = ("raw_state", "exit_code", "signal", "reason", "nodes", "submit_s", "start_s", "end_s")


@dataclass(frozen=True)
class Submission:
    """What a journal says of one row's latest submission."""

    #: When it was about to be submitted, seconds since the epoch.
    intended_s: float
    #: The scheduler's id; ``None`` where no answer was written down.
    job_id: str | None = None
    #: How the job ended, once that was seen.
    ended: JobStatus | None = None


@dataclass(frozen=True)
class Past:
    """What a journal says of a whole session."""

    cluster: str
    #: Node ids of all rows that were to run.
    rows: tuple[str, ...]
    #: By row id, the rows that were submitted or about to be.
    submissions: Mapping[str, Submission] = field(default_factory=dict)


class Journal:
    """Writes the journal of one run; every method returns only when its line is on the disk.

    Args:
        directory: The run's directory; it is made if it is not there.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(directory / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._lock = threading.Lock()
        # A line that a killed session left cut must not swallow the next one.
        if os.fstat(self._descriptor).st_size:
            self._append(b"\n")

    def session(self, cluster: str, rows: Sequence[str]) -> None:
        """A session starts, with these rows (node ids)."""
        self._write({"event": "session", "cluster": cluster, "rows": list(rows)})

    def intent(self, spec: JobSpec, now_s: float) -> None:
        """A row is about to be submitted."""
        self._write({"event": "intent", "row": spec.row_id, "name": spec.name, "time_s": now_s})

    def submitted(self, job: Job) -> None:
        """The scheduler has answered with a job."""
        self._write({"event": "submitted", "row": job.spec.row_id, "job": job.id, "time_s": job.submitted_s})

    def refused(self, row_id: str) -> None:
        """The scheduler has refused the row: there is no job to look for."""
        self._write({"event": "refused", "row": row_id})

    def ended(self, job: Job, status: JobStatus) -> None:
        """A job was seen to have ended; the scheduler may soon forget it."""
        facts = {name: getattr(status, name) for name in _STATUS_FIELDS}
        self._write({"event": "ended", "row": job.spec.row_id, "job": job.id, "state": status.state.value, **facts})

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _write(self, event: Mapping[str, Any]) -> None:
        self._append(json.dumps(event, allow_nan=False).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        with self._lock:
            os.write(self._descriptor, line)
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
    submissions: dict[str, Submission] = {}
    for line in lines:
        event = _event(line)
        kind, row = event.get("event"), str(event.get("row"))
        if kind == "session":
            cluster, rows = str(event["cluster"]), tuple(event["rows"])
        elif kind == "intent":
            submissions[row] = Submission(float(event["time_s"]))
        elif kind == "submitted":
            submissions[row] = Submission(float(event["time_s"]), str(event["job"]))
        elif kind == "refused":
            submissions.pop(row, None)
        elif kind == "ended":
            before = submissions.get(row, Submission(0.0))
            submissions[row] = Submission(before.intended_s, str(event["job"]), _status(event))
    if cluster is None:
        raise ConfigurationError(f"no run to resume in {directory}: {path.name} says nothing of a session")
    return Past(cluster, rows, submissions)


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _status(event: Mapping[str, Any]) -> JobStatus:
    return JobStatus(JobState(event["state"]), **{name: event[name] for name in _STATUS_FIELDS})
