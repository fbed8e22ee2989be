"""torchtitan: ``step: 10  loss:  4.1  …  tps: 6,785  tflops: …  mfu: 39.7%``.

Source: pytorch/torchtitan, ``torchtitan/components/metrics.py``. ``tps`` (until November 2024 ``wps``)
is tokens per second and device, the mean since the last such line; the log holds no step time. Steps
count from 1, every field has its colour, and mostly every rank prints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_gsw.logs.attempts import ManyPrinters, Record, Unit, step_log
from pytest_gsw.logs.text import NOT_FINITE, NUMBER, number, number_of, pieces, rank_of, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gsw.logs.model import Dialect, StepLog

#: "validate step: 10  loss: … tps: …" is an evaluation.
_STEP = re.compile(rb"(validate )?\bstep: {0,12}(\d{1,12}) {1,12}(?=loss: )")
#: More always follows, so that a number at the line's end was cut.
_RATE = re.compile(rb"\b[tw]ps: {0,12}(-?%b)(?=\s)" % NUMBER)
_LOSS = re.compile(rb"loss: {0,12}(-?%b)" % NUMBER)
_NOT_FINITE = re.compile(rb"(?:loss|grad_norm): {0,12}[-+]?%b\b" % NOT_FINITE, re.IGNORECASE)


@dataclass(frozen=True)
class TorchTitan:
    """The format of torchtitan."""

    name: str = "torchtitan"
    dialects: tuple[Dialect, ...] = ((b"tps: ",), (b"wps: ",))
    first_index: int | None = 1
    wraps: bool = False
    shows_progress: bool = True
    guards_itself: ClassVar[bool] = True

    def parse(self, lines: Iterator[tuple[int, bytes]]) -> StepLog:
        """Read the rates; each is the median over the ranks that printed it."""
        series = ManyPrinters()
        for offset, line in lines:
            for head, rest in pieces(_STEP, line):
                rate = _RATE.search(rest)
                value = None if rate is None or head[1] else number(rate[1])
                problem = _NOT_FINITE.search(rest)
                text = None if problem is None else safe_text(problem[0])
                if head[1] and text is not None and series.attempts:
                    series.lose(int(head[2]), f"validate {text}")
                if value is not None:
                    loss = number_of(_LOSS.match(rest))
                    series.add(Record(offset, int(head[2]), value, rank_of(line), text, loss, needs_loss=True))
        return step_log(self.name, series, unit=Unit.TOKENS_PER_S_PER_GPU)


FORMAT = TorchTitan()
