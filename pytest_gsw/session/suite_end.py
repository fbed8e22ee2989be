"""The end of a session of a suite: the certification's criterion by the session's records."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.results.criterion import Case, CaseRun, conclude, lines
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.results.record import Record
from pytest_gsw.session.judged import INCONCLUSIVE
from pytest_gsw.session.stash import CRITERION, SETTINGS, SUITE
from pytest_gsw.session.suite import CaseRows
from pytest_gsw.session.tally import TALLY


def conclude_suite(config: pytest.Config, status: int) -> int:
    """Keep what is told of the criterion.

    Returns:
        The exit status, which is not 0 where it is not met.
    """
    settings, tally = config.stash[SETTINGS], config.stash[TALLY]
    found, _ = read_run(settings.run_directory, tally.records)
    records = {record.row.id: record for record in found}
    conclusions = conclude(_case(case, records) for case in config.stash[SUITE].cases)
    config.stash[CRITERION] = tuple(quoted(lines(conclusions), os.environ))
    if status != pytest.ExitCode.OK or all(one.is_met for one in conclusions):
        return status
    return int(pytest.ExitCode.TESTS_FAILED) if any(one.is_missed for one in conclusions) else INCONCLUSIVE


def _case(case: CaseRows, records: Mapping[str, Record]) -> Case:
    """A case with what became of its rows."""
    return Case(
        case.figures.case.accelerator.upper(),
        case.figures.case.name,
        case.figure,
        case.why_no_rows,
        tuple(CaseRun(row.id, row.source.releases, records.get(row.id)) for row in case.rows),
        per_gpu=bool(case.figures.elsewhere),
    )
