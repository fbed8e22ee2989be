"""A session of the certification's suite: which rows it has, and what is told of its cases before any of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import counted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.load import read_table, read_tables, table_files
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.suite_rows import Figures, figures_of, transferred
from pytest_gsw.tables.suites import Suite, read_suite

if TYPE_CHECKING:
    from pytest_gsw.clusters.model import Cluster

#: What stands behind the file's name where figures of other scales count, per GPU.
PER_GPU = "@per-gpu"


@dataclass(frozen=True)
class AskedSuite:
    """The suite that a session was asked for."""

    suite: Suite
    #: Whether a figure of another scale counts, per GPU.
    per_gpu: bool

    @property
    def option(self) -> str:
        """As it is given on the command line."""
        return f"--gsw-suite={from_here(self.suite.path)}{PER_GPU if self.per_gpu else ''}"


@dataclass(frozen=True)
class CaseRows:
    """One case, its figures, and the rows that it has in this session."""

    figures: Figures
    rows: tuple[Baseline, ...]

    @property
    def figure(self) -> str:
        """Where its figure is from, in words."""
        if self.figures.there:
            return ", ".join(row.id for row in self.rows)
        if not self.figures.elsewhere:
            return "none"
        ids = ", ".join(row.id for row in self.figures.elsewhere)
        return f"{ids}, per GPU" if self.rows else f"only {ids}"

    @property
    def why_no_rows(self) -> str:
        """Why it has none, in a few words; empty where it has some."""
        if self.rows:
            return ""
        return "figure of another scale" if self.figures.elsewhere else "no figure"


@dataclass(frozen=True)
class SuiteRows:
    """The rows of a suite in a session."""

    asked: AskedSuite
    cases: tuple[CaseRows, ...]

    def of_table(self, path: Path) -> tuple[Baseline, ...]:
        """The rows that one table has, in its order."""
        # Two cases may have one row: fp8 and mxfp8 of a file that names both.
        rows = {row.id: row for case in self.cases for row in case.rows if row.location.path == path}
        return tuple(sorted(rows.values(), key=lambda row: row.location.line))

    def case_of(self, row: Baseline) -> str:
        """The case that a row is of."""
        return next(_name(case) for case in self.cases if row in case.rows)

    def told(self) -> list[str]:
        """Which cases have a figure at the suite's scale, which at another, and which none."""
        suite = self.asked.suite
        there = [case for case in self.cases if case.figures.there]
        elsewhere = [case for case in self.cases if case.figures.elsewhere]
        none = len(self.cases) - len(there) - len(elsewhere)
        figures = f"{len(there)} with a figure at that scale, {len(elsewhere)} at another scale"
        what = f"{figures}{self._transfer(elsewhere)}, {none} with none"
        cases = f"{counted(len(self.cases), 'case')} on {counted(suite.gpus, 'GPU')}"
        lines = [f"suite {from_here(suite.path)}: {cases}; {what}"]
        width = max(len(_name(case)) for case in self.cases)
        lines += [f"  {_name(case):<{width}}  {case.figure}" for case in self.cases]
        if suite.repeats > 1:
            lines.append(f"suite: its file asks for {suite.repeats} measured jobs of each case: --gsw-repeat=N")
        return lines

    def _transfer(self, elsewhere: Sequence[CaseRows]) -> str:
        if not elsewhere:
            return ""
        if not self.asked.per_gpu:
            return f" (not judged; {PER_GPU} behind the file's name judges by it, per GPU)"
        left = sum(not case.rows for case in elsewhere)
        return f" (judged per GPU{f', but for {left} that cannot be' if left else ''})"


def _name(case: CaseRows) -> str:
    return f"{case.figures.case.accelerator.upper()} {case.figures.case.name}"


def asked_suite(given: Path, cluster: Cluster | None, *, judges: bool, has_tables: bool) -> AskedSuite:
    """The suite of ``--gsw-suite``, for the cluster's accelerator.

    Raises:
        ConfigurationError: The file is wrong or has nothing for the cluster, or nothing says which figures are meant.
    """
    path = Path(str(given).removesuffix(PER_GPU))
    if not judges:
        raise ConfigurationError("--gsw-suite needs a cluster or logs; add --gsw-cluster=NAME or --gsw-replay=PATH")
    if not path.is_file():
        raise ConfigurationError(f"--gsw-suite: there is no file {path}")
    suite = _of_cluster(read_suite(path), cluster)
    if not has_tables:
        raise ConfigurationError(
            "--gsw-suite needs the figures of one release\n"
            f"{_releases(suite)}"
            "next: choose one with --gsw-release=RELEASE, or name tables of your own with --gsw-baselines=PATH"
        )
    return AskedSuite(suite, path != given)


def _of_cluster(suite: Suite, cluster: Cluster | None) -> Suite:
    if cluster is None or cluster.accelerator is None:
        return suite
    wanted = cluster.accelerator.lower()
    cases = tuple(case for case in suite.cases if case.accelerator == wanted)
    if not cases:
        raise ConfigurationError(
            f"--gsw-suite: {suite.path} has no workloads for {cluster.accelerator}, which {cluster.name} has\n"
            f"there are: {', '.join(name.upper() for name in suite.accelerators)}"
        )
    return Suite(suite.path, suite.gpus, suite.repeats, cases)


def _releases(suite: Suite) -> str:
    """How many of the cases have a figure in each bundled release, a line each; releases with none are left out."""
    lines = []
    for release, paths in reversed(list(bundled_releases().items())):
        rows = read_tables(paths).rows
        found = [figures_of(case, suite.gpus, rows) for case in suite.cases]
        there, elsewhere = sum(bool(one.there) for one in found), sum(bool(one.elsewhere) for one in found)
        if there or elsewhere:
            cases = f"{there} of {counted(len(found), 'case')}"
            lines.append(f"{release}: {cases} at {suite.gpus} GPUs, {elsewhere} at another scale\n")
    return "".join(lines)


def rows_of_suite(asked: AskedSuite, roots: Sequence[Path]) -> SuiteRows:
    """The rows that the session's tables have for a suite."""
    known: dict[Path, Sequence[Baseline]] = {}
    for path in (path for root in roots for path in table_files(root)):
        try:
            known[path] = read_table(path).rows
        except ConfigurationError:  # the collection reports the file's faults
            known[path] = ()
    rows = [row for of_table in known.values() for row in of_table]
    cases = (figures_of(case, asked.suite.gpus, rows) for case in asked.suite.cases)
    return SuiteRows(asked, tuple(CaseRows(figures, _rows(figures, asked)) for figures in cases))


def _rows(figures: Figures, asked: AskedSuite) -> tuple[Baseline, ...]:
    if figures.there or not asked.per_gpu:
        return figures.there
    moved = [transferred(row, asked.suite.gpus) for row in figures.elsewhere]
    rows = tuple(row for row in moved if row is not None)
    return rows if len(rows) == len(moved) else ()  # without one of them, the worst of the others would count
