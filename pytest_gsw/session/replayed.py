"""Which log of a replay is a row's, of those of several jobs: the newest that completed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted, minute
from pytest_gsw.jobs.layout import FoundLog, in_traced_results, is_nccl_traced
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.spec import steps_of
from pytest_gsw.runs.newest import Newest, newest_complete
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.screen import write


def newest_chooser(
    config: pytest.Config, rows: Sequence[BaselineItem]
) -> Callable[[JobSpec, Sequence[FoundLog]], FoundLog]:
    """What takes of several jobs of a row the newest that completed, and says which newer ones did not."""
    by_row = {item.baseline.id: item for item in rows}

    def choose(spec: JobSpec, found: Sequence[FoundLog]) -> FoundLog:
        item = by_row[spec.row_id]
        log_format = item.row.jobs.log_format()
        assert log_format is not None  # a row of which nobody reads the logs is not submitted
        traced = is_nccl_traced(spec.environment) or any(in_traced_results(log.path) for log in found)
        newest = newest_complete(found, item.baseline, log_format, steps_of(item.baseline, traced=traced))
        if newest.passed_over:
            item.row.passed_over = quoted(_passed_over_text(newest), os.environ)  # a log may say anything
            write(config, f"gsw: {spec.row_id}: {item.row.passed_over}")
        return newest.log

    return choose


def _passed_over_text(newest: Newest) -> str:
    passed_over = "; ".join(f"job {log.job_id} ({why})" for log, why in newest.passed_over)
    written_s = newest.log.path.stat().st_mtime
    days = counted(int((time.time() - written_s) // 86400), "day")
    judged = f"job {newest.log.job_id} is judged"
    return f"{judged}; passed over: {passed_over}; the log that is judged is {days} old ({minute(written_s)})"
