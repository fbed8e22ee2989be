"""The markers of a row: what it is selected by, and what keeps it from being run."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from pytest_gsw.clusters.model import why_it_does_not_fit
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import SETTINGS
from pytest_gsw.tables.model import Baseline, BlankRow, Parallelism

#: Why rows are skipped where nothing says where to run them.
NO_CLUSTER = "no cluster: give --gsw-cluster=NAME to run it, or --gsw-replay=PATH to judge a log"


class MarkedItem(pytest.Item):
    """A row whose markers are made when they are first looked at: those of ten thousand rows take 12 MB."""

    baseline: Baseline
    _is_marked = False
    _own_markers: list[pytest.Mark]
    _keywords: MutableMapping[str, Any]

    def _mark(self) -> None:
        if not self._is_marked:
            self._is_marked = True  # adding one looks at them
            for marker in _markers(self.baseline, self.config.stash[SETTINGS]):
                self.add_marker(marker)

    @property
    def own_markers(self) -> list[pytest.Mark]:
        """The markers, as pytest and its plugins look for them."""
        self._mark()
        return self._own_markers

    @own_markers.setter
    def own_markers(self, markers: list[pytest.Mark]) -> None:
        self._own_markers = markers

    @property
    def keywords(self) -> MutableMapping[str, Any]:
        """The names of markers and nodes, as pytest and its plugins look for them."""
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
    """What a row is selected by, and what keeps it from being run."""
    yield pytest.mark.gsw(**_marker_facts(baseline))
    if baseline.proxy:
        yield pytest.mark.proxy
    if baseline.canary:
        yield pytest.mark.canary
    yield from _skip(baseline.gpus, settings)


def blank_markers(row: BlankRow, settings: Settings) -> Iterator[pytest.MarkDecorator]:
    """The same of a row with blanks, by what is known of it."""
    facts = {name: row.known.get(name) for name in _FACTS}
    yield pytest.mark.gsw(row=row.id, **facts)
    yield from (getattr(pytest.mark, name) for name in ("proxy", "canary") if facts[name])
    yield from _skip(facts["gpus"], settings)


def _marker_facts(baseline: Baseline) -> dict[str, str | int | bool | None]:
    """The row's facts as ``-m "gsw(gpus=64, dtype='fp8')"`` selects them."""
    apart = {**vars(baseline.parallelism), "document": baseline.source.document}
    facts = {name: apart[name] if name in apart else getattr(baseline, name) for name in _FACTS}
    return {"row": baseline.id, **facts}


def _skip(gpus: int | None, settings: Settings) -> Iterator[pytest.MarkDecorator]:
    """What keeps a row from being run in this session; one of another accelerator is deselected."""
    cluster = settings.cluster
    if reason := (cluster and why_it_does_not_fit(None, gpus, cluster)) if settings.judges else NO_CLUSTER:
        yield pytest.mark.skip(reason=reason)
