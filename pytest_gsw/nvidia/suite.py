"""The certification's suite: its own file ``exemplar.yaml``, the session's rows for it, and its criterion.

The file comes with NVIDIA/exemplar-performance from v25.12 on, and is parsed as by its own reader
(``cli/llmb-run/src/llmb_run/exemplar.py``), except that an unknown key is a fault, since it may change
the requirements.

NVIDIA/exemplar-performance, Exemplar_validation.md: "demonstrating > 95% baseline performance for all workloads in a
given test suite", with one release of the recipes throughout, and "a passing run for each workload in the suite, not a
single end-to-end execution". The baseline here is the row's documented figure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import plain_table, plural, share
from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.nvidia.evidence import Case, has_dtype
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.results.suites import Concluded
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.tables import bundled, load, metrics
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.model import Baseline, transferred
from pytest_gsw.tables.releases import format_releases, releases_of
from pytest_gsw.tables.yaml_values import Value, read_mapping
from pytest_gsw.validation.agreement import CONTAINER, RELEASE

#: Defaults of scale, repeats and profiling in the file's own reader.
_SCALE, _REPEATS, _PROFILE = 512, 1, False
#: Prefix of each workload's name, for training and not tuning or serving.
_KIND = "pretrain_"

_WORKLOAD = f.Nested(
    None,
    "One workload with its size, such as pretrain_llama3.1_70b.",
    names=r"pretrain_[a-z0-9][a-z0-9._-]{0,50}",
    wanted="a workload such as pretrain_llama3.1_70b",
    each={"dtypes": f.Sequence_(f.pattern(r"[a-z0-9_]+", "a dtype such as bf16", "Dtypes."), "Dtypes.", required=True)},
)
_FIELDS: f.Fields = {
    "config": f.Nested(
        {
            "scale": f.whole("GPUs of each job."),
            "repeats": f.whole("Jobs of each workload."),
            "profile": f.flag("Whether the last of them is profiled."),
        },
        "What all workloads share.",
        required=True,
    ),
    "workloads": f.Nested(
        None,
        "The workloads of each accelerator.",
        names=r"[a-z0-9]{1,20}",
        wanted="an accelerator such as gb200",
        required=True,
        each=f.Sequence_(_WORKLOAD, "Workloads.", required=True),
    ),
}


@dataclass(frozen=True)
class Suite:
    """The requirements of a file."""

    path: Path
    #: GPUs of each job.
    gpus: int
    #: Jobs of each case that are measured, the profiled one left out.
    repeats: int
    #: In the order of the file.
    cases: tuple[Case, ...]

    @property
    def accelerators(self) -> tuple[str, ...]:
        """The accelerators of its cases."""
        return tuple(dict.fromkeys(case.accelerator for case in self.cases))


def read_suite(path: Path) -> Suite:
    """The suite of a file; a FileError has every fault with its line."""
    values = read_mapping(path, _FIELDS)
    config = {key: value.value for key, value in values["config"].value.items()}
    listed = values["workloads"]
    if faults := tuple(_faults(listed)):
        raise FileError(path, faults)
    measured = config.get("repeats", _REPEATS) - config.get("profile", _PROFILE)
    return Suite(path, config.get("scale", _SCALE), max(1, measured), tuple(_cases(listed.value)))


def _faults(listed: Value) -> Iterator[Fault]:
    """Faults of values that are valid by themselves."""
    if not listed.value:
        yield Fault(listed.line, listed.column, "workloads", "is empty, wanted at least one accelerator")
    for accelerator, entries in listed.value.items():
        seen: set[str] = set()
        for number, entry in enumerate(entries.value):
            key = f"workloads.{accelerator}[{number}]"
            if len(entry.value) != 1:
                yield Fault(entry.line, entry.column, key, f"has {len(entry.value)} workloads, wanted one an entry")
            for name in seen.intersection(entry.value):
                yield Fault(entry.line, entry.column, f"{key}.{name}", "is there twice")
            seen.update(entry.value)


def _cases(listed: Mapping[str, Value]) -> Iterator[Case]:
    for accelerator, entries in listed.items():
        for entry in entries.value:
            ((name, keys),) = entry.value.items()
            yield from (Case(accelerator, name.removeprefix(_KIND), dtype) for dtype in keys["dtypes"].value)


#: Names of the recipes' workloads in tables of Megatron-Bridge's documents. Sources in the recipes' README:
#: Llama 3.1 70B ("reuse existing Megatron-Bridge llama3 configs"), and Nemotron 3 with 120b ("super").
_IN_MEGATRON_BRIDGE: Mapping[str, frozenset[str]] = {
    "deepseek-v3_671b": frozenset({"deepseek_v3"}),
    "kimi-k2_1t": frozenset({"kimi_k2"}),
    "llama3.1_70b": frozenset({"llama3_70b"}),
    "nemotron_3_120b": frozenset({"nemotron3_super", "nemotron3_super_120b"}),
}
#: The same in tables of the recipes' own READMEs, which name workloads after the recipes' variables.
_IN_RECIPES: Mapping[str, frozenset[str]] = {
    "deepseek-v3_671b": frozenset({"deepseek_v3_671b"}),
    "nemotron4-15b_15b": frozenset({"nemotron4_15b"}),
    "nemotron4-340b_340b": frozenset({"nemotron4_340b"}),
}
#: Tasks without pre-training, or with a constant batch size for more GPUs: the recipes' grows with them.
_OTHER_TASK = re.compile(r"\b(sft|lora|peft|fine-?tun\w*|strong-scaling|checkpoint-resume)\b", re.IGNORECASE)


class SuiteFigures(NamedTuple):
    """The rows with a case's figures."""

    case: Case
    #: At the suite's scale.
    there: tuple[Baseline, ...]
    #: At the nearest other scale, where there is none.
    elsewhere: tuple[Baseline, ...]


