"""Tables as pytest collects them: a file of rows, each with the markers by which it is selected or left out."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.selection import SELECTION, OfTheSession
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import SETTINGS
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


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No row and no item is garbage; Python's collector would look through all of them time and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class BaselineFile(OfTheSession, pytest.File):
    """One YAML file of documented rows."""

    def collect(self) -> list[BaselineItem]:
        """One item for each row; a wrong file is one collection error with all its faults."""
        selection = self.config.stash.get(SELECTION, None)
        wanted = selection.rows.get(self.nodeid) if selection else None
        try:
            with _collector_paused():
                return [self._item(row) for row in load_table(self.path) if wanted is None or row.id in wanted]
        except ConfigurationError as error:
            raise self.CollectError(quoted(str(error), os.environ)) from None

    def _item(self, row: Baseline) -> BaselineItem:
        # The id as text: pytest takes the bracket apart as it does when it reads --lf's cache.
        item: BaselineItem = BaselineItem.from_parent(
            self, name=row.id, nodeid=f"{self.nodeid}::{row.id}", baseline=row
        )
        item.add_marker(pytest.mark.gsw(**marker_facts(row)))
        if row.proxy:
            item.add_marker(pytest.mark.proxy)
        if row.canary:
            item.add_marker(pytest.mark.canary)
        reason = skip_reason(row, self.config.stash[SETTINGS])
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
        return item


def marker_facts(baseline: Baseline) -> dict[str, str | int | bool | None]:
    """The row's facts as ``-m "gsw(gpus=64, dtype='fp8')"`` selects them."""
    return {
        "row": baseline.id,
        "workload": baseline.workload,
        "model": baseline.model,
        "size": baseline.size,
        "framework": baseline.framework,
        "dtype": baseline.dtype,
        "accelerator": baseline.accelerator,
        "gpus": baseline.gpus,
        "nodes": baseline.nodes,
        "sequence_length": baseline.sequence_length,
        "global_batch_size": baseline.global_batch_size,
        "micro_batch_size": baseline.micro_batch_size,
        **vars(baseline.parallelism),
        "metric": baseline.metric,
        "proxy": baseline.proxy,
        "canary": baseline.canary,
        "document": baseline.source.document,
    }


def skip_reason(baseline: Baseline, settings: Settings) -> str | None:
    """Why this row is not run in this session, or ``None`` if it is."""
    if not settings.judges:
        return "no cluster: give --gsw-cluster=NAME to run it, or --gsw-replay=PATH to judge a log"
    cluster = settings.cluster
    if cluster is None:
        return None
    return _cluster_skip_reason(baseline, cluster)


def _cluster_skip_reason(baseline: Baseline, cluster: Cluster) -> str | None:
    if cluster.accelerator is not None and cluster.accelerator.lower() != baseline.accelerator.lower():
        return f"the row is for {baseline.accelerator}, {cluster.name} has {cluster.accelerator}"
    if cluster.gpus is not None and baseline.gpus > cluster.gpus:
        return f"the row needs {baseline.gpus} GPUs, {cluster.name} has {cluster.gpus}"
    return None
