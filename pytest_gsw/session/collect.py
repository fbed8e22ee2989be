"""Tables as pytest collects them: files of rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.selection import SELECTION, OfTheSession
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline


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

    def collect(self) -> list[BaselineItem]:
        """One item for each row; a wrong file is one collection error with all its faults."""
        selection = self.config.stash.get(SELECTION, None)
        wanted = selection.rows.get(self.nodeid) if selection else None
        try:
            return [self._item(row) for row in load_table(self.path) if wanted is None or row.id in wanted]
        except ConfigurationError as error:
            raise self.CollectError(quoted(str(error), os.environ)) from None

    def _item(self, row: Baseline) -> BaselineItem:
        # The id as text: pytest takes the bracket apart as it does when it reads --lf's cache.
        item: BaselineItem = BaselineItem.from_parent(
            self, name=row.id, nodeid=f"{self.nodeid}::{row.id}", baseline=row
        )
        return item
