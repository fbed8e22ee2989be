"""The live file of a run, ``live.jsonl``: a session as JSON lines, for tools that follow it.

The first line is of the session, one follows for each row as soon as it is judged, one for an incident of the whole
cluster, where there is one, and the last says how the session ended; a file without that one is of a session that
died, or still runs.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import PRIVATE
from pytest_gsw.results.incident import WholeNight
from pytest_gsw.results.record import Record

#: In the run's directory.
NAME = "live.jsonl"


def session_line(run_id: str, cluster: str, node_ids: Sequence[str]) -> str:
    """That a session begins, and with which rows."""
    return _line({"event": "session", "run_id": run_id, "cluster": cluster, "rows": list(node_ids)})


def row_line(record: Record) -> str:
    """A row that was judged, or could not be: its whole record."""
    return f'{{"event":"row","record":{record.text}}}\n'


def incident_line(run_id: str, found: WholeNight, since: str) -> str:
    """That the whole cluster was slower, with the rows that are part of that."""
    facts = {"cluster": found.cluster, "fact": f"{found.fact}{since}", "throughput_change": found.change}
    counts = {"rows": found.rows, "slower": found.slower, "parts": found.parts, "canaries": found.canaries}
    return _line({"event": "incident", "run_id": run_id, **facts, **counts})


def end_line(run_id: str, outcomes: Sequence[str], exit_status: int) -> str:
    """How the session ended: how many rows had which outcome, and pytest's exit status."""
    return _line({"event": "end", "run_id": run_id, "outcomes": Counter(outcomes), "exit_status": exit_status})


def opened(directory: Path) -> int:
    """The descriptor of a run's live file, to which lines are added; an OSError where there can be none."""
    return os.open(directory / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n"
