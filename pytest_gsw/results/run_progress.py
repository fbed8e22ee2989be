"""The progress of a run whose session goes on: its open rows, by a file that the session writes again and again."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.common import files, typed_json
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import by_number, duration, minute, named
from pytest_gsw.results.record import Record

#: The file, in the run's directory.
NAME = "live.json"
#: The headings of a table of open rows.
COLUMNS = ("row", "state", ">for", ">step", ">left", "job", "why")
#: The most reasons of pending jobs in one line.
_REASONS = 3
_DAY_S = 86400.0


class State(enum.Enum):
    """The state of an open row, in the order in which texts have them; of jobs that run or wait named as theirs."""

    RUNNING = "running"
    PENDING = "pending"
    QUEUED = "not submitted yet"
    #: Its job has ended, or was given up.
    ENDED = "not judged yet"
    UNKNOWN = "not known yet"


@dataclass(frozen=True)
class OpenRow:
    """A row without a verdict. Times are seconds since the epoch."""

    node_id: str
    state: State = State.UNKNOWN
    gpus: int = 0
    #: Its job: the id, why it is pending, its start or submission, and its start as the scheduler expects it.
    job_id: str = ""
    reason: str = ""
    since_s: float | None = None
    expected_start_s: float | None = None
    #: The steps in its log, and the number of all steps.
    steps: int = 0
    of: int | None = None
    #: Seconds that its job still runs by the documented step times; ``None`` if unknown.
    left_s: float | None = None

    @property
    def step(self) -> str:
        """``23 of 50``; empty before the first step."""
        return f"{self.steps}{'' if self.of is None else f' of {self.of}'}" if self.steps else ""

    def cells(self, now_s: float) -> tuple[str, ...]:
        """Its cells below :data:`COLUMNS`."""
        since = "" if self.since_s is None else duration(max(0.0, now_s - self.since_s))
        left = "" if self.left_s is None or self.state is not State.RUNNING else duration(self.left_s)
        row_id = self.node_id.rpartition("::")[2]
        return row_id, self.state.value, since, self.step, left, self.job_id, _why([self], now_s)


@dataclass(frozen=True)
class RunProgress:
    """The progress of a session at one moment."""

    #: That moment, and the start of the session; 0 if unknown.
    time_s: float = 0.0
    begun_s: float = 0.0
    #: The number of GPUs that the session can have at once; 0 if it has no limit.
    gpus: float = 0.0
    #: Why nothing more is submitted for now; empty if that is not so.
    full: str = ""
    rows: tuple[OpenRow, ...] = ()
    #: The node ids of its other rows: they have been judged or, by the session's own file, are about to be.
    finished: tuple[str, ...] = ()

    def compared(self, records: Iterable[Record], unjudged: Iterable[str], errors: Iterable[str]) -> RunProgress:
        """The progress by the records of the run: a row is finished once it has one, of this session if it runs again.

        Args:
            records: The records of the run.
            unjudged: Its rows without one.
            errors: Its rows that never have one.
        """
        times_s = {record.row.node_id: record.run.recorded_s or 0.0 for record in records}
        known = {name: OpenRow(name) for name in unjudged}
        known |= {name: OpenRow(name, State.ENDED) for name in self.finished if name in known or name in times_s}
        known |= {row.node_id: row for row in self.rows}
        rows = tuple(row for name, row in known.items() if times_s.get(name, -math.inf) < self.begun_s)
        is_open = {row.node_id for row in rows}
        return replace(self, rows=rows, finished=tuple(name for name in (*times_s, *errors) if name not in is_open))

    @property
    def text(self) -> str:
        """``3 of 8 done, 5 running (step 12 of 50), about 4m02s left``."""
        return ", ".join(self.parts)

    @property
    def parts(self) -> list[str]:
        """The parts of the text; a terminal may cut the end, and has the last one first."""
        done = f"{len(self.finished)} of {len(self.finished) + len(self.rows)} done"
        return [part for part in (done, self._states(), self._left()) if part]

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """The cells of each open row below :data:`COLUMNS`: running ones first."""
        order = list(State)
        rows = sorted(self.rows, key=lambda row: (order.index(row.state), by_number(row.node_id)))
        return [row.cells(self.time_s) for row in rows]

    def _left(self) -> str:
        """``about 8m47s left``; ``at least`` if a job waits, or its time is unknown."""
        rows = [row for row in self.rows if row.state is not State.ENDED]
        left = [(row.left_s, row.gpus) for row in rows if row.left_s is not None]
        longest_s = max((left_s for left_s, _ in left), default=0.0)
        left_s = max(longest_s, sum(one_s * taken for one_s, taken in left) / (self.gpus or math.inf))
        is_known = len(left) == len(rows) and all(row.state is State.RUNNING for row in rows)
        return f"{'about' if is_known else 'at least'} {duration(left_s)} left" if left_s >= 1 else ""

    def _states(self) -> str:
        """``5 running (step 12 of 50), 2 pending (Priority)``."""
        of_states = grouped([(state, row) for state in State for row in self.rows if row.state is state])
        # The running job that is the furthest from its end decides how long the run is.
        last = max((row for row in self.rows if row.steps), key=lambda row: row.left_s or 0.0, default=OpenRow(""))
        details = {
            State.RUNNING: last.step and f"step {last.step}",
            State.PENDING: _why(self.rows, self.time_s),
            State.QUEUED: self.full,
        }
        texts = ((f"{len(rows)} {state.value}", details.get(state, "")) for state, rows in of_states.items())
        return ", ".join(f"{text} ({detail})" if detail else text for text, detail in texts)


def _why(rows: Iterable[OpenRow], now_s: float) -> str:
    """The reasons of pending jobs, and the first expected start: ``Priority, Resources; expected start 23:40``."""
    pending = [row for row in rows if row.state is State.PENDING]
    reasons = sorted({row.reason for row in pending} - {"", "None"})
    starts = [row.expected_start_s for row in pending if row.expected_start_s and row.expected_start_s > now_s]
    when = minute(min(starts)) if starts else ""
    start = f"expected start {when.partition(' ')[2] if min(starts) - now_s < _DAY_S else when}" if when else ""
    return "; ".join(filter(None, (named(reasons, _REASONS), start)))


def write_progress(directory: Path, progress: RunProgress) -> None:
    """Write the progress of a session to its run's directory.

    Raises:
        OSError: It cannot be written.
    """
    files.write_whole(directory / NAME, json.dumps(vars(progress), default=typed_json.plain), files.PRIVATE)


def read_progress(directory: Path) -> RunProgress:
    """The last progress of a run; all is unknown if it cannot be read."""
    return typed_json.read_file(RunProgress, directory / NAME) or RunProgress()
