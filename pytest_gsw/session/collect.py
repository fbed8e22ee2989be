"""Tables as pytest collects them: files of rows."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pluggy
import pytest

from pytest_gsw.clusters import why_it_does_not_fit
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import command, enumerated, plural
from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.session.node_ids import node_id_below
from pytest_gsw.session.settings import OF_SELECTION, SETTINGS, Settings, bundled_rows
from pytest_gsw.session.tiles import rows_on_tiles, tiling_of, unfit_lines
from pytest_gsw.tables.bundled import benchmarks, bundled_baselines, bundled_releases, models_like
from pytest_gsw.tables.load import LOG_FORMATS, Table, read_table, table_files
from pytest_gsw.tables.model import TILE, Baseline, BlankRow, Parallelism, without_tile
from pytest_gsw.tables.releases import format_releases
from pytest_gsw.tables.value_types import misspelt, nearest
from pytest_gsw.tables.yaml_values import read_spelling

if TYPE_CHECKING:
    from pytest_gsw.errors import RunError
    from pytest_gsw.jobs.journal import RunState
    from pytest_gsw.results.record import Record
    from pytest_gsw.session.row import SessionRow

# -- pytest's report of a failed row: its whole text, and its fact where one line has to do ---------


class OneLineFailure:
    """An item whose failure is a text with a one-line fact at its beginning."""


def fail(text: str) -> NoReturn:
    """End a phase of an item by a failure: the text is the report, in set-up and call alike, without a traceback."""
    raise pytest.fail.Exception(text, pytrace=False) from None


def fail_report(item: pytest.Item, report: pytest.TestReport, text: str) -> None:
    """Make a failure of a report, whatever ended the item."""
    report.outcome, report.longrepr = "failed", failure_of(text, *item.location[:2])


def failure_of(text: str, path: str, line: int | None = None, fact: str = "") -> Any:
    """Representation of a failure with this text at a place, as pytest would make it; the fact is its first line."""
    try:
        fail(text)
    except pytest.fail.Exception:
        return _with_fact(pytest.ExceptionInfo.from_current().getrepr(style="value"), fact or text, path, line)


def show_fact(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Use the first line of a failure's text in the short summary, in ``--tb=line`` and as JUnit's message."""
    if (
        report.outcome == "failed"
        and call.excinfo is not None
        and isinstance(call.excinfo.value, pytest.fail.Exception)
    ):
        _with_fact(report.longrepr, str(call.excinfo.value), *item.location[:2])


def shorten_failure(report: pytest.TestReport, text: str, fact: str) -> None:
    """Use another line than the text's first one in the short summary, unless the failure is another one."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and crash.message == text.partition("\n")[0]:
        crash.message = fact


def _with_fact(shown: Any, text: str, path: str, line: int | None) -> Any:
    """Set the fact and the row's place in its table, instead of the whole text and a place in this package."""
    crash = getattr(shown, "reprcrash", None)
    if crash is not None:
        crash.message = text.partition("\n")[0]
        crash.path, crash.lineno = path, (line or 0) + 1
    return shown


# -- The collected tables, and their node ids -------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """Tables that are collected without a walk through the file system."""

    #: Each table's node id and path.
    files: Mapping[str, Path]
    #: Selected rows by a table's node id; a missing table means all of its rows.
    rows: Mapping[str, frozenset[str]]


SELECTION = pytest.StashKey[Selection]()
#: By table, the rows that are named on the command line, of a session with tiles that pytest collects by itself.
_ROWS_NAMED = pytest.StashKey[Mapping[Path, frozenset[str]]]()


class SessionNode:
    """A node with the hooks of the conftest.py files on the way to its table, else of the rootdir's."""

    # Attributes of the nodes that this class is mixed into.
    session: pytest.Session
    config: pytest.Config
    path: Path
    _hooks: pluggy.HookRelay | None = None

    @property
    def ihook(self) -> pluggy.HookRelay:
        """The hooks for this node."""
        if self._hooks is not None:
            return self._hooks
        # pytest collects selected tables without a walk past any conftest.py.
        is_selected, manager = SELECTION in self.config.stash, self.config.pluginmanager
        directories = () if is_selected else self.path.parents
        is_walked_to = any(manager.has_plugin(str(directory / "conftest.py")) for directory in directories)
        hooks = self.session.gethookproxy(self.path if is_walked_to else self.config.rootpath)
        if is_selected or self.session.testscollected:  # no further conftest.py will be loaded
            self._hooks = hooks
        return hooks


