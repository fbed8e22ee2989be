"""torchtitan: ``step: 10  loss:  4.1  …  tps: 6,785  tflops: …  mfu: 39.7%``.

Source: pytorch/torchtitan, ``torchtitan/components/metrics.py``. ``tps`` (until November 2024 ``wps``) is tokens per
second and device, the mean since the last such line; the log holds no step time. Steps count from 1, every field has
its colour, and mostly every rank prints.
"""

from __future__ import annotations

import re

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.scan import NOT_FINITE, NUMBER, has_zero_norm, number, number_of, pieces, rank_of, text_of
from pytest_gsw.logs.steps import MultiRankSteps, StepRecord, Unit

#: "validate step: 10  loss: … tps: …" is an evaluation.
_STEP = re.compile(rb"(validate )?\bstep: {0,12}(\d{1,12}) {1,12}(?=loss: )")
#: More text follows: a number at the line's end was cut.
_RATE = re.compile(rb"\b[tw]ps: {0,12}(-?%b)(?=\s)" % NUMBER)
_LOSS = re.compile(rb"loss: {0,12}(-?%b)" % NUMBER)
_NOT_FINITE = re.compile(rb"(?:loss|grad_norm): {0,12}[-+]?%b\b" % NOT_FINITE, re.IGNORECASE)


class _Parser(SeriesParser):
    """Reads the rates; each is the median over the ranks that printed it."""

    def __init__(self) -> None:
        self._series = MultiRankSteps(Unit.TOKENS_PER_S_PER_GPU)
        super().__init__("torchtitan", self._series)

    def feed(self, offset: int, record: bytes) -> None:
        for head, rest in pieces(_STEP, record):
            rate = _RATE.search(rest)
            value = None if rate is None or head[1] else number(rate[1])
            text = text_of(_NOT_FINITE.search(rest))
            if head[1] and text is not None and self._series.attempts:
                self._series.lose(int(head[2]), f"validate {text}")
            if value is not None:
                loss = number_of(_LOSS.match(rest))
                step, zero_norm = int(head[2]), has_zero_norm(rest)
                self._series.add(
                    StepRecord(offset, step, value, rank_of(record), text, loss, needs_loss=True, zero_norm=zero_norm)
                )


TORCHTITAN = BuiltIn("torchtitan", ((b"tps: ",), (b"wps: ",)), _Parser, first_index=1)