def figures_of(case: Case, gpus: int, rows: Iterable[Baseline]) -> SuiteFigures:
    """The rows with a case's figures on so many GPUs, and else on another number."""
    fitting = [row for row in rows if _is_of(case, row)]
    there = tuple(row for row in fitting if row.gpus == gpus)
    others = [] if there else sorted(fitting, key=lambda row: (abs(math.log(row.gpus / gpus)), -row.gpus))
    return SuiteFigures(case, there, tuple(row for row in others if row.gpus == others[0].gpus))


def _is_of(case: Case, row: Baseline) -> bool:
    if row.accelerator.lower() != case.accelerator or not _is_trained(row) or _OTHER_TASK.search(_task(row)):
        return False
    return row.workload.name in _names(case, row.workload.framework) and has_dtype(case, row)


def _is_trained(row: Baseline) -> bool:
    """True for a full model's training whose steps are judged."""
    is_other = row.workload.proxy or row.canary or row.criterion.expected_failure is not None
    return not is_other and row.criterion.metric == metrics.STEP_TIME.name and row.judged is not None


def _task(row: Baseline) -> str:
    """Texts of a table that name the task: the id's case, and the headings."""
    return f"{row.id.partition('[')[2]} {row.source.title} {row.source.section}"


def _names(case: Case, framework: str) -> frozenset[str]:
    others = _IN_MEGATRON_BRIDGE if framework == "megatron-bridge" else _IN_RECIPES
    return others.get(case.workload, frozenset()) | {case.workload}


#: The share of the figure's throughput that must be exceeded.
LEAST = 0.95
#: More than the rounding error of a decimal number at the limit in binary.
_ROUNDING = 1e-12
#: Outcomes of a run with a plausible measurement.
_MEASURED = frozenset({Outcome.PASSED.value, Outcome.IMPROVED.value, Outcome.REGRESSED.value})


