"""NeMo-RL: the time of each step, and its rates per GPU.

::

    ========================= Step 3/500 =========================
    📊 Training Results:
      • Loss: 0.0123
    ⏱️  Timing:
      • Total step time: 35.70s
    🔍 Performance Metrics:
        - E2E (Tokens/sec/gpu): 1073.59

Source: NVIDIA-NeMo/RL, ``nemo_rl/algorithms/grpo.py``, ``dpo.py``, ``sft.py``, and ``utils.py`` for the rates, which
reinforcement learning alone has. The driver prints, and steps count from 1. A step without its heading is the next one.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.model import StepLog
from pytest_gsw.logs.scan import NUMBER, has_zero_norm, number, number_of, safe_text
from pytest_gsw.logs.steps import SingleRankSteps, StepRecord, Unit, not_finite_text

_HEADING = re.compile(rb"={10,40} Step (\d{1,12})/(\d{1,12}) ={10,40}")
_LOSS = re.compile(rb"\xe2\x80\xa2 Loss: ([-+]?%b)\s{0,8}$" % NUMBER)
_TIME = re.compile(rb"\xe2\x80\xa2 Total step time: ([-+]?%b)s\s{0,8}$" % NUMBER)
_RATE = re.compile(rb"- ([A-Z][\w ]{1,40} \(\w{1,8}/sec/gpu\)): ([-+]?%b)\s{0,8}$" % NUMBER)
_KEYS = {
    b"E2E (Samples/sec/gpu)": "samples_per_s_per_gpu",
    b"E2E (Tokens/sec/gpu)": "tokens_per_s_per_gpu",
    b"Policy Training (Tokens/sec/gpu)": "training_tokens_per_s_per_gpu",
    b"Policy and Reference Logprobs (Tokens/sec/gpu)": "logprob_tokens_per_s_per_gpu",
    b"Generation Worker Group (Tokens/sec/gpu)": "generation_tokens_per_s_per_gpu",
}


class _Parser(SeriesParser):
    def __init__(self) -> None:
        self._series = SingleRankSteps(Unit.SECONDS)
        super().__init__("nemo-rl", self._series)
        self._next = 1
        self._loss: float | None = None
        #: The line of the current step's gradient norm, which some algorithms print.
        self._norm = b""
        #: Rates of the current attempt, by key and step.
        self._rates: dict[str, dict[int, float]] = {}

    def feed(self, offset: int, record: bytes) -> None:
        heading, time, rate = _HEADING.search(record), _TIME.search(record), _RATE.search(record)
        if heading is not None:
            self._next, self.total_steps, self._loss, self._norm = int(heading[1]), int(heading[2]), None, b""
        elif time is not None:
            seconds, problem, zero_norm = number_of(time) or 0.0, not_finite_text(self._norm), has_zero_norm(self._norm)
            step = StepRecord(offset, self._next, seconds, None, problem, self._loss, zero_norm=zero_norm)
            if self._series.add(step):
                self._rates = {}
            self._next, self._loss, self._norm = self._next + 1, None, b""
        elif rate is not None and rate[1] in _KEYS and self._series.attempts:
            value, step_number = number(rate[2]), self._next - 1
            if value is None or not 0 <= value < math.inf:
                self._series.lose(step_number, safe_text(rate[0]))
            else:
                self._rates.setdefault(_KEYS[rate[1]], {})[step_number] = value
        elif (loss := number_of(_LOSS.search(record))) is not None:
            self._loss = loss
        elif b" Grad Norm: " in record:
            self._norm = record

    def log(self) -> StepLog:
        log = super().log()
        # A rate that two digits round to 0.00 in any step is none.
        figures = {key: [*by_step.values()] for key, by_step in self._rates.items() if all(by_step.values())}
        lacking = next((key for key, values in figures.items() if len(values) != len(log.steps)), None)
        # A rate that is not finite is lacking, too, and stated as such.
        fault = (
            None
            if lacking is None or log.not_finite
            else f"{len(figures[lacking])} of {len(log.steps)} steps have {lacking}"
        )
        return replace(log, figures=figures, fault=fault)


NEMO_RL = BuiltIn(
    "nemo-rl",
    ((b"===== Step ", b"\xe2\x80\xa2 Total step time: ", b"\xe2\x80\xa2 Loss: ", b" Grad Norm: ", b"/sec/gpu): "),),
    _Parser,
    first_index=1,
)