def point_at_tables(config: pytest.Config, roots: tuple[Path, ...]) -> None:
    """Make pytest collect the tables: all if no path is given, else those in node ids such as ``baselines/…``."""
    tables = _tables(config, roots)
    given = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    named = [argument.partition("::") for argument in given]
    if any((config.invocation_params.dir / name).exists() for name, _, _ in named):
        # Some arguments are real paths: pytest collects all by itself, the tables by their real paths.
        here = config.invocation_params.dir
        paths = [tables.get(name, Path(os.path.abspath(here / name))) for name, _, _ in named]  # noqa: PTH100
        of_table: dict[Path, set[str]] = {}
        for path, (name, _, row) in zip(paths, named, strict=True):
            _check_row(config, name, row, path)
            if path.suffix in {".yaml", ".yml"}:
                of_table.setdefault(path, set()).add(row)
        # A row stands for all of its tiles, and a tile is known by its name alone: pytest knows neither.
        has_tiles = config.stash[SETTINGS].tile is not None
        config.stash[_ROWS_NAMED] = on_tiles = {
            path: frozenset(rows)
            for path, rows in of_table.items()
            if "" not in rows and (has_tiles or any(TILE in row for row in rows))
        }
        others = [
            f"{tables.get(name, name)}{separator}{row}"
            for path, (name, separator, row) in zip(paths, named, strict=True)
            if path not in on_tiles
        ]
        config.args = [*others, *map(str, on_tiles)]
        return
    files = tables
    if given:
        chosen = [_tables_named(name, tables) or _bundled_named(name, tables, config) for name, _, _ in named]
        files = {node_id: path for found in chosen for node_id, path in found.items()}
    rows = {name: frozenset(row for other, _, row in named if other == name) for name, _, row in named if row}
    whole = {name for name, _, row in named if not row}
    selection = Selection(files, {name: ids for name, ids in rows.items() if name not in whole})
    for name, _, row in named:
        _check_row(config, name, row, files.get(name, config.rootpath))
    config.stash[SELECTION] = selection
    config.args = [str(config.rootpath)]


def table_in(config: pytest.Config, path: Path) -> Table:
    """The rows of a table that the session may run; a FileError lists the faults of an invalid one."""
    table, suite = read_table(path), config.stash[SETTINGS].suite
    return table if suite is None else Table(tuple(suite.of_table(path)), ())


def _tables(config: pytest.Config, roots: tuple[Path, ...]) -> dict[str, Path]:
    """Every table below the baselines' directories, by node id."""
    tables: dict[str, Path] = {}
    for root in roots:
        for path in table_files(root):
            node_id = node_id_below(path, root, config.rootpath)
            if node_id in tables:
                raise pytest.UsageError(
                    f"--gsw-baselines: {tables[node_id]} and {path} have the same name, {node_id}; rename one directory"
                )
            tables[node_id] = path
    if roots == (bundled_baselines(),):
        tables |= _benchmarks_named(config)
    return tables


def _benchmarks_named(config: pytest.Config) -> dict[str, Path]:
    """The bundled tables of benchmarks that a word of ``-k`` is about, or rows of the run that is continued."""
    words, past = re.findall(r"\w{3,}", config.option.keyword), run_before(config)
    if not words and past is None:
        return {}
    earlier = {node_id.partition("::")[0] for node_id in past.rows} if past else frozenset()
    tables = {node_id_below(path, path, config.rootpath): path for path in benchmarks()}

    def is_named(path: Path) -> bool:
        model = path.stem.rpartition("_")[0]
        return any(word in path.stem or model in word for word in words)

    return {node_id: path for node_id, path in tables.items() if node_id in earlier or is_named(path)}


def _tables_named(name: str, tables: dict[str, Path]) -> dict[str, Path]:
    """The tables that match an argument: one of them, or all below a directory such as ``baselines/nemo``."""
    prefix = name.rstrip("/") + "/"
    return {node_id: path for node_id, path in tables.items() if node_id == name or node_id.startswith(prefix)}


