"""Hugging Face Trainer: the summary at the end of training, a mean over the whole run.

* ``{'train_runtime': 2577.7, 'train_samples_per_second': 95.339, 'train_steps_per_second': 0.012, …}``
  (``trainer_utils.speed_metrics``); since version 5 the values are quoted and rounded to four digits.
* The block ``***** train metrics *****``, ``train_samples_per_second = 95.339`` (``Trainer.log_metrics``).

Samples per second of the whole job. Each node's main process may print it. A log holds no time of a
single step, but for the progress bar's rate, which is smoothed.

In half precision a step whose gradient overflows is skipped, and is logged with its finite loss beside ``'grad_norm':
inf`` or ``nan``: such lines are counted (:class:`~pytest_gsw.logs.model.Overflows`). A loss that is not finite is shown
as 0.0 where every step is logged (``logging_nan_inf_filter``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from pytest_gsw.logs.attempts import Unit, Unnumbered, can_be, step_log
from pytest_gsw.logs.model import Diverged, Overflows
from pytest_gsw.logs.text import NOT_FINITE, NUMBER, number, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gsw.logs.model import Dialect, StepLog

_SUMMARY = re.compile(rb"'train_samples_per_second': ('?)(-?%b)'?(?=[,}])" % NUMBER)
_BLOCK = re.compile(rb"(?:^|>>|\s)train_samples_per_second {1,40}= {1,40}(-?%b)\s{0,40}$" % NUMBER)
_NOT_FINITE = re.compile(
    rb"'(?:train_loss|eval_loss|loss)': '?[-+]?%b\b|\btrain_loss {1,40}= {1,40}[-+]?%b\b" % (NOT_FINITE, NOT_FINITE),
    re.IGNORECASE,
)
_NORM = re.compile(rb"'grad_norm': '?([-+]?%b)'?(?=[,}])" % NUMBER)
_LOSS = re.compile(rb"'loss': '?(-?%b)'?(?=[,}])" % NUMBER)
_START = b"***** Running training *****"
#: The rate of a resumed run is that of all its samples, those before the checkpoint as well, in the time since.
_RESUMED = re.compile(rb"Continuing training from global step ([1-9]\d{0,11})\b")


@dataclass(frozen=True)
class HuggingFace:
    """The format of Hugging Face Trainer."""

    name: str = "huggingface"
    dialects: tuple[Dialect, ...] = (
        (
            b"train_samples_per_second",
            b"'loss': ",
            b"train_loss",
            b"'eval_loss': ",
            _START,
            b"Continuing training from",
        ),
    )
    first_index: int | None = None
    # A dictionary follows the bar that it was printed over, in one message.
    wraps: bool = True
    shows_progress: bool = False
    guards_itself: ClassVar[bool] = True

    def parse(self, lines: Iterator[tuple[int, bytes]]) -> StepLog:
        """Read the last run's rate, one number however many processes printed it."""
        runs = 0
        rates: dict[bytes, list[tuple[float, int]]] = {}
        problem: str | None = None
        resumed: re.Match[bytes] | None = None
        told: list[_Told] = []
        diverged: list[Diverged] = []
        began = 0
        for offset, line in lines:
            if _START in line and (rates or problem is not None or not runs):
                if problem is not None:
                    diverged.append(Diverged(max(runs, 1), None, problem, began, offset))
                rates, problem, resumed, runs, began = {}, None, None, runs + 1, offset
                told = []
            one = _told(line)
            if one is not None:
                told.append(one)
            resumed = _RESUMED.search(line) or resumed
            bad = _NOT_FINITE.search(line) or (None if one is None or one.may_be_skipped else one.bad_norm)
            if bad is not None and problem is None:
                problem = safe_text(bad[0])
            for kind, text in _rates(line):
                value = number(text)
                if value is None:
                    continue
                rates.setdefault(kind, []).append((value, offset))
                # Of no node is it passed over, be the others' however good.
                if problem is None and not can_be(value):
                    problem = f"step time {value}"
        series = Unnumbered()
        # The block is exact where version 5 rounds the dictionary; both agree before.
        best = rates.get(b"exact") or rates.get(b"block") or rates.get(b"rounded")
        if best:
            finite = sorted(rate for rate in best if can_be(rate[0])) or best[:1]
            series.add(*finite[(len(finite) - 1) // 2], problem)
            series.attempts = max(runs, 1)
            series.diverged = diverged
            for count, value in enumerate({one.text: one.loss for one in told}.values()):
                series.tell_loss(count, value)
        resumed_at = None if resumed is None else int(resumed[1])
        log = step_log(self.name, series, unit=Unit.SAMPLES_PER_S, resumed_at=resumed_at)
        return replace(log, overflows=_overflows(told))


@dataclass(frozen=True)
class _Told:
    """What a line tells of the steps since the last such line."""

    text: bytes
    loss: float
    #: The norm of the gradient, where it is told and not finite.
    bad_norm: re.Match[bytes] | None

    @property
    def may_be_skipped(self) -> bool:
        """Whether the loss was finite, so that a gradient which was not is the loss scaler's own."""
        return math.isfinite(self.loss) and self.loss != 0


def _told(line: bytes) -> _Told | None:
    loss, norm = _LOSS.search(line), _NORM.search(line)
    if loss is None:
        return None
    bad = norm if norm is not None and not math.isfinite(number(norm[1]) or 0.0) else None
    return _Told(line[loss.start() :], number(loss[1]) or 0.0, bad)


def _overflows(told: list[_Told]) -> Overflows | None:
    """The lines of gradients that were not finite, each once where several nodes print the same."""
    bad = next((one.bad_norm for one in told if one.bad_norm is not None), None)
    if bad is None:
        return None
    copies = min(Counter(one.text for one in told).values())
    lines = math.ceil(sum(one.bad_norm is not None for one in told) / copies)
    return Overflows(lines, math.ceil(len(told) / copies), safe_text(bad[0]))


def _rates(line: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rates of a line: how exact, and the number."""
    for summary in _SUMMARY.finditer(line):
        yield b"rounded" if summary[1] else b"exact", summary[2]
    block = _BLOCK.search(line)
    if block is not None:
        yield b"block", block[1]


FORMAT = HuggingFace()
