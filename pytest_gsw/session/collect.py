"""Tables as pytest collects them: files of rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.session.item import BaselineItem, BlankItem
from pytest_gsw.session.selection import SELECTION, OfTheSession, table_in
from pytest_gsw.session.stash import SETTINGS
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.load import LOG_FORMATS
from pytest_gsw.tables.model import Baseline, BlankRow
from pytest_gsw.tables.yamlfile import read_spelling

_BUILT_IN = frozenset(FORMATS)


class BaselineTables(pytest.Directory):
    """Stands in for the rootdir when the tables are what is collected.

    The bundled tables lie in site-packages or in a checkout. A walk from there to here
    would load the conftest.py files of directories that have nothing to do with the session.
    """

    def collect(self) -> Iterator[BaselineFile]:
        """One file for each selected table."""
        selection = self.config.stash[SELECTION]
        for node_id, path in selection.files.items():
            yield BaselineFile.from_parent(self, path=path, name=node_id, nodeid=node_id)


class BaselineFile(OfTheSession, pytest.File):
    """One YAML file of documented rows."""

    def collect(self) -> list[pytest.Item]:
        """One item for each row; a wrong file is one collection error with all its faults."""
        selection = self.config.stash.get(SELECTION, None)
        wanted = selection.rows.get(self.nodeid) if selection else None
        try:
            table = table_in(self.config, self.path)
            self._check_log_format(table.rows)
        except ConfigurationError as error:
            raise self.CollectError(quoted(str(error), os.environ)) from None
        items: list[pytest.Item] = [self._item(row) for row in table.rows if wanted is None or row.id in wanted]
        if table.blanks:
            items += [self._blank(row) for row in table.blanks if wanted is None or row.id in wanted]
        return items

    def _blank(self, row: BlankRow) -> BlankItem:
        item: BlankItem = BlankItem.from_parent(self, name=row.id, nodeid=f"{self.nodeid}::{row.id}", blank=row)
        return item

    def _check_log_format(self, rows: Sequence[Baseline]) -> None:
        """Make sure that somebody reads the logs of the table's framework.

        Raises:
            FileError: Neither pytest-gsw nor a plugin does.
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
            return True  # the row itself tells what the hook has raised

    def _item(self, row: Baseline) -> BaselineItem:
        # The id as text: pytest takes the bracket apart as it does when it reads --lf's cache.
        item: BaselineItem = BaselineItem.from_parent(
            self, name=row.id, nodeid=f"{self.nodeid}::{row.id}", baseline=row
        )
        suite = self.config.stash[SETTINGS].suite
        if suite is not None:
            item.user_properties.append(("gsw_suite_case", suite.case_of(row)))
        return item