def _bundled_named(name: str, tables: dict[str, Path], config: pytest.Config) -> dict[str, Path]:
    """Matches among the bundled tables of other releases, which a session uses only on request."""
    found = [*benchmarks(), *(path for paths in bundled_releases().values() for path in paths)]
    others = _tables_named(name, {node_id_below(path, path, config.rootpath): path for path in found})
    if not others:
        raise pytest.UsageError(f"file or directory not found: {name}{nearest(name, tables)}")
    return others


_NODES = re.compile(r"[\w.-]+(?: [\w.-]+)*", re.ASCII)


def _check_row(config: pytest.Config, node_id: str, row: str, path: Path) -> None:
    if not row or path.suffix not in {".yaml", ".yml"}:
        return  # a whole table, or another plugin's item
    try:
        table = table_in(config, path)
    except ConfigurationError:
        return  # the collection reports the file's faults
    there = {row.id for row in table.rows} | {row.id for row in table.blanks}
    row_id = without_tile(row)
    if row_id not in there:
        raise pytest.UsageError(f"not found: {node_id}::{row}{nearest(row_id, there)}")
    if TILE in row and not _NODES.fullmatch(" ".join(expand(row.partition(TILE)[2]))):
        raise pytest.UsageError(f"{node_id}::{row}: no node list such as n[001-004] after the {TILE}")
    cluster = config.stash[SETTINGS].cluster
    accelerator = next((one.accelerator for one in table.rows if one.id == row_id), None)
    if cluster is not None and (why := why_it_does_not_fit(accelerator, None, cluster)):
        advice = f"name a cluster that has {accelerator} with --gsw-cluster, or rows for {cluster.accelerator}"
        raise pytest.UsageError(f"{node_id}::{row}: {why}\nnext: {advice}")


#: The name of the plugin pytest-rerunfailures.
RERUNS = "rerunfailures"


# -- The markers of a row: for its selection, and to skip it ----------------------------------------


#: The reason why rows are skipped for lack of a cluster.
NO_CLUSTER = "no cluster: give --gsw-cluster=NAME to run it, or --gsw-replay=PATH to judge a log"


class MarkedItem(pytest.Item):
    """A row whose markers are made at their first use: those of ten thousand rows take 12 MB."""

    baseline: Baseline
    _is_marked = False
    _own_markers: list[pytest.Mark]
    _keywords: MutableMapping[str, Any]

    def _mark(self) -> None:
        self._is_marked = True  # set first, since add_marker() reads the markers
        for marker in _markers(self.baseline, self.config.stash[SETTINGS]):
            self.add_marker(marker)

    @property
    def own_markers(self) -> list[pytest.Mark]:
        """The markers, under the name that pytest and its plugins use."""
        if not self._is_marked:
            self._mark()
        return self._own_markers

    @own_markers.setter
    def own_markers(self, markers: list[pytest.Mark]) -> None:
        self._own_markers = markers

    @property
    def keywords(self) -> MutableMapping[str, Any]:
        """The names of markers and nodes, under the name that pytest and its plugins use."""
        if not self._is_marked:
            self._mark()
        return self._keywords

    @keywords.setter
    def keywords(self, keywords: MutableMapping[str, Any]) -> None:
        self._keywords = keywords


#: The facts of a row.
_FACTS = (
    *("workload", "model", "size", "framework", "dtype", "accelerator", "gpus", "nodes"),
    *("sequence_length", "global_batch_size", "micro_batch_size", *Parallelism.__dataclass_fields__),
    *("metric", "proxy", "canary", "document"),
)


def _markers(baseline: Baseline, settings: Settings) -> Iterator[pytest.MarkDecorator]:
    """Markers for a row's selection, as in ``-m "gsw(gpus=64, dtype='fp8')"``, and to skip it."""
    apart = {**vars(baseline.parallelism), "document": baseline.source.document}
    facts = {name: apart[name] if name in apart else getattr(baseline, name) for name in _FACTS}
    yield pytest.mark.gsw(row=baseline.id, **facts)
    if baseline.proxy:
        yield pytest.mark.proxy
    if baseline.canary:
        yield pytest.mark.canary
    yield from _skip(baseline.gpus, settings)


def blank_markers(row: BlankRow, settings: Settings) -> Iterator[pytest.MarkDecorator]:
    """The same for a row with blanks, from its known values."""
    facts = {name: row.known.get(name) for name in _FACTS}
    yield pytest.mark.gsw(row=row.id, **facts)
    yield from (getattr(pytest.mark, name) for name in ("proxy", "canary") if facts[name])
    yield from _skip(facts["gpus"], settings)


