"""The jobs of ``llmb-run``, NVIDIA's launcher of these recipes: its database ``.llmb/jobs.sqlite3``.

Its table ``jobs`` (schema 2 of llmb-run 1.16) is read by the names of its columns; missing ones are
reported. The database is never written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gsw.common.text import plural
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.database import read_table
from pytest_gsw.history.imports import Imported, Known, figure_alone, imported_record
from pytest_gsw.jobs.model import JobState
from pytest_gsw.nvidia.evidence import letters
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import Baseline, image_name
from pytest_gsw.tables.value_types import LARGEST, SMALLEST

#: Required columns, and columns that only some releases have.
_NEEDED = ("job_id", "model_size", "dtype", "scale", "slurm_state", "train_step_time_seconds")
_OPTIONAL = (
    "workload_key", "model_name", "exit_code", "perf_parse_status", "profile_enabled", "proxy", "submit_time",
    "node_list", "env_overrides_json", "model_overrides_json",
)  # fmt: skip

#: The figure of llmb-run's own log reader: the mean of these steps.
_STATISTIC = "mean[35:44]"

_JOB_ID = re.compile(r"[0-9]{1,18}")


def import_llmb(path: Path, rows: Iterable[Baseline], cluster: str, known: Known) -> Imported:
    """The records of the jobs in llmb-run's ``jobs.sqlite3`` that ended well and ran a known row as documented.

    Raises:
        ConfigurationError: It is no such database, or lacks a required column.
    """
    if not path.is_file():
        raise ConfigurationError(f"--from-llmb: there is no file {path}")
    columns, values = read_table(path, "jobs")
    missing = [name for name in _NEEDED if name not in columns]
    if not {"workload_key", "model_name"} & set(columns):
        missing.append("workload_key")
    if missing:
        raise ConfigurationError(
            f"--from-llmb: the table 'jobs' of {path} has no {_columns_text(missing)}\n"
            f"next: pytest-gsw history --from-logs DIR --cluster {cluster}"
        )
    listed = tuple(rows)
    records: list[Record] = []
    left_out: list[str] = []
    count_known = 0
    for one in values:
        facts = dict(zip(columns, one, strict=True))
        row = _row_of(facts, listed)
        if isinstance(row, str):
            left_out.append(f"job {facts['job_id']}: {row}")
        elif known(row.id, cluster, str(facts["job_id"])):
            count_known += 1
        else:
            records.append(_record(facts, row, cluster, path))
    absent = [name for name in _OPTIONAL if name not in columns]
    notes = (
        (f"the table 'jobs' of {path} has no {_columns_text(absent)}; their facts are not checked",) if absent else ()
    )
    return Imported(tuple(records), tuple(left_out), count_known, notes)


def _columns_text(columns: Sequence[str]) -> str:
    return f"{'column' if len(columns) == 1 else 'columns'} {', '.join(columns)}"


def _row_of(facts: Mapping[str, Any], rows: Sequence[Baseline]) -> Baseline | str:
    """The row that a job ran as documented, or the reason why it is no point of any."""
    why = _not_a_point(facts)
    if why is not None:
        return why
    found = [row for row in rows if _ran(facts, row)]
    what = f"{facts.get('workload_key') or facts.get('model_name')} {facts['model_size']} {facts['dtype']}"
    if not found:
        return f"there is no row of {what} on {facts['scale']} GPUs"
    fitting = [row for row in found if row.statistic == _STATISTIC and row.judged_by is STEP_TIME]
    if not fitting:
        return f"its figure is {_STATISTIC}, and {found[0].id} is judged by {found[0].statistic}"
    if len(fitting) > 1:
        names = ", ".join(row.id for row in fitting)
        return f"may be of {plural(len(fitting), 'row')}: {names}; name the one that it is of"
    row = fitting[0]
    if row.metrics:
        return f"{row.id} documents {', '.join(row.metrics)} as well, which the database does not have"
    return row if row.judged_s is not None else f"{row.id} has no documented figure"


def _not_a_point(facts: Mapping[str, Any]) -> str | None:
    """The reason why a job is no evidence of a documented row's speed."""
    state = str(facts["slurm_state"] or "unknown")
    exit_code, parsed = facts.get("exit_code"), facts.get("perf_parse_status")
    seconds = facts["train_step_time_seconds"]
    reasons = {
        "its id is no number": _JOB_ID.fullmatch(str(facts["job_id"])) is None,
        f"it ended {state}": state.upper().split()[:1] != [JobState.COMPLETED.value],
        f"its exit code is {exit_code}": exit_code not in {None, "", "0:0", "0", 0},
        f"llmb-run read its log as '{parsed}'": parsed not in {None, "success"},
        "it was profiled": bool(facts.get("profile_enabled")),
        "it ran with overrides": _overrides(facts),
        "it has no step time": not isinstance(seconds, int | float) or not SMALLEST <= seconds <= LARGEST,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _overrides(facts: Mapping[str, Any]) -> bool:
    """True if a job ran with settings of its own, or with unreadable ones."""
    for name in ("env_overrides_json", "model_overrides_json"):
        try:
            if json.loads(facts.get(name) or "{}"):
                return True
        except (ValueError, TypeError, RecursionError):
            return True
    return False


def _ran(facts: Mapping[str, Any], row: Baseline) -> bool:
    """True if a job ran a row, by all columns of its database."""
    names = {letters(str(facts.get(name) or "")) for name in ("workload_key", "model_name")}
    models = {letters(row.model), letters(row.workload)}
    return (
        bool(models & {name.removeprefix("pretrain") for name in names})
        and letters(str(facts["model_size"])) == letters(row.size or "")
        and str(facts["dtype"]).lower() == row.dtype
        and str(facts["scale"]) == str(row.gpus)
        and bool(facts.get("proxy")) == row.proxy
    )


def _record(facts: Mapping[str, Any], row: Baseline, cluster: str, path: Path) -> Record:
    job = JobFacts(
        JobState.COMPLETED,
        exit_code=0,
        nodes=str(facts.get("node_list") or ""),
        submit_s=_moment_s(facts.get("submit_time")),
        id=str(facts["job_id"]),
        launcher="llmb-run",
    )
    image = image_name(row.recipe.image) if row.recipe.image else None
    measurement = figure_alone(row, float(facts["train_step_time_seconds"]))
    return imported_record(row, cluster, path, job, measurement, image)


def _moment_s(text: object) -> float | None:
    """The epoch seconds of a time of ``sacct`` or llmb-run, in this machine's zone by default; ``None`` if invalid."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
