"""DeepSpeed's own lines, which it prints for any training script.

* The pipeline engine (``runtime/pipe/engine.py``): ``steps: 5 loss: 9.1 iter time (s): 3.475 samples/sec: …``, seconds
  of a step, the mean since the last such line. Further losses of the model precede the time: ``steps: 5 loss: 9.1
  aux_loss: 0.5 iter time (s): …``.
* ``ThroughputTimer`` (``utils/timer.py``), samples per second of the whole job: ``0/50, SamplesPerSec=…`` until 0.6,
  then ``0/50, RunningAvgSamplesPerSec=…, CurrSamplesPerSec=…``, since 0.8 ``epoch=0/micro_step=5/global_step=5,
  RunningAvg…``. The average includes the warm-up; the current rate is taken if there is one. Later than 0.16 these
  lines show only at log level INFO.

The timer's lines have no loss. Scripts print it in lines of their own; those with a loss that is not finite count:
``step: 7, loss: nan``, ``[2, 12000] loss: inf``, ``Epoch: 0, Step: 7, Rank: 0, loss = nan``, ``loss=nan``,
``{'loss': nan}``, ``loss: tensor(nan, …)``; a "best loss: inf" is none yet. Steps that the loss scaler skips
(``OVERFLOW! Rank 0 Skipping step.``) are normal for runs in half precision.

Steps count from 1, and their planned number is not printed; the launcher reports the end of its processes.

DeepSpeed-Chat's ``CurSamplesPerSec`` (one r), ``time (ms) | fwd: …`` and the flops profiler's ``samples/second`` are no
step times.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_gsw.logs import scan
from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.model import Dialect, EndMarkers, StepLog
from pytest_gsw.logs.scan import NOT_FINITE, NUMBER, has_zero_norm, number, number_of, rank_of, safe_text, text_of
from pytest_gsw.logs.steps import MultiRankSteps, SingleRankSteps, StepRecord, Unit

_PIPE = re.compile(rb"\bsteps: (\d{1,12}) (?=loss: )")
_PIPE_TIME = re.compile(rb" iter time \(s\): (-?%b)(?=\s)" % NUMBER)
_PIPE_LOSS = re.compile(rb"loss: (-?%b)" % NUMBER)
_PIPE_LOST = re.compile(rb"\S{1,40}: [-+]?%b\b" % NOT_FINITE)
#: Memory follows the current rate: a rate at the line's end was cut. Before 0.6 the rate did end its line.
_TIMER = re.compile(
    rb"(?:\b\d{1,12}/(\d{1,12})|\bglobal_step=(\d{1,12})), "
    rb"(?:RunningAvgSamplesPerSec=-?%b, CurrSamplesPerSec=(-?%b)(?=,)|SamplesPerSec=(-?%b)(?=[\s,]|$))"
    % (NUMBER, NUMBER, NUMBER)
)
#: Markers and pattern of such a line of a script.
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
    % scan.C_RUNTIME
)

#: ``launcher/launch.py``; since 2024 it reports each process that it starts.
_LAST_WORDS = EndMarkers((b" spawned with command: ",), (b" exits successfully.",))


class _Parser(SeriesParser):
    """Reads the steps of the pipeline engine in seconds, else those of the timer in samples per second."""

    def __init__(self) -> None:
        # Old versions of the timer print on every rank.
        self._pipe, self._timer = SingleRankSteps(), MultiRankSteps(Unit.SAMPLES_PER_S)
        super().__init__("deepspeed", self._pipe, self._timer)
        #: A loss in the script's own lines that is not finite, before the timer's first step.
        self._early: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        for head, rest in scan.pieces(_PIPE, record):
            took = _PIPE_TIME.search(rest)
            seconds = None if took is None else number(took[1])
            if took is not None and seconds is not None:
                problem = text_of(_PIPE_LOST.search(rest, 0, took.start()))
                loss, rank, zero_norm = number_of(_PIPE_LOSS.match(rest)), rank_of(record), has_zero_norm(rest)
                self._pipe.add(
                    StepRecord(offset, int(head[1]), seconds, rank, problem, loss, needs_loss=True, zero_norm=zero_norm)
                )
        for step in _TIMER.finditer(record):
            rate = number(step[3] or step[4])
            if rate is not None:
                self._timer.add(StepRecord(offset, int(step[1] or step[2]), rate, rank_of(record)))
        match = _LOST.search(record)
        if match is not None and not (match[1] and match[2] == b"inf"):
            self._early = self._early or safe_text(match[0])
        if self._early is not None and self._timer.attempts:
            self._timer.lose(None, self._early)
            self._early = None

    def log(self) -> StepLog:
        log = super().log()
        return log if self._pipe.attempts else replace(log, losses=None)


DEEPSPEED = BuiltIn(
    "deepspeed",
    ((b"iter time (s): ",), (b"SamplesPerSec=", *_LOST_MARKERS)),
    _Parser,
    first_index=1,
    last_words=_LAST_WORDS,
)
