"""Which tables pytest collects, and under which node ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pluggy
import pytest

from pytest_gsw.clusters.model import why_it_does_not_fit
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.session.node_ids import node_id_below
from pytest_gsw.session.stash import SETTINGS
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.load import Table, read_table, table_files


@dataclass(frozen=True)
class Selection:
    """Tables that are collected without a walk through the file system."""

    #: Each table's node id and path.
    files: Mapping[str, Path]
    #: By a table's node id, the rows to collect of it; all of them where it is left out.
    rows: Mapping[str, frozenset[str]]


SELECTION = pytest.StashKey[Selection]()


class OfTheSession:
    """Whose conftest.py files have a say in a node: those on the way to its table, else the rootdir's."""

    # As the nodes have them that it is mixed into.
    session: pytest.Session
    config: pytest.Config
    path: Path
    _hooks: pluggy.HookRelay | None = None

    @property
    def ihook(self) -> pluggy.HookRelay:
        """The hooks that are asked for this node."""
        if self._hooks is not None:
            return self._hooks
        hooks = self.session.gethookproxy(self.path if _was_walked_to(self) else self.config.rootpath)
        if self.session.testscollected:  # so that no conftest.py comes any more
            self._hooks = hooks
        return hooks


def _was_walked_to(node: OfTheSession) -> bool:
    """Whether pytest has come by a conftest.py on its way to a table; to tables that it is pointed at it takes none."""
    if SELECTION in node.config.stash:
        return False
    manager = node.config.pluginmanager
    return any(manager.has_plugin(str(directory / "conftest.py")) for directory in node.path.parents)


def point_at_tables(config: pytest.Config, roots: tuple[Path, ...]) -> None:
    """Let pytest collect the tables: all without a path, else those that node ids such as ``baselines/…`` name."""
    tables = _tables(config, roots)
    given = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    named = [argument.partition("::") for argument in given]
    if any((config.invocation_params.dir / name).exists() for name, _, _ in named):
        # Real paths are among them: pytest's own way, with the tables' real places.
        for name, _, row in named:
            _check_row(config, name, row, tables.get(name, config.invocation_params.dir / name))
        config.args = [f"{tables.get(name, name)}{separator}{row}" for name, separator, row in named]
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
    """The rows of a table that the session may have; a FileError lists the faults of one that is wrong."""
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
    return tables


def _tables_named(name: str, tables: dict[str, Path]) -> dict[str, Path]:
    """The tables that an argument names: one of them, or all below a directory such as ``baselines/nemo``."""
    prefix = name.rstrip("/") + "/"
    return {node_id: path for node_id, path in tables.items() if node_id == name or node_id.startswith(prefix)}


def _bundled_named(name: str, tables: dict[str, Path], config: pytest.Config) -> dict[str, Path]:
    """The same among the bundled tables of other releases, which a session has only where it is asked for them."""
    found = (path for paths in bundled_releases().values() for path in paths)
    others = _tables_named(name, {node_id_below(path, path, config.rootpath): path for path in found})
    if not others:
        raise pytest.UsageError(f"file or directory not found: {name}{nearest(name, tables)}")
    return others


def _check_row(config: pytest.Config, node_id: str, row: str, path: Path) -> None:
    if not row or path.suffix not in {".yaml", ".yml"}:
        return  # a whole table, or somebody else's item
    try:
        table = table_in(config, path)
    except ConfigurationError:
        return  # the collection reports the file's faults
    there = {row.id for row in table.rows} | {row.id for row in table.blanks}
    if row not in there:
        raise pytest.UsageError(f"not found: {node_id}::{row}{nearest(row, there)}")
    cluster = config.stash[SETTINGS].cluster
    accelerator = next((one.accelerator for one in table.rows if one.id == row), None)
    if cluster is not None and (why := why_it_does_not_fit(accelerator, None, cluster)):
        advice = f"name a cluster that has {accelerator} with --gsw-cluster, or rows for {cluster.accelerator}"
        raise pytest.UsageError(f"{node_id}::{row}: {why}\nnext: {advice}")