@dataclass(frozen=True)
class CaseRun:
    """One row of a case with its result."""

    #: The figure of the session's table: a record's verdict may follow a site's rule, or a table that has changed.
    documented_s: float | None
    #: The releases of its figure.
    releases: tuple[str, ...]
    record: Record | None

    @property
    def throughput(self) -> float | None:
        """The median of its jobs over the documented figure; ``None`` if it was not measured or is implausible."""
        measured_s = None if self.record is None else self.record.measured
        return self._of(measured_s) if self._is_measured else None

    @property
    def of_jobs(self) -> tuple[float, ...]:
        """The same for each job, in the order in which they ran."""
        if self.throughput is None or self.record is None:
            return ()
        shares = (self._of(job.judged) for job in self.record.measured_jobs)
        return tuple(part for part in shares if part is not None)

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
        """The releases, of recipes or of containers, common to its figure and its log."""
        compared = {} if self.record is None else self.record.run.compared
        version = compared.get(RELEASE, "")
        logged = {version, *releases_of(version), compared.get(CONTAINER, "")}
        return frozenset(self.releases) & logged

    @property
    def why_not(self) -> str:
        """Why it misses the criterion; empty if it meets it."""
        if self.record is None:
            return "not run"
        if self.record.not_comparable is not None:
            return "not comparable"
        if self.throughput is None:
            return self.record.reason or f"not measured: {self.record.outcome}"
        return "" if self.throughput > LEAST + _ROUNDING else "not reached"


@dataclass(frozen=True)
class CaseResult:
    """One case of the suite and its rows."""

    accelerator: str
    name: str
    #: The source of its figure, in words.
    figure: str
    #: Why it has no run; empty if it has some.
    why_no_runs: str
    runs: tuple[CaseRun, ...]
    #: True if the figure comes from another scale.
    per_gpu: bool = False

    @property
    def worst(self) -> CaseRun | None:
        """The row with the lowest throughput; ``None`` if there is no row."""
        return min(self.runs, key=lambda run: (run.throughput is not None, run.throughput or 0.0), default=None)

    @property
    def why_not(self) -> str:
        """Why it misses the criterion; empty if it meets it."""
        return self.worst.why_not if self.worst is not None else self.why_no_runs or "not run"

    @property
    def best(self) -> float | None:
        """The throughput of the best job of its worst row."""
        return max(self.worst.of_jobs, default=None) if self.worst is not None else None


@dataclass(frozen=True)
class Conclusion:
    """The criterion for the workloads of one accelerator."""

    accelerator: str
    cases: tuple[CaseResult, ...]

    @property
    def reached(self) -> tuple[CaseResult, ...]:
        """The cases that meet it."""
        return tuple(case for case in self.cases if not case.why_not)

    @property
    def releases(self) -> frozenset[str]:
        """The common releases of all runs, by their logs."""
        named = [run.ran for case in self.cases for run in case.runs]
        return frozenset.intersection(*named) if named else frozenset()

    @property
    def is_met(self) -> bool:
        """True if every case meets it, with the same release."""
        return len(self.reached) == len(self.cases) and bool(self.releases)

    @property
    def is_missed(self) -> bool:
        """True if a measured case misses it."""
        return any(case.worst is not None and case.worst.throughput is not None for case in self._others)

    @property
    def _others(self) -> tuple[CaseResult, ...]:
        return tuple(case for case in self.cases if case.why_not)

    @property
    def text(self) -> str:
        """The result in one line."""
        of = f"{len(self.reached)} of {plural(len(self.cases), 'case')}"
        if self.is_met:
            moved = sum(case.per_gpu for case in self.cases)
            more = f"; {moved} by a figure of another scale, per GPU" if moved else ""
            return f"{self.accelerator}: met by {of}, release {format_releases(sorted(self.releases), 'or')}{more}"
        whys = [case.why_not for case in self._others]
        parts = [f"{whys.count(why)} {why}" for why in dict.fromkeys(whys)]
        if not parts:
            parts = [self._why_no_release]
        return f"{self.accelerator}: not met: {of} reached it; {'; '.join(parts)}"

    @property
    def _why_no_release(self) -> str:
        silent = sum(not run.ran for case in self.cases for run in case.runs)
        if silent:
            return f"{plural(silent, 'run')} {'is' if silent == 1 else 'are'} of no known release, by log and table"
        return "the runs are not of the same release"


def conclusions_of(cases: Iterable[CaseResult]) -> tuple[Conclusion, ...]:
    """The criterion for each accelerator, since it applies to one chip."""
    by_accelerator = grouped([(case.accelerator, case) for case in cases])
    return tuple(Conclusion(accelerator, tuple(found)) for accelerator, found in by_accelerator.items())


