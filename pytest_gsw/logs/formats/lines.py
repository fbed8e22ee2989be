"""Formats with one line or two for each step, the median of the ranks that printed it."""

from __future__ import annotations

import math
import re

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.scan import NOT_FINITE, NUMBER, number, number_of, pieces, rank_of, safe_text
from pytest_gsw.logs.steps import MultiRankSteps, Record, Unit

# -- MaxText: ``completed step: 12, seconds: 4.310, TFLOP/s/device: …, Tokens/s/device: …, loss: 9.021`` --
# Source: AI-Hypercomputer/maxtext, ``train.py``, since 2025 ``metric_logger.py``. Seconds of one step, three decimals,
# steps from 0. Every process prints, and a recipe trains twice: a short run to profile, then the run that counts.


#: More text follows the seconds: a number at the line's end was cut. "Completed eval step: 5, seconds: 1.2" (capital C)
#: is an evaluation.
_MAXTEXT_STEP = re.compile(rb"completed step: (\d{1,12}), seconds: (-?%b)(?![\w.]|$)" % NUMBER)
_MAXTEXT_NOT_FINITE = re.compile(rb"(?:loss|grad_norm): [-+]?%b" % NOT_FINITE, re.IGNORECASE)
#: Every step line of every release has a loss.
_MAXTEXT_LOSS = re.compile(rb"\bloss: (-?%b)" % NUMBER)


class _Maxtext(SeriesParser):
    """Reads the steps; each is the median over the processes that printed it."""

    def __init__(self) -> None:
        self._series = MultiRankSteps()
        super().__init__("maxtext", self._series)

    def feed(self, offset: int, record: bytes) -> None:
        for step, rest in pieces(_MAXTEXT_STEP, record):
            value = number(step[2])
            # The search takes longer than everything else, and few lines need it.
            low = rest.lower()
            problem = _MAXTEXT_NOT_FINITE.search(rest) if b"nan" in low or b"inf" in low or b"1.#" in low else None
            if value is not None:
                text = None if problem is None else safe_text(problem[0])
                rank = rank_of(record) if step.start() else None
                loss = number_of(_MAXTEXT_LOSS.search(rest))
                self._series.add(Record(offset, int(step[1]), value, rank, text, loss, needs_loss=True))


MAXTEXT = BuiltIn("maxtext", (((b"completed step: ", b", seconds: "),),), _Maxtext, first_index=0)


# -- torchtitan: ``step: 10  loss:  4.1  …  tps: 6,785  tflops: …  mfu: 39.7%`` --------------------
# Source: pytorch/torchtitan, ``torchtitan/components/metrics.py``. ``tps`` (until November 2024 ``wps``) is tokens per
# second and device, the mean since the last such line; the log holds no step time. Steps count from 1, every field has
# its colour, and mostly every rank prints.


#: "validate step: 10  loss: … tps: …" is an evaluation.
_TORCHTITAN_STEP = re.compile(rb"(validate )?\bstep: {0,12}(\d{1,12}) {1,12}(?=loss: )")
#: More text follows: a number at the line's end was cut.
_TORCHTITAN_RATE = re.compile(rb"\b[tw]ps: {0,12}(-?%b)(?=\s)" % NUMBER)
_TORCHTITAN_LOSS = re.compile(rb"loss: {0,12}(-?%b)" % NUMBER)
_TORCHTITAN_NOT_FINITE = re.compile(rb"(?:loss|grad_norm): {0,12}[-+]?%b\b" % NOT_FINITE, re.IGNORECASE)


class _Torchtitan(SeriesParser):
    """Reads the rates; each is the median over the ranks that printed it."""

    def __init__(self) -> None:
        self._series = MultiRankSteps(Unit.TOKENS_PER_S_PER_GPU)
        super().__init__("torchtitan", self._series)

    def feed(self, offset: int, record: bytes) -> None:
        for head, rest in pieces(_TORCHTITAN_STEP, record):
            rate = _TORCHTITAN_RATE.search(rest)
            value = None if rate is None or head[1] else number(rate[1])
            problem = _TORCHTITAN_NOT_FINITE.search(rest)
            text = None if problem is None else safe_text(problem[0])
            if head[1] and text is not None and self._series.attempts:
                self._series.lose(int(head[2]), f"validate {text}")
            if value is not None:
                loss = number_of(_TORCHTITAN_LOSS.match(rest))
                self._series.add(Record(offset, int(head[2]), value, rank_of(record), text, loss, needs_loss=True))


TORCHTITAN = BuiltIn("torchtitan", ((b"tps: ",), (b"wps: ",)), _Torchtitan, first_index=1)


# -- NeMo AutoModel's benchmark: the number of an iteration, and two lines later its time ----------
# ::
#
#     … | Rank 0 | Iteration 7 | num_label_tokens=2097152 | Max Memory Allocated: 61.42 GB | loss=11.7812
#     … | Max iter time: 7.286123 seconds
#
# Source: NVIDIA-NeMo/Automodel, ``nemo_automodel/recipes/llm/benchmark.py``. The first rank prints; the time is the
# slowest rank's, with six decimals: one with fewer was cut. Iterations count from 0; those of the warm-up are
# among them. What its recipe for fine-tuning prints is another line, without the time of a step.


#: Impossible times and losses, in any notation.
_AUTOMODEL_CANNOT_BE = rb"-[\d.]{1,40}|[\d.]{1,40}[eE][-+]?\d{1,3}|[-+]?%b(?:inity)?" % NOT_FINITE
_AUTOMODEL_ITERATION = re.compile(
    rb"\| Iteration (\d{1,12}) \| num_label_tokens=\d{1,18} .{1,80}loss=(\d{1,20}\.\d{4}|%b)\s{0,8}$"
    % _AUTOMODEL_CANNOT_BE
)
_AUTOMODEL_TIME = re.compile(rb"\bMax iter time: (\d{1,12}\.\d{6}|0\.0{1,5}|%b) seconds\s{0,8}$" % _AUTOMODEL_CANNOT_BE)


class _Automodel(SeriesParser):
    """Reads the times of iterations; each is the median over the ranks that printed it."""

    def __init__(self) -> None:
        self._series = MultiRankSteps(Unit.SECONDS)
        super().__init__("automodel", self._series)
        #: By rank: the iteration whose time comes next, and its loss.
        self._open: dict[int | None, tuple[int, float, str | None]] = {}

    def feed(self, offset: int, record: bytes) -> None:
        rank = rank_of(record)
        iteration = _AUTOMODEL_ITERATION.search(record)
        if iteration is not None:
            loss = number(iteration[2])
            is_lost = loss is None or not math.isfinite(loss)
            text = safe_text(b"loss=" + iteration[2]) if is_lost else None
            self._open[rank] = int(iteration[1]), math.nan if loss is None else loss, text
            return
        found = _AUTOMODEL_TIME.search(record)
        if found is None or rank not in self._open:
            return
        index, loss, text = self._open.pop(rank)
        seconds = number(found[1])
        if seconds is not None:
            self._series.add(Record(offset, index, seconds, rank, text, loss, needs_loss=True))


AUTOMODEL = BuiltIn("automodel", ((b"Max iter time: ", b" | Iteration "),), _Automodel, first_index=0)
