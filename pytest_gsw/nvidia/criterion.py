"""The certification's criterion over a suite: which of its cases have reached it, by the records of a run.

NVIDIA/exemplar-performance, Exemplar_validation.md: "demonstrating > 95% baseline performance for all workloads in a
given test suite", with one release of the recipes throughout, and "a passing run for each workload in the suite, not a
single end-to-end execution". The baseline here is the row's documented figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gsw.common.words import counted, share
from pytest_gsw.performance.verdict import Outcome
from pytest_gsw.results import outcomes
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.results.record import Record
from pytest_gsw.runs.agreement import CONTAINER, RELEASE
from pytest_gsw.tables.releases import in_words, releases_of

#: The share of the figure's throughput that is to be exceeded.
LEAST = 0.95
#: What binary fractions make of decimal numbers at the limit is less than this.
_ROUNDING = 1e-12
#: Outcomes of a run that was measured, and whose figure is believed.
_MEASURED = frozenset({Outcome.PASSED.value, Outcome.IMPROVED.value, Outcome.REGRESSED.value})


@dataclass(frozen=True)
class CaseRun:
    """One row of a case, and what became of it."""

    row_id: str
    #: The figure of the session's table: a record's verdict is a site's rule, or of a table that has changed since.
    documented_s: float | None
    #: The releases that its figure is of.
    releases: tuple[str, ...]
    record: Record | None

    @property
    def throughput(self) -> float | None:
        """The median of its jobs over the documented figure; ``None`` where it was not measured or is not believed."""
        measured_s = None if self.record is None else self.record.judged_s
        return self._of(measured_s) if self._is_measured else None

    @property
    def of_jobs(self) -> tuple[float, ...]:
        """The same of each job, in the order in which they ran."""
        if self.throughput is None or self.record is None:
            return ()
        shares = (self._of(job.judged_s) for job in self.record.measured_jobs)
        return tuple(one for one in shares if one is not None)

    @property
    def _is_measured(self) -> bool:
        record = self.record
        return record is not None and record.not_comparable is None and record.outcome in _MEASURED

    def _of(self, measured_s: float | None) -> float | None:
        if self.documented_s is None or measured_s is None or not 0 < measured_s < math.inf:
            return None
        return self.documented_s / measured_s

    @property
    def ran(self) -> frozenset[str]:
        """The releases, of recipes or of containers, that its figure is of and that its log says it is of."""
        compared = {} if self.record is None else self.record.run.compared
        version = compared.get(RELEASE, "")
        said = {version, *releases_of(version), compared.get(CONTAINER, "")}
        return frozenset(self.releases) & said

    @property
    def why_not(self) -> str:
        """Why it has not reached the criterion; empty where it has."""
        if self.record is None:
            return "not run"
        if self.record.not_comparable is not None:
            return "not comparable"
        if self.throughput is None:
            return self.record.reason or f"not measured: {self.record.outcome}"
        return "" if self.throughput > LEAST + _ROUNDING else "not reached"


@dataclass(frozen=True)
class Case:
    """One case of the suite and its rows."""

    accelerator: str
    name: str
    #: Where its figure is from, in words.
    figure: str
    #: Why there is no run of it; empty where there are some.
    why_no_runs: str
    runs: tuple[CaseRun, ...]
    #: Whether the figure is that of another scale.
    per_gpu: bool = False

    @property
    def worst(self) -> CaseRun | None:
        """Of several rows the one that has reached least; ``None`` where there is no row."""
        return min(self.runs, key=lambda run: (run.throughput is not None, run.throughput or 0.0), default=None)

    @property
    def why_not(self) -> str:
        """Why it has not reached the criterion; empty where it has."""
        return self.worst.why_not if self.worst is not None else self.why_no_runs or "not run"

    @property
    def best(self) -> float | None:
        """What the best job of its worst row has reached."""
        return max(self.worst.of_jobs, default=None) if self.worst is not None else None


@dataclass(frozen=True)
class Conclusion:
    """The criterion for the workloads of one accelerator."""

    accelerator: str
    cases: tuple[Case, ...]

    @property
    def reached(self) -> tuple[Case, ...]:
        """The cases that have reached it."""
        return tuple(case for case in self.cases if not case.why_not)

    @property
    def releases(self) -> frozenset[str]:
        """The releases that all runs are of, by their logs."""
        named = [run.ran for case in self.cases for run in case.runs]
        return frozenset.intersection(*named) if named else frozenset()

    @property
    def is_met(self) -> bool:
        """Whether every case has reached it, and by the same release."""
        return len(self.reached) == len(self.cases) and bool(self.releases)

    @property
    def is_missed(self) -> bool:
        """Whether a case was measured, and has not reached it."""
        return any(case.worst is not None and case.worst.throughput is not None for case in self._others)

    @property
    def _others(self) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if case.why_not)

    @property
    def text(self) -> str:
        """What came of it, in one line."""
        of = f"{len(self.reached)} of {counted(len(self.cases), 'case')}"
        if self.is_met:
            moved = sum(case.per_gpu for case in self.cases)
            more = f"; {moved} by a figure of another scale, per GPU" if moved else ""
            return f"{self.accelerator}: met by {of}, release {in_words(sorted(self.releases), 'or')}{more}"
        whys = [case.why_not for case in self._others]
        parts = [f"{whys.count(why)} {why}" for why in dict.fromkeys(whys)]
        if not parts:
            parts = [self._why_no_release]
        return f"{self.accelerator}: not met: {of} reached it; {'; '.join(parts)}"

    @property
    def _why_no_release(self) -> str:
        silent = sum(not run.ran for case in self.cases for run in case.runs)
        if silent:
            return f"{counted(silent, 'run')} {'is' if silent == 1 else 'are'} of no known release, by log and table"
        return "the runs are not of the same release"


def conclude(cases: Iterable[Case]) -> tuple[Conclusion, ...]:
    """The criterion for each accelerator: it is a criterion of one chip."""
    grouped: dict[str, list[Case]] = {}
    for case in cases:
        grouped.setdefault(case.accelerator, []).append(case)
    return tuple(Conclusion(accelerator, tuple(found)) for accelerator, found in grouped.items())


def lines(conclusions: Sequence[Conclusion]) -> list[str]:
    """The table of all cases with every attempt, and what came of the criterion."""
    rows = [_cells(case) for one in conclusions for case in one.cases]
    columns = ("case", "figure", ">throughput", ">first job", ">best job", ">jobs", "criterion")
    table = plain_table(rows, *columns).splitlines()
    told = ["", "criterion: > 95 % of the figure for each workload of the suite, one release for all"]
    return [*(line.rstrip() for line in table), *told, *(one.text for one in conclusions), *_by_best_job(conclusions)]


def _cells(case: Case) -> tuple[str, ...]:
    run = case.worst
    of_jobs = () if run is None else run.of_jobs
    shown = [
        None if run is None else run.throughput,
        of_jobs[0] if of_jobs else None,
        case.best,
    ]
    name = f"{case.accelerator} {case.name}"
    jobs = "" if run is None or run.record is None else _jobs(run.record)
    return (name, case.figure, *("" if one is None else share(one) for one in shown), jobs, case.why_not or "reached")


def _jobs(record: Record) -> str:
    """How many jobs there were, and how many of them failed."""
    failed = len(record.jobs.failed)
    failed += outcomes.of(record.outcome) is outcomes.ERROR and record.jobs.last is not None
    jobs = len(record.jobs.all)
    return f"{jobs} ({failed} failed)" if failed else str(jobs)


def _by_best_job(conclusions: Sequence[Conclusion]) -> list[str]:
    """The cases that reach it by their best job alone."""
    cases = [case for one in conclusions for case in one.cases if case.why_not and (case.best or 0.0) > LEAST]
    named = ", ".join(f"{case.accelerator} {case.name} ({share(case.best or 0.0)})" for case in cases)
    what = "by its best job alone" if len(cases) == 1 else "by their best jobs alone"
    return [f"reached {what}, which is a passing run, and not counted: {named}"] if cases else []