def table(conclusions: Sequence[Conclusion]) -> list[str]:
    """The table of all cases with every attempt, and the result of the criterion."""
    rows = [_cells(case) for conclusion in conclusions for case in conclusion.cases]
    columns = ("case", "figure", ">throughput", ">first job", ">best job", ">jobs", "criterion")
    table = plain_table(rows, *columns).splitlines()
    text = ["", "criterion: > 95 % of the figure for each workload of the suite, one release for all"]
    return [*(line.rstrip() for line in table), *text, *(one.text for one in conclusions), *_by_best_job(conclusions)]


def _cells(case: CaseResult) -> tuple[str, ...]:
    run = case.worst
    of_jobs = () if run is None else run.of_jobs
    shown = [None if run is None else run.throughput, of_jobs[0] if of_jobs else None, case.best]
    name = f"{case.accelerator} {case.name}"
    jobs = "" if run is None or run.record is None else _jobs(run.record)
    return (name, case.figure, *("" if one is None else share(one) for one in shown), jobs, case.why_not or "reached")


def _jobs(record: Record) -> str:
    """The number of jobs, and of those that failed."""
    failed = len(record.jobs.failed)
    failed += outcomes.of(record.outcome) is outcomes.ERROR and record.jobs.last is not None
    jobs = len(record.jobs.all)
    return f"{jobs} ({failed} failed)" if failed else str(jobs)


def _by_best_job(conclusions: Sequence[Conclusion]) -> list[str]:
    """The cases that meet it only by their best job."""
    cases = [case for one in conclusions for case in one.cases if case.why_not and (case.best or 0.0) > LEAST]
    named = ", ".join(f"{case.accelerator} {case.name} ({share(case.best or 0.0)})" for case in cases)
    what = "by its best job alone" if len(cases) == 1 else "by their best jobs alone"
    return [f"reached {what}, which is a passing run, and not counted: {named}"] if cases else []


#: Suffix of the file's name that allows figures of other scales, per GPU.
PER_GPU = "@per-gpu"


@dataclass(frozen=True)
class CaseRows:
    """One case, its figures, and its rows in this session."""

    figures: SuiteFigures
    rows: tuple[Baseline, ...]

    @property
    def figure(self) -> str:
        """The source of its figure, in words."""
        if self.figures.there:
            return ", ".join(row.id for row in self.rows)
        if not self.figures.elsewhere:
            return "none"
        ids = ", ".join(row.id for row in self.figures.elsewhere)
        return f"{ids}, per GPU" if self.rows else f"only {ids}"

    @property
    def why_no_rows(self) -> str:
        """Why it has no rows, in a few words; empty if it has some."""
        if self.rows:
            return ""
        return "figure of another scale" if self.figures.elsewhere else "no figure"


@dataclass(frozen=True)
class Certification:
    """A session's rows for the suite."""

    #: The option's value.
    given: Path
    suite: Suite
    cases: tuple[CaseRows, ...]

    def of_table(self, path: Path) -> tuple[Baseline, ...]:
        """The rows of one table, in its order."""
        # Two cases may have one row: fp8 and mxfp8 of a file that names both.
        rows = {row.id: row for case in self.cases for row in case.rows if row.location.path == path}
        return tuple(sorted(rows.values(), key=lambda row: row.location.line))

    def case_of(self, row: Baseline) -> str:
        """The case of a row."""
        return next(_name(case) for case in self.cases if row in case.rows)

    def heading(self) -> list[str]:
        """Lines on the cases: with a figure at the suite's scale, at another one, and without any."""
        suite = self.suite
        there = [case for case in self.cases if case.figures.there]
        elsewhere = [case for case in self.cases if case.figures.elsewhere]
        none = len(self.cases) - len(there) - len(elsewhere)
        figures = f"{len(there)} with a figure at that scale, {len(elsewhere)} at another scale"
        what = f"{figures}{self._transfer(elsewhere)}, {none} with none"
        cases = f"{plural(len(self.cases), 'case')} on {plural(suite.gpus, 'GPU')}"
        lines = [f"suite {relative_path(suite.path)}: {cases}; {what}"]
        width = max(len(_name(case)) for case in self.cases)
        lines += [f"  {_name(case):<{width}}  {case.figure}" for case in self.cases]
        if suite.repeats > 1:
            lines.append(f"suite: its file asks for {suite.repeats} measured jobs of each case: --gsw-repeat=N")
        return lines

    def conclude(self, records: Sequence[Record]) -> Concluded:
        """The certification's criterion by the session's records."""
        # A table outside the command line may have a row with the same name: the run would not be its own.
        rows = {(row.location.path, row.id) for case in self.cases for row in case.rows}
        tables = Counter(name for _, name in rows)
        of_rows = {record.row.id: record for record in records if tables[record.row.id] == 1}
        found = conclusions_of(_case(case, of_rows) for case in self.cases)
        return Concluded(table(found), all(one.is_met for one in found), any(one.is_missed for one in found))

    def _transfer(self, elsewhere: Sequence[CaseRows]) -> str:
        if not elsewhere:
            return ""
        if not _is_per_gpu(self.given):
            return f" (not judged; {PER_GPU} behind the file's name judges by it, per GPU)"
        left = sum(not case.rows for case in elsewhere)
        return f" (judged per GPU{f', but for {left} that cannot be' if left else ''})"


