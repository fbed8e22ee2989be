"""Tables as pytest collects them: files of rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pluggy
import pytest

from pytest_gsw.clusters import why_it_does_not_fit
from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, Fault, FileError, RunError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.session import node_ids, pytest_private, tiles
from pytest_gsw.session.failure_text import OneLineFailure, fail, failure_of
from pytest_gsw.session.screen import NO_CLUSTER
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION
from pytest_gsw.tables import bundled, yaml_values
from pytest_gsw.tables.load import LOG_FORMATS, Table, blank_error, read_table, table_files
from pytest_gsw.tables.model import TILE, Baseline, BlankRow, without_tile
from pytest_gsw.tables.value_types import nearest

if TYPE_CHECKING:
    from pytest_gsw.acceptance.plan import Stage
    from pytest_gsw.jobs.journal import RunState
    from pytest_gsw.session.stages import Stages

# -- The collected tables, and their node ids -------------------------------------------------------


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
        is_selected = self.config.stash[SESSION].tables is not None
        manager = self.config.pluginmanager
        directories = () if is_selected else self.path.parents
        is_walked_to = any(manager.has_plugin(str(directory / "conftest.py")) for directory in directories)
        hooks = self.session.gethookproxy(self.path if is_walked_to else self.config.rootpath)
        if is_selected or self.session.testscollected:  # no further conftest.py will be loaded
            self._hooks = hooks
        return hooks


def point_at_tables(config: pytest.Config, roots: tuple[Path, ...]) -> None:
    """Make pytest collect the tables: all if no path is given, else those in node ids such as ``baselines/…``."""
    state, tables = config.stash[SESSION], _tables(config, roots)
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
        has_tiles = state.settings.tile is not None
        state.selected = on_tiles = {
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
    rows = {name: frozenset(row for other, _, row in named if other == name) for name, _, row in named}
    for name, _, row in named:
        _check_row(config, name, row, files.get(name, config.rootpath))
    state.tables = files
    state.selected = {files[name]: ids for name, ids in rows.items() if name in files and "" not in ids}
    config.args = [str(config.rootpath)]


def table_in(config: pytest.Config, path: Path) -> Table:
    """The rows of a table that the session may run; a FileError lists the faults of an invalid one."""
    table, suite = read_table(path), config.stash[SESSION].suite
    return table if suite is None else Table(tuple(suite.of_table(path)), ())


def _tables(config: pytest.Config, roots: tuple[Path, ...]) -> dict[str, Path]:
    """Every table below the baselines' directories, by node id."""
    tables: dict[str, Path] = {}
    for root in roots:
        for path in table_files(root):
            node_id = node_ids.node_id_below(path, root, config.rootpath)
            if node_id in tables:
                raise pytest.UsageError(
                    f"--gsw-baselines: {tables[node_id]} and {path} have the same name, {node_id}; rename one directory"
                )
            tables[node_id] = path
    if roots == (bundled.bundled_baselines(),):
        tables |= _benchmarks_named(config)
    return tables


def _benchmarks_named(config: pytest.Config) -> dict[str, Path]:
    """The bundled tables of benchmarks that a word of ``-k`` is about, or rows of the run that is continued."""
    plan, past = config.stash[SESSION].settings.acceptance, config.stash[SESSION].run_before
    keywords = [config.option.keyword, *(stage.rows for stage in (() if plan is None else plan.stages))]
    words = re.findall(r"\w{3,}", " ".join(keywords))
    if not words and past is None:
        return {}
    earlier = {node_id.partition("::")[0] for node_id in past.rows} if past else frozenset()
    tables = {node_ids.node_id_below(path, path, config.rootpath): path for path in bundled.benchmarks()}

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
    found = [*bundled.benchmarks(), *(path for paths in bundled.bundled_releases().values() for path in paths)]
    others = _tables_named(name, {node_ids.node_id_below(path, path, config.rootpath): path for path in found})
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
    cluster = config.stash[SESSION].settings.cluster
    accelerator = next((one.accelerator for one in table.rows if one.id == row_id), None)
    if cluster is not None and (why := why_it_does_not_fit(accelerator, None, cluster)):
        advice = f"name a cluster that has {accelerator} with --gsw-cluster, or rows for {cluster.accelerator}"
        raise pytest.UsageError(f"{node_id}::{row}: {why}\nnext: {advice}")


#: The name of the plugin pytest-rerunfailures.
RERUNS = "rerunfailures"


# -- The markers of a row: for its selection, and to skip it ----------------------------------------


class MarkedItem(pytest.Item):
    """A row whose markers are made at their first use: those of ten thousand rows take 12 MB."""

    baseline: Baseline
    #: The stage of an acceptance; ``None`` without one.
    stage: Stage | None = None
    _is_marked = False
    _own_markers: list[pytest.Mark]
    _keywords: MutableMapping[str, Any]

    @property
    def for_s(self) -> float | None:
        """Seconds that it runs; ``None`` for one run."""
        return None if self.stage is None else self.stage.for_s

    def _mark(self) -> None:
        self._is_marked = True  # set first, since add_marker() reads the markers
        for marker in markers(self.baseline.id, facts_of(self.baseline), self.config.stash[SESSION].settings):
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
FACTS = (
    *("workload", "model", "size", "framework", "dtype", "accelerator", "gpus", "nodes"),
    *("sequence_length", "global_batch_size", "micro_batch_size", "tp", "pp", "cp", "ep", "dp", "vp", "fsdp"),
    *("metric", "proxy", "canary", "document"),
)


