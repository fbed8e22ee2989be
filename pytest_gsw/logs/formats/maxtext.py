"""MaxText: ``completed step: 12, seconds: 4.310, TFLOP/s/device: …, Tokens/s/device: …, loss: 9.021``.

Source: AI-Hypercomputer/maxtext, ``train.py``, since 2025 ``metric_logger.py``. Seconds of one step, three decimals,
steps from 0. Every process prints, and a recipe trains twice: a short run to profile, then the run that counts.
"""

from __future__ import annotations

import re

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.scan import NOT_FINITE, NUMBER, has_zero_norm, number, number_of, pieces, rank_of, text_of
from pytest_gsw.logs.steps import MultiRankSteps, StepRecord

#: More text follows the seconds: a number at the line's end was cut. "Completed eval step: 5, seconds: 1.2" (capital C)
#: is an evaluation.
_STEP = re.compile(rb"completed step: (\d{1,12}), seconds: (-?%b)(?![\w.]|$)" % NUMBER)
_NOT_FINITE = re.compile(rb"(?:loss|grad_norm): [-+]?%b" % NOT_FINITE, re.IGNORECASE)
#: Every step line of every release has a loss.
_LOSS = re.compile(rb"\bloss: (-?%b)" % NUMBER)


class _Parser(SeriesParser):
    """Reads the steps; each is the median over the processes that printed it."""

    def __init__(self) -> None:
        self._series = MultiRankSteps()
        super().__init__("maxtext", self._series)

    def feed(self, offset: int, record: bytes) -> None:
        for step, rest in pieces(_STEP, record):
            value = number(step[2])
            # The search takes longer than everything else, and few lines need it.
            low = rest.lower()
            may_be_bad = b"nan" in low or b"inf" in low or b"1.#" in low
            if value is not None:
                text = text_of(_NOT_FINITE.search(rest)) if may_be_bad else None
                rank = rank_of(record) if step.start() else None
                loss = number_of(_LOSS.search(rest))
                zero_norm = b"grad" in low and has_zero_norm(rest)
                self._series.add(
                    StepRecord(offset, int(step[1]), value, rank, text, loss, needs_loss=True, zero_norm=zero_norm)
                )


MAXTEXT = BuiltIn("maxtext", (((b"completed step: ", b", seconds: "),),), _Parser, first_index=0)
