"""MLPerf's log lines: the time from ``run_start`` to ``run_stop``, which states if the target was reached.

::

    :::MLLOG {"namespace": "", "time_ms": 1592346584432, "event_type": "INTERVAL_START", "key": "run_start", …}
    :::MLLOG {"namespace": "", "time_ms": …, "key": "run_stop", "value": null, "metadata": {"status": "success", …}}

Source: mlcommons/logging, ``mlperf_logging/mllog``, since version 0.7 of MLPerf Training. Minutes, as its results table
has them. A run that ends by another status, such as ``aborted``, has no time to train. Ranks may each print a run's
begin and end: the first begin and the last end count. Processes that write at once may glue events to one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.scan import rank_of, safe_text

_PREFIX = b":::MLLOG "
_DECODER = json.JSONDecoder()
_MS_PER_MINUTE = 60_000
#: Ranks begin a run within this time of each other.
_RANKS_MS = 60_000
_SUCCESS = "success"
_NODES = ("submission_num_nodes", "number_of_nodes")
#: Far later than any run: 33658.
_LATEST_MS = 10**15


class _Parser(FigureParser):
    def __init__(self) -> None:
        super().__init__("mllog")
        self._start_ms: float | None = None
        #: Times and states of the run's ends: several ranks may print one.
        self._stops: list[tuple[float, str]] = []
        #: The ranks that have begun the run; ``None`` without a label.
        self._ranks: set[int | None] = set()

    def feed(self, offset: int, record: bytes) -> None:
        rank = rank_of(record)
        for event in record.split(_PREFIX)[1:]:
            self._read(offset, event, rank)

    def _read(self, offset: int, text: bytes, rank: int | None) -> None:
        try:
            event, _ = _DECODER.raw_decode(text.decode("utf-8", "replace").lstrip())
            key, time_ms, value, metadata = (event[name] for name in ("key", "time_ms", "value", "metadata"))
            is_time = 0 < time_ms < _LATEST_MS
        except (ValueError, RecursionError, TypeError, LookupError):
            if b'"run_stop"' in text:
                self._stops.append((0, "unreadable"))
            return
        if key == "submission_benchmark":
            self.identity = replace(self.identity, model=safe_text(str(value)[:80].encode("utf-8", "replace")))
        elif key in _NODES:
            self.identity = replace(self.identity, settings={"nodes": str(value)[:20]}, places={"nodes": offset})
        elif key == "run_start" and is_time:
            begun_ms = time_ms if self._start_ms is None else self._start_ms
            is_further_rank = not self._stops or (rank is not None and rank not in self._ranks)
            if not self._ranks or abs(time_ms - begun_ms) > _RANKS_MS or not is_further_rank:
                self.attempts += 1
                self._stops, self._ranks, self.began_at, begun_ms = [], set(), offset, time_ms
            self._start_ms = min(begun_ms, time_ms)
            self._ranks.add(rank)
        elif key == "run_stop" and is_time:
            self.attempts = max(self.attempts, 1)
            status = metadata.get("status") if isinstance(metadata, dict) else None
            shown = safe_text(str(status)[:80].encode("utf-8", "replace"))
            self._stops.append((time_ms, repr(status)[:80] if shown == _SUCCESS != status else shown))
            self.ended_at = offset

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        stop_ms, _ = max(self._stops, default=(0, ""))
        if not stop_ms:
            return {}, "run_start without run_stop"
        if self._start_ms is None or self._start_ms >= stop_ms:
            return {}, "run_stop without an earlier run_start"
        bad = next((f"run_stop with the status {status}" for _, status in self._stops if status != _SUCCESS), None)
        return {"time_to_train_min": [(stop_ms - self._start_ms) / _MS_PER_MINUTE]}, bad


MLLOG = BuiltIn(
    "mllog",
    (tuple((_PREFIX, f'"{key}"'.encode()) for key in ("run_start", "run_stop", "submission_benchmark", *_NODES)),),
    _Parser,
    shows_progress=False,
    # A line states its file and other metadata.
    wraps=True,
    content="figure",
)