def facts_of(baseline: Baseline) -> dict[str, Any]:
    """The facts of a row, for its selection."""
    facts = {
        **baseline.conditions,
        "workload": baseline.workload.name,
        "nodes": baseline.nodes,
        "metric": baseline.criterion.metric,
        "proxy": baseline.workload.proxy,
        "canary": baseline.canary,
        "document": baseline.source.document,
    }
    return {name: facts[name] for name in FACTS}


def markers(row_id: str, facts: Mapping[str, Any], settings: Settings) -> Iterator[pytest.MarkDecorator]:
    """Markers for a row's selection, as in ``-m "gsw(gpus=64, dtype='fp8')"``, and to skip it.

    It is skipped if the session cannot run it; rows for another accelerator are deselected.
    """
    yield pytest.mark.gsw(row=row_id, **facts)
    if facts["proxy"]:
        yield pytest.mark.proxy
    if facts["canary"]:
        yield pytest.mark.canary
    cluster = settings.cluster
    if reason := (cluster and why_it_does_not_fit(None, facts["gpus"], cluster)) if settings.judges else NO_CLUSTER:
        yield pytest.mark.skip(reason=reason)


# -- A row as a pytest item; the modules that judge it are imported when it runs --------------------


class BaselineItem(OneLineFailure, SessionNode, MarkedItem):
    """One documented row."""

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The row's place in its table."""
        # The trailing blank prevents pytest from treating the name as that of a Python function, whose dots
        # it would print as "::": llama3.1_405b would get a node id on the screen that does not exist.
        return self.path, self.baseline.location.line - 1, f"{self.name} "

    def setup(self) -> None:
        """Wait for the job, measure its log, and judge."""
        row = self.config.stash[SESSION].rows.get(self.baseline.id)
        if row is None:
            pytest.skip(
                "not run: this session judges nothing (--setup-only, --setup-plan, --gsw-plan or a foreign loop)"
            )
        row.set_up()

    def runtest(self) -> None:
        """Report the verdict of the set-up."""
        self.config.stash[SESSION].rows[self.baseline.id].report()

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
        facts = {name: blank.known.get(name) for name in FACTS}
        for marker in markers(blank.id, facts, self.config.stash[SESSION].settings):
            self.add_marker(marker)

    @cached_property
    def error(self) -> RunError:
        """The error in place of a result."""
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
        for node_id, path in (self.config.stash[SESSION].tables or {}).items():
            yield BaselineFile.from_parent(self, path=path, name=node_id, nodeid=node_id)


class BaselineFile(SessionNode, pytest.File):
    """One YAML file of documented rows."""

    def collect(self) -> list[pytest.Item]:
        """One item for each row; an invalid file is one collection error with all its faults."""
        state = self.config.stash[SESSION]
        wanted = state.selected.get(self.path)
        try:
            table = table_in(self.config, self.path)
            self._check_log_format(table.rows)
        except ConfigurationError as error:
            raise self.CollectError(redact(str(error), os.environ)) from None
        if state.stages is not None:
            return self._of_stages(state.stages, table, state.run_before)
        past = state.run_before
        named = {argument.partition("::")[2] for argument in self.config.args} if wanted is None else wanted
        rows = tiles.rows_on_tiles(state.tiling, table.rows, named, None if past is None else past.row_ids)
        chosen = [self.item_of(row) for row in rows if wanted is None or {row.id, row.row_id} & wanted]
        if state.suite is not None:
            for item in chosen:
                item.user_properties.append(("gsw_suite_case", state.suite.case_of(item.baseline)))
        return [*chosen, *(self._blank_of(row) for row in table.blanks if wanted is None or row.id in wanted)]

    def _of_stages(self, stages: Stages, table: Table, past: RunState | None) -> list[pytest.Item]:
        """An item for each row, or tile of it, of a stage; one for a blank row that a stage selects."""
        own = tiles.tiles_by_row(past.row_ids if past is not None else ())
        items = [
            self.item_of(placed, stage)
            for row in table.rows
            for stage, placed in stages.place(row, partial(pytest_private.is_selected, self.item_of(row)), own)
        ]
        blanks = {}
        for blank in map(self._blank_of, table.blanks):
            for stage in stages.plan.stages:
                if pytest_private.is_selected(blank, stage.rows, stage.marks):
                    stages.blanks[stage.name].append(blank.name)
                    blanks[blank.name] = blank
        return [*items, *blanks.values()]

    def _blank_of(self, row: BlankRow) -> BlankItem:
        blank: BlankItem = BlankItem.from_parent(self, name=row.id, nodeid=f"{self.nodeid}::{row.id}", blank=row)
        return blank

    def _check_log_format(self, rows: Sequence[Baseline]) -> None:
        """Check that a reader exists for the logs of the table's framework.

        Raises:
            FileError: Neither pytest-gsw nor a plugin has one.
        """
        if not rows or rows[0].workload.log_format in _BUILT_IN or any(map(self._has_reader, rows)):
            return
        spelt: Any = yaml_values.read_spelling(self.path)
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

    def item_of(self, row: Baseline, stage: Stage | None = None) -> BaselineItem:
        """The item of a row of this table."""
        # The id as text: pytest splits it at the bracket, as it does with --lf's cache.
        item: BaselineItem = BaselineItem.from_parent(self, name=row.id, nodeid=f"{self.nodeid}::{row.id}")
        item.baseline, item._hooks = row, self._hooks  # noqa: SLF001 - a row of the same file
        item.stage = stage
        return item


def runs_nothing(config: pytest.Config) -> bool:
    """True if pytest only shows the set-up of items."""
    return bool(config.option.setuponly or config.option.setupplan)