def _skip(gpus: int | None, settings: Settings) -> Iterator[pytest.MarkDecorator]:
    """The marker of a row that this session cannot run; rows for another accelerator are deselected."""
    cluster = settings.cluster
    if reason := (cluster and why_it_does_not_fit(None, gpus, cluster)) if settings.judges else NO_CLUSTER:
        yield pytest.mark.skip(reason=reason)


# -- A row as a pytest item; the modules that judge it are imported when it runs --------------------


class BaselineItem(OneLineFailure, SessionNode, MarkedItem):
    """One documented row."""

    #: The row in a session that runs it; else ``None``.
    row: SessionRow | None = None

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The row's place in its table."""
        # The trailing blank prevents pytest from treating the name as that of a Python function, whose dots
        # it would print as "::": llama3.1_405b would get a node id on the screen that does not exist.
        return self.path, self.baseline.location.line - 1, f"{self.name} "

    def setup(self) -> None:
        """Wait for the job, measure its log, and judge."""
        if self.row is None:
            pytest.skip(
                "not run: this session judges nothing (--setup-only, --setup-plan, --gsw-plan or a foreign loop)"
            )
        self.row.set_up()

    def runtest(self) -> None:
        """Report the verdict of the set-up."""
        if self.row is not None:
            self.row.report()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text of a report; redacted if it is a traceback, which shows arguments and perhaps the environment."""
        shown = super().repr_failure(excinfo, style)
        if isinstance(excinfo.value, pytest.fail.Exception):
            return shown
        text, fact = redact((str(shown), excinfo.exconly()), os.environ)
        return failure_of(text, *self.location[:2], fact)


class BlankItem(OneLineFailure, SessionNode, pytest.Item):
    """A row that cannot run because a value is missing: an error with the place to write it."""

    def __init__(self, *, blank: BlankRow, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.blank = blank
        for marker in blank_markers(blank, self.config.stash[SETTINGS]):
            self.add_marker(marker)

    @cached_property
    def error(self) -> RunError:
        """The error in place of a result."""
        from pytest_gsw.tables.load import blank_error

        return redact(blank_error(self.blank), os.environ)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The row's place in its table."""
        return self.path, self.blank.location.line - 1, f"{self.name} "

    def setup(self) -> NoReturn:
        """Report the missing values; in JUnit it is a row without a record."""
        from pytest_gsw.results.outcomes import ERROR

        facts = {"gsw_row": self.name, "gsw_outcome": ERROR.word, "gsw_fact": self.error.fact}
        self.user_properties.extend(facts.items())
        fail(str(self.error))

    def runtest(self) -> None:
        """Do nothing: the row cannot run."""


def blank_rows(items: Iterable[pytest.Item]) -> list[BlankItem]:
    """The rows with blanks that the session would run: neither cluster nor options leave them out."""
    # isinstance() would call the metaclass for each of ten thousand rows.
    return [item for item in items if type(item) is BlankItem and item.get_closest_marker("skip") is None]


#: The names alone: a look-up in :data:`FORMATS` imports the format.
_BUILT_IN = frozenset(FORMATS)


class BaselineTables(pytest.Directory):
    """A replacement of the rootdir if only tables are collected.

    The bundled tables are in site-packages or in a checkout. A walk from there to here
    would load the conftest.py files of unrelated directories.
    """

    def collect(self) -> Iterator[BaselineFile]:
        """One file for each selected table."""
        selection = self.config.stash[SELECTION]
        for node_id, path in selection.files.items():
            yield BaselineFile.from_parent(self, path=path, name=node_id, nodeid=node_id)


