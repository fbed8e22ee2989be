"""Composer, which trains for LLM Foundry: a block of lines for each batch, some with its speed.

::

    [batch=12/30]:
         Train loss/train/total: 11.7812
         Train throughput/samples_per_sec: 12.3456
         Train throughput/device/tokens_per_sec: 3160.4732

Source: mosaicml/composer, ``composer/loggers/console_logger.py`` and ``composer/callbacks/speed_monitor.py``. The rates
are means over the last batches, as many as the monitor's ``window_size``; the first batches have none. Tokens per
device are printed if the data counts tokens; samples of the whole job always. Batches count from 1, in each epoch anew.
Every figure has four decimals: one with fewer was cut.
"""

from __future__ import annotations

import math
import re

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.scan import NOT_FINITE, has_zero_norm, number, number_of, rank_of, safe_text
from pytest_gsw.logs.steps import MultiRankSteps, StepRecord, StepSeries, Unit, not_finite_text

#: A block of an evaluation begins with ``[Eval batch=1/10] Eval on … data``.
_BLOCK = re.compile(rb"(?:\[epoch=(\d{1,9})\])?\[(Eval )?batch=(\d{1,12})/(\d{1,12})\]")
#: A complete figure: four decimals, or an impossible rate in any notation.
_FIGURE = (
    rb"(\d{1,20}\.\d{4}|0\.0{1,3}|-[\d.]{1,40}|[\d.]{1,40}[eE][-+]?\d{1,3}|[-+]?%b(?:inity)?)\s{0,8}$" % NOT_FINITE
)
_LOSS = re.compile(rb"\sTrain (loss/train/total): %b" % _FIGURE)
_NORM = b"Train l2_norm/grad/global: "
_TOKENS = re.compile(rb"\sTrain throughput/device/tokens_per_sec: %b" % _FIGURE)
_SAMPLES = re.compile(rb"\sTrain throughput/samples_per_sec: %b" % _FIGURE)


class _Parser(SeriesParser):
    """Reads the rates of each block; each is the median over the ranks that printed it."""

    def __init__(self) -> None:
        self._tokens, self._samples = MultiRankSteps(Unit.TOKENS_PER_S_PER_GPU), MultiRankSteps(Unit.SAMPLES_PER_S)
        super().__init__("composer", self._tokens, self._samples)
        #: Blocks, with a rate or without: an attempt that ends before its first rate is one.
        self._blocks = MultiRankSteps()
        #: By rank: the batch of the current block, and its loss. An evaluation's block has none.
        self._open: dict[int | None, tuple[int, float | None]] = {}
        #: Batches of the attempt with a gradient norm of 0, which ``OptimizerMonitor`` prints before or after rates.
        self._zero_norms: set[int] = set()
        #: The first loss or gradient norm of the attempt that is not finite, which may precede the first rate.
        self._lost_loss: tuple[int, str] | None = None

    def feed(self, offset: int, record: bytes) -> None:
        rank = rank_of(record)
        block = _BLOCK.search(record)
        if block is not None:
            self._open.pop(rank, None)
            if not block[2]:
                epoch, of_epoch = int(block[1] or 1), int(block[4])
                # Batches until the end of the run, or of the current epoch.
                batch, self.total_steps = (epoch - 1) * of_epoch + int(block[3]), epoch * of_epoch
                self._open[rank] = batch, None
                if self._blocks.add(StepRecord(offset, batch, 0.0, rank)) and self._blocks.attempts > 1:
                    self._restart(offset)
        elif rank in self._open:
            self._read_metric(offset, record, rank)

    def _read_metric(self, offset: int, record: bytes, rank: int | None) -> None:
        batch, loss = self._open[rank]
        lost = _LOSS.search(record)
        if lost is not None:
            loss = number(lost[2])
            self._open[rank] = batch, loss
            if self._lost_loss is None and (loss is None or not math.isfinite(loss)):
                self._lost_loss = batch, safe_text(lost[1] + b": " + lost[2])
        elif _NORM in record:
            text = not_finite_text(record)
            if self._lost_loss is None and text is not None:
                self._lost_loss = batch, text
            if has_zero_norm(record):
                self._zero_norms.add(batch)
                self._tokens.mark_zero_norm(batch)
                self._samples.mark_zero_norm(batch)
        zero_norm = batch in self._zero_norms
        for rate, series in ((_TOKENS, self._tokens), (_SAMPLES, self._samples)):
            value = number_of(rate.search(record))
            if value is not None:
                series.add(StepRecord(offset, batch, value, rank, loss=loss, needs_loss=True, zero_norm=zero_norm))

    def _restart(self, offset: int) -> None:
        for series in (self._tokens, self._samples):
            series.not_finite = self.not_finite(series)
            series.attempts = self._blocks.attempts - 1
            series.restart(offset)
        self._lost_loss = None
        self._zero_norms.clear()

    def series(self) -> StepSeries:
        return self._samples if self._samples.count and not self._tokens.count else self._tokens

    def not_finite(self, series: StepSeries) -> tuple[int | None, str] | None:
        return self._lost_loss or series.not_finite


COMPOSER = BuiltIn(
    "composer",
    (
        (
            b"batch=",
            b"Train loss/train/total: ",
            b"Train throughput/samples_per_sec: ",
            b"Train throughput/device/tokens_per_sec: ",
            _NORM,
        ),
    ),
    _Parser,
    first_index=1,
)
