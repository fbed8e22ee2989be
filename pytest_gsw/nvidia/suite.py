"""The certification's suite: its own file ``exemplar.yaml``, the rows that a session has for it, and its criterion.

The file comes with NVIDIA/exemplar-performance from v25.12 on, and is read as its own reader does
(``cli/llmb-run/src/llmb_run/exemplar.py``), but for one thing: a key that is not known is a fault, since it may change
what is asked for.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import counted
from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.nvidia import criterion
from pytest_gsw.nvidia.figures import Case, Figures, figures_of
from pytest_gsw.results.record import Record
from pytest_gsw.results.suites import Concluded
from pytest_gsw.tables import fields as f
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.load import read_table, read_tables, table_files
from pytest_gsw.tables.model import Baseline, transferred
from pytest_gsw.tables.yamlfile import Value, read_mapping

#: What the file's own reader takes for a scale, for repeats, and for profiling that are not given.
_SCALE, _REPEATS, _PROFILE = 512, 1, False
#: What each workload's name begins with: it is trained, and not tuned or served.
_KIND = "pretrain_"
#: Each release's file has about fifty cases of all accelerators together.
_MOST_CASES = 1000

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
    """What a file asks for."""

    path: Path
    #: GPUs of each job.
    gpus: int
    #: Jobs of each case that are measured, the profiled one left out.
    repeats: int
    #: In the order of the file.
    cases: tuple[Case, ...]

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Those that it has cases of."""
        return tuple(dict.fromkeys(case.accelerator for case in self.cases))


def read_suite(path: Path) -> Suite:
    """The suite of a file; a FileError has every fault with its line."""
    values = read_mapping(path, _FIELDS)
    config = {key: value.value for key, value in values["config"].value.items()}
    listed = values["workloads"]
    faults = tuple(_faults(listed))
    cases = () if faults else tuple(itertools.islice(_cases(listed.value), _MOST_CASES + 1))
    if len(cases) > _MOST_CASES:
        faults = (Fault(listed.line, listed.column, "workloads", f"has more than {_MOST_CASES} cases"),)
    if faults:
        raise FileError(path, faults)
    profiled = config.get("profile", _PROFILE)
    return Suite(
        path,
        config.get("scale", _SCALE),
        max(1, config.get("repeats", _REPEATS) - (1 if profiled else 0)),
        cases,
    )


def _faults(listed: Value) -> Iterator[Fault]:
    """What is wrong although each value is right."""
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


#: What stands behind the file's name where figures of other scales count, per GPU.
PER_GPU = "@per-gpu"


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
class Certification:
    """The rows that a session has for the suite."""

    #: As the option has it.
    given: Path
    suite: Suite
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
        suite = self.suite
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

    def conclude(self, records: Sequence[Record]) -> Concluded:
        """The certification's criterion by the session's records."""
        # A table that the command line leaves out may have a row of the same name, whose run it is not.
        rows = {(row.location.path, row.id) for case in self.cases for row in case.rows}
        tables = Counter(name for _, name in rows)
        of_rows = {record.row.id: record for record in records if tables[record.row.id] == 1}
        found = criterion.conclude(_case(case, of_rows) for case in self.cases)
        return Concluded(criterion.lines(found), all(one.is_met for one in found), any(one.is_missed for one in found))

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
    """The rows that these tables have for the suite of ``--gsw-suite``, for the cluster's accelerator.

    Raises:
        ConfigurationError: The file is wrong or has nothing for the cluster, or nothing says which figures are meant.
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
    for table in (table for root in baselines for table in table_files(root)):
        try:
            known[table] = read_table(table).rows
        except ConfigurationError:  # the collection reports the file's faults
            known[table] = ()
    rows = [row for of_table in known.values() for row in of_table]
    figures = [figures_of(case, suite.gpus, rows) for case in suite.cases]
    is_per_gpu = _is_per_gpu(given)
    return Certification(given, suite, tuple(CaseRows(one, _rows(one, suite.gpus, is_per_gpu)) for one in figures))


def _is_per_gpu(given: Path) -> bool:
    """Whether a figure of another scale counts, per GPU."""
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


def _rows(figures: Figures, gpus: int, is_per_gpu: bool) -> tuple[Baseline, ...]:
    if figures.there or not is_per_gpu:
        return figures.there
    moved = [transferred(row, gpus) for row in figures.elsewhere]
    rows = tuple(row for row in moved if row is not None)
    return rows if len(rows) == len(moved) else ()  # without one of them, the worst of the others would count


def _case(case: CaseRows, records: Mapping[str, Record]) -> criterion.Case:
    """A case with what became of its rows."""
    return criterion.Case(
        case.figures.case.accelerator.upper(),
        case.figures.case.name,
        case.figure,
        case.why_no_rows,
        tuple(criterion.CaseRun(row.id, row.judged_s, row.source.releases, records.get(row.id)) for row in case.rows),
        per_gpu=bool(case.figures.elsewhere),
    )
