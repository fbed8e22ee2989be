"""Hugging Face Trainer: the summary at the end of training, a mean over the whole run.

* ``{'train_runtime': 2577.7, 'train_samples_per_second': 95.339, 'train_steps_per_second': 0.012, …}``
  (``trainer_utils.speed_metrics``); since version 5 the values are quoted and rounded to four digits.
* The block ``***** train metrics *****``, ``train_samples_per_second = 95.339`` (``Trainer.log_metrics``).

Samples per second of the whole job. Each node's main process may print it. A log has no time of a single step, except
for the progress bar's rate, which is smoothed.

In half precision a step whose gradient overflows is skipped, and is logged with its finite loss and ``'grad_norm':
inf`` or ``nan``: such lines are counted (:class:`~pytest_gsw.logs.model.Overflows`). A loss that is not finite is shown
as 0.0 if every step is logged (``logging_nan_inf_filter``).
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.model import Diverged, Overflows, StepLog
from pytest_gsw.logs.scan import NOT_FINITE, NUMBER, has_zero_norm, number, safe_text
from pytest_gsw.logs.steps import StepRecord, Unit, UnnumberedSteps, can_be

_SUMMARY = re.compile(rb"'train_samples_per_second': ('?)(-?%b)'?(?=[,}])" % NUMBER)
_BLOCK = re.compile(rb"(?:^|>>|\s)train_samples_per_second {1,40}= {1,40}(-?%b)\s{0,40}$" % NUMBER)
_NOT_FINITE = re.compile(
    rb"'(?:train_loss|eval_loss|loss)': '?[-+]?%b\b|\btrain_loss {1,40}= {1,40}[-+]?%b\b" % (NOT_FINITE, NOT_FINITE),
    re.IGNORECASE,
)
_NORM = re.compile(rb"'grad_norm': '?([-+]?%b)'?(?=[,}])" % NUMBER)
_LOSS = re.compile(rb"'loss': '?(-?%b)'?(?=[,}])" % NUMBER)
_START = b"***** Running training *****"
#: The rate of a resumed run divides all its samples, those before the checkpoint as well, by the time since.
_RESUMED = re.compile(rb"Continuing training from global step ([1-9]\d{0,11})\b")


class _Parser(SeriesParser):
    """Reads the last run's rate, one number however many processes printed it."""

    def __init__(self) -> None:
        super().__init__("huggingface")
        self._runs = 0
        self._began = 0
        #: The rates of the last run and their offsets, by how exact they are.
        self._rates: dict[bytes, list[tuple[float, int]]] = {}
        self._problem: str | None = None
        self._resumed_at: int | None = None
        self._loss_lines: list[_LossLine] = []
        self._diverged: list[Diverged] = []

    def feed(self, offset: int, record: bytes) -> None:
        if _START in record and (self._rates or self._problem is not None or not self._runs):
            if self._problem is not None:
                self._diverged.append(Diverged(max(self._runs, 1), None, self._problem, self._began, offset))
            self._rates, self._problem, self._resumed_at, self._loss_lines = {}, None, None, []
            self._runs, self._began = self._runs + 1, offset
        one = _parse_loss_line(record)
        if one is not None:
            self._loss_lines.append(one)
        resumed = _RESUMED.search(record)
        self._resumed_at = self._resumed_at if resumed is None else int(resumed[1])
        # With a finite loss, a gradient that is not finite is an overflow of the loss scaler.
        is_lost = one is not None and (one.loss == 0 or not math.isfinite(one.loss))
        bad = _NOT_FINITE.search(record) or (one.bad_norm if one is not None and is_lost else None)
        if bad is not None and self._problem is None:
            self._problem = safe_text(bad[0])
        for kind, text in _rates(record):
            value = number(text)
            if value is None:
                continue
            self._rates.setdefault(kind, []).append((value, offset))
            # An impossible rate of one node counts even if those of the others are good.
            if self._problem is None and not can_be(value):
                self._problem = f"step time {value}"

    def series(self) -> UnnumberedSteps:
        series = UnnumberedSteps(Unit.SAMPLES_PER_S)
        # The block is exact; version 5 rounds the dictionary. Before, both agree.
        best = self._rates.get(b"exact") or self._rates.get(b"block") or self._rates.get(b"rounded")
        if best:
            finite = sorted(rate for rate in best if can_be(rate[0])) or best[:1]
            rate, offset = finite[(len(finite) - 1) // 2]
            series.add(StepRecord(offset, 0, rate, problem=self._problem))
            series.attempts = max(self._runs, 1)
            series.diverged = self._diverged
        return series

    def log(self) -> StepLog:
        log = replace(super().log(), resumed_at=self._resumed_at, overflows=_overflows(self._loss_lines))
        if not log.attempts:
            return log
        losses = {line.text: line.loss for line in self._loss_lines}.values()
        # Steps of one epoch may have the same text: here, all lines count.
        of_zero_norms = [line.loss if line.has_zero_norm else math.nan for line in self._loss_lines]
        return replace(log, losses=array("d", filter(math.isfinite, losses)), zero_norm_losses=of_zero_norms)


@dataclass(frozen=True)
class _LossLine:
    """A line about the steps since the last such line."""

    text: bytes
    loss: float
    #: The gradient norm if it is printed and not finite.
    bad_norm: re.Match[bytes] | None
    has_zero_norm: bool


def _parse_loss_line(line: bytes) -> _LossLine | None:
    loss, norm = _LOSS.search(line), _NORM.search(line)
    if loss is None:
        return None
    bad = norm if norm is not None and not math.isfinite(number(norm[1]) or 0.0) else None
    return _LossLine(line[loss.start() :], number(loss[1]) or 0.0, bad, has_zero_norm(line))


def _overflows(loss_lines: list[_LossLine]) -> Overflows | None:
    """The lines with gradients that were not finite, each once if several nodes print the same."""
    bad = next((line.bad_norm for line in loss_lines if line.bad_norm is not None), None)
    if bad is None:
        return None
    copies = min(Counter(line.text for line in loss_lines).values())
    lines = math.ceil(sum(line.bad_norm is not None for line in loss_lines) / copies)
    return Overflows(lines, math.ceil(len(loss_lines) / copies), safe_text(bad[0]))


def _rates(line: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rates of a line: how exact, and the number."""
    for summary in _SUMMARY.finditer(line):
        yield b"rounded" if summary[1] else b"exact", summary[2]
    block = _BLOCK.search(line)
    if block is not None:
        yield b"block", block[1]


HUGGINGFACE = BuiltIn(
    "huggingface",
    ((b"train_samples_per_second", b"'loss': ", b"train_loss", b"'eval_loss': ", _START, b"Continuing training from"),),
    _Parser,
    # A dictionary follows the bar that it was printed over, in one message.
    wraps=True,
    shows_progress=False,
)