class BaselineFile(SessionNode, pytest.File):
    """One YAML file of documented rows."""

    def collect(self) -> list[pytest.Item]:
        """One item for each row; an invalid file is one collection error with all its faults."""
        selection = self.config.stash.get(SELECTION, None)
        of_path = self.config.stash.get(_ROWS_NAMED, {})
        wanted = selection.rows.get(self.nodeid) if selection else of_path.get(self.path)
        try:
            table = table_in(self.config, self.path)
            self._check_log_format(table.rows)
        except ConfigurationError as error:
            raise self.CollectError(redact(str(error), os.environ)) from None
        past = run_before(self.config)
        rows = rows_on_tiles(self.config, table.rows, wanted, None if past is None else past.row_ids)
        chosen = [self._item(row) for row in rows if wanted is None or {row.id, row.row_id} & wanted]
        suite = self.config.stash[SETTINGS].suite
        if suite is not None:
            for item in chosen:
                item.user_properties.append(("gsw_suite_case", suite.case_of(item.baseline)))
        blanks = [
            BlankItem.from_parent(self, name=row.id, nodeid=f"{self.nodeid}::{row.id}", blank=row)
            for row in table.blanks
            if wanted is None or row.id in wanted
        ]
        return [*chosen, *blanks]

    def _check_log_format(self, rows: Sequence[Baseline]) -> None:
        """Check that a reader exists for the logs of the table's framework.

        Raises:
            FileError: Neither pytest-gsw nor a plugin has one.
        """
        if not rows or rows[0].log_format in _BUILT_IN or any(map(self._has_reader, rows)):
            return
        spelt: Any = read_spelling(self.path)
        key, what = ("log_format", "log format") if "log_format" in spelt else ("framework", "framework")
        place, known = spelt[key], sorted({*FORMATS, *LOG_FORMATS})
        near = nearest(place.text, known)
        problem = f"unknown {what} '{place.text}'{near}{' ' if near else '; '}known: {', '.join(known)}"
        raise FileError(self.path, (Fault(place.line, place.column, key, f"{problem}, and those of plugins"),))

    def _has_reader(self, row: Baseline) -> bool:
        try:
            return self.config.hook.pytest_gsw_log_format(config=self.config, baseline=row) is not None
        except Exception:
            return True  # the row itself will report the hook's error

    def _item(self, row: Baseline) -> BaselineItem:
        # The id as text: pytest splits it at the bracket, as it does with --lf's cache.
        item: BaselineItem = BaselineItem.from_parent(self, name=row.id, nodeid=f"{self.nodeid}::{row.id}")
        item.baseline, item._hooks = row, self._hooks  # noqa: SLF001 - a row of the same file
        return item


# -- The rows a session runs; for a replay or resumption, those of the earlier run ------------------


#: The records of the replayed run, once they were read.
_RECORDED = pytest.StashKey["dict[str, Record] | None"]()


def runnable(items: Iterable[pytest.Item]) -> list[BaselineItem]:
    """The rows to run: neither this plugin nor another one has marked them to be skipped."""
    return [item for item in items if isinstance(item, BaselineItem) and not any(map(_is_skipped, item.iter_markers()))]


def _is_skipped(mark: pytest.Mark) -> bool:
    """True if a marker prevents a row from running; conditions in words are left to pytest."""
    if mark.name == "skipif":
        return any(bool(condition) for condition in mark.args if not isinstance(condition, str))
    return mark.name == "skip" or (mark.name == "xfail" and not mark.args and mark.kwargs.get("run", True) is False)


def recorded_rows(config: pytest.Config) -> dict[str, Record] | None:
    """The records in a replayed run's directory, by row; ``None`` if it is no such directory. They are read once."""
    if _RECORDED not in config.stash:
        config.stash[_RECORDED] = _read_recorded(config.stash[SETTINGS])
    return config.stash[_RECORDED]


def _read_recorded(settings: Settings) -> dict[str, Record] | None:
    if settings.replay is None:
        return None
    from pytest_gsw.results.record import read_records

    try:
        if not (settings.replay / "records").is_dir():
            return None
        records = read_records(settings.replay)
    except ValueError as error:
        raise pytest.UsageError(f"--gsw-replay: {error}") from None
    except OSError as error:
        raise pytest.UsageError(f"--gsw-replay: {error.filename}: {error.strerror}") from None
    _check_cluster(settings, records)
    return {record.row.id: record for record in records}


def _check_cluster(settings: Settings, records: Iterable[Record]) -> None:
    """Check that a replayed run is not judged by the figures of another cluster."""
    if settings.cluster is None:
        return
    from pytest_gsw.results.record import NO_CLUSTER

    name = settings.cluster.name
    # A replay without a cluster does not record the origin of its logs.
    other = next((record for record in records if record.run.cluster not in {name, NO_CLUSTER}), None)
    if other is not None:
        raise pytest.UsageError(
            f"--gsw-replay: the run {other.run.id} was of the cluster '{other.run.cluster}', not '{name}'\n"
            f"next: give {command(*other.run.cluster_options)}, or leave it out to judge by the document"
        )


