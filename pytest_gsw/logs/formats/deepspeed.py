"""DeepSpeed's own lines, which it prints whatever trains on it.

* The pipeline engine (``runtime/pipe/engine.py``): ``steps: 5 loss: 9.1 iter time (s): 3.475 samples/sec: …``,
  seconds of a step, the mean since the last such line. What the model reports as further losses stands before the time:
  ``steps: 5 loss: 9.1 aux_loss: 0.5 iter time (s): …``.
* ``ThroughputTimer`` (``utils/timer.py``), samples per second of the whole job:
  ``0/50, SamplesPerSec=…`` until 0.6, then ``0/50, RunningAvgSamplesPerSec=…, CurrSamplesPerSec=…``,
  since 0.8 ``epoch=0/micro_step=5/global_step=5, RunningAvg…``. The average holds the warm-up, so the
  current rate is taken where there is one. Later than 0.16 these lines show only at log level INFO.

The timer's lines bear no loss; scripts print it in lines of their own, of which those count that say it is not
finite: ``step: 7, loss: nan``, ``[2, 12000] loss: inf``, ``Epoch: 0, Step: 7, Rank: 0, loss = nan``, ``loss=nan``,
``{'loss': nan}``, ``loss: tensor(nan, …)``; a "best loss: inf" is none yet. Steps that the
loss scaler skips (``OVERFLOW! Rank 0 Skipping step.``) belong to every run in half precision.

Steps count from 1, and nothing tells how many there are to be; its launcher tells when its processes have ended.

DeepSpeed-Chat's ``CurSamplesPerSec`` (one r), ``time (ms) | fwd: …`` and the flops profiler's
``samples/second`` are no step times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_gsw.logs.attempts import ManyPrinters, OnePrinter, Record, Unit, step_log
from pytest_gsw.logs.model import Diverged, LastWords
from pytest_gsw.logs.text import C_RUNTIME, NOT_FINITE, NUMBER, number, number_of, pieces, rank_of, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gsw.logs.model import Dialect, StepLog

_PIPE = re.compile(rb"\bsteps: (\d{1,12}) (?=loss: )")
_PIPE_TIME = re.compile(rb" iter time \(s\): (-?%b)(?=\s)" % NUMBER)
_PIPE_LOSS = re.compile(rb"loss: (-?%b)" % NUMBER)
_PIPE_LOST = re.compile(rb"\S{1,40}: [-+]?%b\b" % NOT_FINITE)
#: Memory follows the current rate, so that one at the line's end was cut; before 0.6 the rate did end its line.
_TIMER = re.compile(
    rb"(?:\b\d{1,12}/(\d{1,12})|\bglobal_step=(\d{1,12})), "
    rb"(?:RunningAvgSamplesPerSec=-?%b, CurrSamplesPerSec=(-?%b)(?=,)|SamplesPerSec=(-?%b)(?=[\s,]|$))"
    % (NUMBER, NUMBER, NUMBER)
)
#: What such a line of a script holds, and what it is like.
_LOST_MARKERS: Dialect = (
    *(
        b"oss" + between + figure
        for between in (b": ", b" = ", b"=", b"': ", b'": ', b" ", b": tensor(")
        for figure in (b"nan", b"NaN", b"inf")
    ),
    (b"1.#", b"oss"),
)
_LOST = re.compile(
    rb"(\b(?:best|min|lowest)[_ ](?:\w{1,10}[_ ])?)?[Ll]oss['\"]?(?::| =|=|) ?(?:tensor\()?(nan|NaN|inf|-?%b)\b"
    % C_RUNTIME
)

#: ``launcher/launch.py``; since 2024 it tells each process that it starts.
_LAST_WORDS = LastWords((b" spawned with command: ",), (b" exits successfully.",))


@dataclass(frozen=True)
class DeepSpeed:
    """The format of DeepSpeed."""

    name: str = "deepspeed"
    dialects: tuple[Dialect, ...] = ((b"iter time (s): ",), (b"SamplesPerSec=", *_LOST_MARKERS))
    first_index: int | None = 1
    wraps: bool = False
    shows_progress: bool = True
    guards_itself: ClassVar[bool] = True
    last_words: LastWords = _LAST_WORDS

    def parse(self, lines: Iterator[tuple[int, bytes]]) -> StepLog:
        """Read the steps of the pipeline engine in seconds, else those of the timer in samples per second."""
        pipe = OnePrinter()
        # Old versions print on every rank.
        timer = ManyPrinters()
        lost: str | None = None
        began = 0
        for offset, line in lines:
            for head, rest in pieces(_PIPE, line):
                took = _PIPE_TIME.search(rest)
                seconds = None if took is None else number(took[1])
                if took is not None and seconds is not None:
                    bad = _PIPE_LOST.search(rest, 0, took.start())
                    problem = None if bad is None else safe_text(bad[0])
                    loss = number_of(_PIPE_LOSS.match(rest))
                    pipe.add(Record(offset, int(head[1]), seconds, rank_of(line), problem, loss, needs_loss=True))
            for step in _TIMER.finditer(line):
                rate = number(step[3] or step[4])
                if rate is not None and timer.add(Record(offset, int(step[1] or step[2]), rate, rank_of(line))):
                    # What stands before the first attempt's first step is its own.
                    if timer.attempts > 1 and lost is not None:
                        if not timer.diverged or timer.diverged[-1].attempt < timer.attempts - 1:
                            timer.diverged.append(Diverged(timer.attempts - 1, None, lost, began, offset))
                        lost = None
                    began = offset
            found = _LOST.search(line)
            lost = lost or (None if found is None or (found[1] and found[2] == b"inf") else safe_text(found[0]))
        if pipe.attempts:
            return step_log(self.name, pipe)
        if timer.attempts and timer.not_finite is None and lost is not None:
            timer.not_finite = (None, lost)
        return step_log(self.name, timer, unit=Unit.SAMPLES_PER_S, prints_losses=False)


FORMAT = DeepSpeed()
