"""The end of a session of a suite: the certification's criterion by the session's records."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.results import outcomes
from pytest_gsw.results.criterion import Case, CaseRun, conclude, lines
from pytest_gsw.results.rebuild import read_run
from pytest_gsw.results.record import Record
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
    cases = config.stash[SUITE].cases
    # A table that the command line leaves out may have a row of the same name, whose run it is not.
    tables = Counter(name for _, name in {(row.location.path, row.id) for case in cases for row in case.rows})
    records = {record.row.id: record for record in found if tables[record.row.id] == 1}
    conclusions = conclude(_case(case, records) for case in cases)
    config.stash[CRITERION] = tuple(quoted(lines(conclusions), os.environ))
    if status not in {outcomes.GREEN, outcomes.OPEN} or all(one.is_met for one in conclusions):
        return status
    return outcomes.FAILED if any(one.is_missed for one in conclusions) else outcomes.OPEN


def _case(case: CaseRows, records: Mapping[str, Record]) -> Case:
    """A case with what became of its rows."""
    return Case(
        case.figures.case.accelerator.upper(),
        case.figures.case.name,
        case.figure,
        case.why_no_rows,
        tuple(CaseRun(row.id, row.judged_s, row.source.releases, records.get(row.id)) for row in case.rows),
        per_gpu=bool(case.figures.elsewhere),
    )