def _name(case: CaseRows) -> str:
    return f"{case.figures.case.accelerator.upper()} {case.figures.case.name}"


def certification(given: Path, cluster: Cluster | None, baselines: Sequence[Path]) -> Certification:
    """The rows of these tables for the suite of ``--gsw-suite``, for the cluster's accelerator.

    Raises:
        ConfigurationError: The file is invalid or has no case for the cluster, or no figures are chosen.
    """
    path = Path(str(given).removesuffix(PER_GPU))
    if not path.is_file():
        raise ConfigurationError(f"--gsw-suite: there is no file {path}")
    suite = _of_cluster(read_suite(path), cluster)
    if not baselines:
        raise ConfigurationError(
            "--gsw-suite needs the figures of one release\n"
            f"{_releases(suite)}"
            "next: choose one with --gsw-release=RELEASE, or name tables of your own with --gsw-baselines=PATH"
        )
    known: dict[Path, Sequence[Baseline]] = {}
    for table in (table for root in baselines for table in load.table_files(root)):
        try:
            known[table] = load.read_table(table).rows
        except ConfigurationError:  # the collection reports the file's faults
            known[table] = ()
    rows = [row for of_table in known.values() for row in of_table]
    figures = [figures_of(case, suite.gpus, rows) for case in suite.cases]
    is_per_gpu = _is_per_gpu(given)
    return Certification(given, suite, tuple(CaseRows(one, _rows(one, suite.gpus, is_per_gpu)) for one in figures))


def _is_per_gpu(given: Path) -> bool:
    """True if a figure of another scale counts, per GPU."""
    return str(given).endswith(PER_GPU)


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
    """Numbers of cases with a figure in each bundled release, a line each; releases without any are left out."""
    lines = []
    for release, paths in reversed(list(bundled.bundled_releases().items())):
        rows = load.read_tables(paths).rows
        found = [figures_of(case, suite.gpus, rows) for case in suite.cases]
        there, elsewhere = sum(bool(figures.there) for figures in found), sum(bool(one.elsewhere) for one in found)
        if there or elsewhere:
            cases = f"{there} of {plural(len(found), 'case')}"
            lines.append(f"{release}: {cases} at {suite.gpus} GPUs, {elsewhere} at another scale\n")
    return "".join(lines)


def _rows(figures: SuiteFigures, gpus: int, is_per_gpu: bool) -> tuple[Baseline, ...]:
    if figures.there or not is_per_gpu:
        return figures.there
    moved = [transferred(row, gpus) for row in figures.elsewhere]
    rows = tuple(row for row in moved if row is not None)
    return rows if len(rows) == len(moved) else ()  # without one of them, the worst of the others would count


def _case(case: CaseRows, records: Mapping[str, Record]) -> CaseResult:
    """A case with the results of its rows."""
    return CaseResult(
        case.figures.case.accelerator.upper(),
        case.figures.case.name,
        case.figure,
        case.why_no_rows,
        tuple(CaseRun(row.judged, row.source.releases, records.get(row.id)) for row in case.rows),
        per_gpu=bool(case.figures.elsewhere),
    )
