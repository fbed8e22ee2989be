"""NeMo AutoModel's benchmark: the number of an iteration, and two lines later its time.

::

    … | Rank 0 | Iteration 7 | num_label_tokens=2097152 | Max Memory Allocated: 61.42 GB | loss=11.7812
    … | Max iter time: 7.286123 seconds

Source: NVIDIA-NeMo/Automodel, ``nemo_automodel/recipes/llm/benchmark.py``. The first rank prints; the time is the
slowest rank's, with six decimals: one with fewer was cut. Iterations count from 0; those of the warm-up are
among them. What its recipe for fine-tuning prints is another line, without the time of a step.
"""

from __future__ import annotations

import math
import re

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.scan import NOT_FINITE, has_zero_norm, number, rank_of, safe_text
from pytest_gsw.logs.steps import MultiRankSteps, StepRecord, Unit

#: Impossible times and losses, in any notation.
_CANNOT_BE = rb"-[\d.]{1,40}|[\d.]{1,40}[eE][-+]?\d{1,3}|[-+]?%b(?:inity)?" % NOT_FINITE
_ITERATION = re.compile(
    rb"\| Iteration (\d{1,12}) \| num_label_tokens=\d{1,18} .{1,80}loss=(\d{1,20}\.\d{4}|%b)\s{0,8}$" % _CANNOT_BE
)
_TIME = re.compile(rb"\bMax iter time: (\d{1,12}\.\d{6}|0\.0{1,5}|%b) seconds\s{0,8}$" % _CANNOT_BE)


class _Parser(SeriesParser):
    """Reads the times of iterations; each is the median over the ranks that printed it."""

    def __init__(self) -> None:
        self._series = MultiRankSteps(Unit.SECONDS)
        super().__init__("automodel", self._series)
        #: By rank: the iteration whose time comes next, its loss, and if its gradient norm is 0.
        self._open: dict[int | None, tuple[int, float, str | None, bool]] = {}

    def feed(self, offset: int, record: bytes) -> None:
        rank = rank_of(record)
        iteration = _ITERATION.search(record)
        if iteration is not None:
            loss = number(iteration[2])
            is_lost = loss is None or not math.isfinite(loss)
            text = safe_text(b"loss=" + iteration[2]) if is_lost else None
            self._open[rank] = int(iteration[1]), math.nan if loss is None else loss, text, has_zero_norm(record)
            return
        match = _TIME.search(record)
        if match is None or rank not in self._open:
            return
        index, loss, text, zero_norm = self._open.pop(rank)
        seconds = number(match[1])
        if seconds is not None:
            step = StepRecord(offset, index, seconds, rank, text, loss, needs_loss=True, zero_norm=zero_norm)
            self._series.add(step)


AUTOMODEL = BuiltIn("automodel", ((b"Max iter time: ", b" | Iteration "),), _Parser, first_index=0)
