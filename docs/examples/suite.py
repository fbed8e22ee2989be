"""A suite in a file ``--gsw-suite=own.txt`` with one row id a line, all of which must pass. Copy it as conftest.py."""

from pytest_gsw import Concluded
from pytest_gsw.tables.load import read_tables


class Suite:
    def __init__(self, names, rows):
        self.rows = [row for row in rows if row.id in names]

    def of_table(self, path):
        return [row for row in self.rows if row.location.path == path]

    def case_of(self, row):
        return row.workload.model

    def heading(self):
        return [f"suite of {len(self.rows)} rows"]

    def conclude(self, records):
        passed = [record for record in records if record.outcome == "passed"]
        is_met = len(passed) == len(self.rows)
        return Concluded([f"{len(passed)} of {len(self.rows)} passed"], is_met, is_missed=not is_met)


def pytest_gsw_suite_rows(suite, baselines):
    if suite.suffix == ".txt":
        return Suite(suite.read_text().split(), read_tables(baselines).rows)
    return None