def runs_nothing(config: pytest.Config) -> bool:
    """True if pytest only shows the set-up of items."""
    return bool(config.option.setuponly or config.option.setupplan)


def run_before(config: pytest.Config) -> RunState | None:
    """The run that is replayed or resumed; for a replayed one with its rows only, judged or not."""
    settings, recorded = config.stash[SETTINGS], recorded_rows(config)
    if recorded is None or settings.replay is None:
        return settings.past
    from pytest_gsw.jobs.journal import RunState
    from pytest_gsw.results.manifest import read_noted

    node_ids = [*read_noted(settings.replay).rows, *(record.row.node_id for record in recorded.values())]
    return RunState("", tuple(dict.fromkeys(node_ids)))


def leave_out_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect rows for other accelerators than the cluster's, in one line; if none is left, with the next command."""
    settings = config.stash[SETTINGS]
    cluster, rows = settings.cluster, [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    names = {_accelerator_of(item) for item in rows if cluster is not None}
    others = {str(name) for name in names if cluster and why_it_does_not_fit(name, None, cluster)}
    if cluster is None or not others:
        return
    dropped = [item for item in rows if _accelerator_of(item) in others]
    deselect(config, items, dropped)
    what = f"{plural(len(dropped), 'row')} for {enumerated(sorted(others))}"
    lines = [f"gsw: {what} left out: {cluster.name} has {cluster.accelerator}"]
    if dropped == rows:
        there, step = bundled_rows(cluster, settings.release)
        correct = f"next: correct 'accelerator' in {relative_path(dropped[0].path)}, or name a cluster that has it"
        is_bundled = dropped[0].path.is_relative_to(bundled_baselines())
        lines += [f"gsw: {there}", f"next: {step}"] if is_bundled else [correct]
    report_selection(config, lines)


def leave_out_unfit(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect rows that the tiles do not fit, in one line with those that do."""
    tiling = tiling_of(config)
    if tiling is not None:
        unfit = [item for item in items if isinstance(item, BaselineItem) and not item.baseline.tile]
        report_selection(config, unfit_lines(tiling, [item.baseline for item in unfit]))
        deselect(config, items, [item for item in unfit if item.baseline.id in {*tiling.unfit, *tiling.fitting}])


def _accelerator_of(item: BaselineItem | BlankItem) -> str | None:
    return item.baseline.accelerator if isinstance(item, BaselineItem) else item.blank.known.get("accelerator")


def deselect(config: pytest.Config, items: list[pytest.Item], dropped: Sequence[pytest.Item]) -> None:
    """Leave items out of the session, counted by pytest as deselected."""
    if gone := set(dropped):
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)


def are_rows_named(config: pytest.Config) -> bool:
    """True if the user chose rows or tables, all of which are to be judged; False for the bundled ones by default."""
    settings = config.stash[SETTINGS]
    is_bundled = settings.suite is None and settings.baselines[0].is_relative_to(bundled_baselines())
    return not is_bundled or bool(config.option.file_or_dir) or is_selective(config)


def is_selective(config: pytest.Config) -> bool:
    """True if the command line chooses among the rows of files."""
    return any(getattr(config.option, name, None) for name in ("keyword", "markexpr", "deselect", "lf", "stepwise"))


def keep_rows_of_run(config: pytest.Config, items: list[pytest.Item], past: RunState | None) -> None:
    """Keep only the rows of the run that is replayed or resumed."""
    rows = [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    if past is not None:
        had = set(past.row_ids)
        deselect(config, items, [item for item in rows if item.name not in had])


def none_selected(session: pytest.Session, items: Iterable[pytest.Item]) -> Iterator[str]:
    """Lines for a session without rows: words of ``-k`` and ``-m`` that no row has, and the nearest ones.

    ``items`` are those before the selection.
    """
    config, rows = session.config, [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    keyword, expression, ids = config.option.keyword, config.option.markexpr, [row.name for row in rows]
    settings = config.stash[SETTINGS]
    tables = settings.baselines
    if not rows and not session.testsfailed:
        yield f"gsw: there is no row in {enumerated(map(str, map(relative_path, tables)))}; tables are .yaml files"
    if not rows or not (keyword or expression):
        return
    pieces = [re.split(r"[_\[\]]", name) for name in ids]
    known = {*ids, *("_".join(one[:n]) for one in pieces for n in range(1, len(one))), *chain.from_iterable(pieces)}
    names = "\n".join(row.nodeid for row in rows).lower()
    words = [word for word in re.findall(r"[^\s()]+", keyword) if word not in {"and", "or", "not"}]
    problems = [f"-k: no row has '{word}'{nearest(word, known)}" for word in words if word.lower() not in names]
    problems += [f"-m: {problem}" for problem in _marker_problems(config, expression, rows)]
    given = [f"-k '{keyword}'" if keyword else "", f"-m '{expression}'" if expression else ""]
    yield from (f"gsw: {problem}" for problem in problems or [f"no row matches {' '.join(filter(None, given))}"])
    if not tables[0].is_relative_to(bundled_baselines()):
        yield f"next: {command('pytest-gsw', 'rows', *map(str, map(relative_path, tables)))}"
        return
    there = {row.path for row in rows}
    missed = [word for word in words if word.lower() not in names and not models_like(word, there)]
    having = [one for one, own in bundled_releases().items() if any(models_like(word, own) for word in missed)]
    if having:
        yield f"gsw: other releases have it: {', '.join(having)}"
        options = settings.cluster.options if settings.cluster else ()
        yield f"next: {command('pytest', *options, f'--gsw-release={having[-1]}', '-k', keyword)}"
    else:
        yield "next: pytest-gsw rows"


def _marker_problems(config: pytest.Config, expression: str, rows: Sequence[pytest.Item]) -> Iterator[str]:
    """Markers, and facts of rows, in ``-m`` that no row has."""
    try:
        nodes = [*ast.walk(ast.parse(expression or "gsw", mode="eval"))]
    except SyntaxError:  # pytest allows words such as 3b
        return
    known = {re.split(r"[(:]", line)[0].strip() for line in config.getini("markers")}
    yield from (
        f"unknown marker '{node.id}'{nearest(node.id, known)}"
        for node in nodes
        if isinstance(node, ast.Name) and node.id not in known
    )
    for node in nodes:
        if not isinstance(node, ast.keyword) or not isinstance(node.value, ast.Constant):
            continue
        name, value = str(node.arg), node.value.value
        there = {mark.kwargs.get(name) for row in rows for mark in row.iter_markers("gsw")} - {None}
        if name not in _FACTS:
            yield f"no row has a fact '{name}'{nearest(name, _FACTS)}"
        elif value not in there:
            near = misspelt(repr(value), [*map(repr, there)])
            yield f"no row has {name}={value!r}" + (f"; did you mean {near[0]}?" if near else "")


def report_selection(config: pytest.Config, lines: Iterable[str]) -> None:
    """Print these lines once all is collected."""
    config.stash.setdefault(OF_SELECTION, []).extend(lines)


def check_faults(items: list[BaselineItem], settings: Settings) -> None:
    """Check that every fault of ``--gsw-demo`` matches a row: without a match, all rows would look healthy."""
    if not settings.faults:
        return
    from pytest_gsw.demo.simulation import parse_faults

    faults = parse_faults(";".join(settings.faults))
    missed = [fault.pattern for fault in faults if not any(fault.matches(item.baseline.id) for item in items)]
    if missed:
        rows = [name for item in items for name in (item.baseline.workload, item.baseline.id)]
        lines = [f"no selected row matches '{one}'{nearest(one, rows)}" for one in missed]
        raise pytest.UsageError("\n".join([*(f"--gsw-demo: {line}" for line in lines), "next: pytest-gsw rows"]))


def check_release(items: Iterable[BaselineItem], settings: Settings) -> None:
    """Check that all named rows have figures of the requested release."""
    release = settings.release
    for item in items if release is not None else ():
        own = item.baseline.source.releases
        if own and release not in own:
            raise pytest.UsageError(
                f"release {release} is asked for, and the figures of {item.nodeid} are of {format_releases(own)}\n"
                f"next: name the row with -k '{item.baseline.id.partition('[')[0]}', or ask for --gsw-release={own[-1]}"
            )
