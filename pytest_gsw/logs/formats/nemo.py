"""NVIDIA NeMo 1 and 2: ``train_step_timing in s``, written in many ways.

Source: NVIDIA/NeMo, ``nemo/utils/exp_manager.py`` (TimingCallback), whose ``buffer_size`` makes the number a running
mean of the last steps. From the most exact to the least:

* DLLogger, text ``DLL … - 5 reduced_train_loss : 9.1 … train_step_timing in s : 4.3286`` and JSON
  ``DLLL {… "step": 5, "data": {… "train_step_timing in s": 4.3286}}``
* NeMo 2 ``ProgressPrinter``: ``Training epoch 0, iteration 5/49 | … | train_step_timing in s: 12.39``, four digits
* MLPerf: ``:::MLLOG {… "train_step_timing in s": 10.64 … "step": 4194304}``, later ``"train_step_time"``;
  its "step" counts tokens or samples
* ``DeltaTimingCallback``: ``Step 12: train_step_timing in s=2.034``
* the progress bar of NeMo 1 and Lightning: ``6/50 [… global_step=5.000, … train_step_timing in s=12.80]``, three digits
* the list at the end: ``train_step_timing in s: [20.49, 11.28]``

Steps count from 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.model import Identity, StepLog, StepSetup
from pytest_gsw.logs.scan import NOT_FINITE, NUMBER, has_zero_norm, number, number_of, pieces, rank_of, text_of
from pytest_gsw.logs.steps import SingleRankSteps, StepRecord, StepSeries, UnnumberedSteps

_NOT_FINITE = re.compile(rb"(?:reduced_train_loss|grad_norm)\"? ?[:=] ?[-+]?%b" % NOT_FINITE, re.IGNORECASE)
_LOSS = re.compile(rb"reduced_train_loss\"? ?[:=] ?(-?%b)" % NUMBER)
_BATCH = re.compile(rb"\bglobal_batch_size: (\d{1,12})\b")

_DLL = re.compile(rb"\bDLL \d{4}-\d\d-\d\d [\d:.]{8,20} - (\d{1,12}) ")
#: A blank follows every value.
_DLL_TIME = re.compile(rb"train_step_timing in s : (-?%b)(?=\s)" % NUMBER)
#: Python's JSON writes numbers that are not finite as ``NaN`` and ``Infinity``.
_JSON_TIME = re.compile(rb'"(?:train_step_timing in s|train_step_time)": (-?%b|-?Infinity)(?=[,}])' % NUMBER)
_JSON_STEP = re.compile(rb'"step": (\d{1,15})(?=[.,}])')
_PRINTER = re.compile(rb"Training epoch (\d{1,9}), iteration (\d{1,12})/(\d{1,12}) \|")
_PRINTER_TIME = re.compile(rb"train_step_timing in s: (-?%b)(?=\s|$)" % NUMBER)
_PRINTER_STEP = re.compile(rb"\bglobal_step: (\d{1,12})\b")
_DELTA = re.compile(rb"\bStep (\d{1,12}): train_step_timing in s=(-?%b)(?=[\s,]|$)" % NUMBER)
_LIST = re.compile(rb"train_step_timing in s ?: ?\[")
#: The bar's counter, then the text in its brackets. Without an end the bracket was cut off.
_BAR = re.compile(rb"\b(\d{1,12})(?:/(\d{1,12}|\?)|it) \[([^\[\]]{0,4000})\]")
#: Lightning pads short numbers with zeros, ``nan.0`` as well.
_BAR_TIME = re.compile(rb"train_step_timing in s=(-?%b)(?:\.0?)?(?=,|$)" % NUMBER)
_BAR_STEP = re.compile(rb"\bglobal_step=(%b)(?=[,.]|$)" % NUMBER)
_BAR_EPOCH = re.compile(rb"Epoch (\d{1,9}): ")
#: Lightning's message if a run ends before its last epoch does.
_STOPPED = re.compile(rb"`Trainer\.fit` stopped: `max_steps=(\d{1,12})` reached")
#: From here on the bar, which has three digits, no longer separates one step from the next.
_EXACT_BELOW = 1000
_ROUNDING = 0.005
#: The counter is one more than the step, and at a first repaint two more than the step that is still displayed.
_AHEAD = 2


@dataclass
class _Epochs:
    """The steps of counters that begin anew in each epoch."""

    _epoch: int = 0
    _is_shown: bool = False
    _counter: int = 0
    _before: int = 0

    def step(self, epoch: int | None, counter: int) -> int:
        """The step, from 0, at a counter from 1; the epoch is ``None`` if the line does not show it."""
        fell = counter < self._counter
        if epoch is not None and (epoch < self._epoch or (epoch == self._epoch and self._is_shown and fell)):
            self._before = 0  # a restart
        elif fell or (epoch is not None and self._is_shown and epoch > self._epoch):
            self._before += self._counter
        self._epoch = self._epoch if epoch is None else epoch
        self._is_shown, self._counter = epoch is not None, counter
        return self._before + counter - 1


@dataclass
class _Bars:
    """Steps of progress bars.

    The first repaint at n/N still displays the step before: the last value for a step counts. Bars without
    ``global_step`` begin anew in each epoch: their steps are numbered on.
    """

    series: SingleRankSteps = field(default_factory=lambda: SingleRankSteps(repaints=True))
    #: Steps until the last displayed end.
    total: int | None = None
    _epochs: _Epochs = field(default_factory=_Epochs)
    #: The number of the epoch's first step.
    _first: int = 0

    def read(self, line: bytes, offset: int) -> None:
        for bar in _BAR.finditer(line):
            value = number_of(_BAR_TIME.search(bar[3]))
            if value is None:
                continue
            step = _BAR_STEP.search(bar[3])
            index = self._number_step(line[: bar.start()], int(bar[1])) if step is None else _global_step(step, bar)
            if index is None:
                continue
            if step is not None:
                self.total = self._end_of_epoch(bar, index)
            # Megatron models count samples, and log their loss with it; speech and others do neither.
            self.series.add(_record(bar[3], offset, index, value, needs_loss=b"consumed_samples=" in bar[3]))

    def _end_of_epoch(self, bar: re.Match[bytes], index: int) -> int | None:
        """Number of steps at the end of the bar; ``None`` if it is not displayed."""
        first = index - int(bar[1]) + 1
        # A first repaint still displays the step before.
        self._first = max(first, self._first) if abs(first - self._first) == 1 else first
        is_exact = index < _EXACT_BELOW or first == 0  # else the number may be rounded
        if bar[2] in (None, b"?") or not is_exact:
            return None
        return _end(index, self._first, int(bar[2]))

    def _number_step(self, head: bytes, counter: int) -> int | None:
        """The step of a bar without ``global_step``, from 0; ``None`` at an epoch's start, which displays the last."""
        if counter == 0:
            return None
        heads = _BAR_EPOCH.findall(head)
        # Lines printed over a bar remove its head; then only the counter shows a new epoch.
        return self._epochs.step(int(heads[-1]) if heads else None, counter)


def _global_step(step: re.Match[bytes], bar: re.Match[bytes]) -> int | None:
    """``global_step=49.00``; beyond 999 it is rounded (``2e+3``), and the counter is taken if it agrees."""
    shown = number(step[1])
    if shown is None or not 0 <= shown < 1e12:  # also if it is NaN or absurd
        return None
    counter = int(bar[1])
    agrees = shown >= _EXACT_BELOW and abs(counter - shown) <= shown * _ROUNDING + _AHEAD
    return counter - 1 if agrees else int(shown)


class _Parser(SeriesParser):
    """Reads the steps in all notations of the log, and takes the most exact."""

    def __init__(self) -> None:
        self._logger, self._printer, self._delta = SingleRankSteps(), SingleRankSteps(), SingleRankSteps()
        self._mlperf, self._step_list = _MLPerf(), UnnumberedSteps()
        self._bars, self._printed = _Bars(), _Printed()
        #: The place of Lightning's message that a run has done its planned steps, whatever the epoch's end; and these.
        self._stopped_at, self._stopped_steps = -1, 0
        numbered = (self._logger, self._printer, self._mlperf.series, self._delta, self._bars.series)
        super().__init__("nemo", *numbered, self._step_list)

    def feed(self, offset: int, record: bytes) -> None:
        _read_dll(self._logger, record, offset)
        if b'"train_step_tim' in record:
            if b":::MLLOG" in record:
                self._mlperf.read(record, offset)
            else:
                _read_json(self._logger, record, offset)
        self._printed.read(self._printer, record, offset)
        for step in _DELTA.finditer(record):
            if (value := number(step[2])) is not None:
                self._delta.add(_record(record, offset, int(step[1]), value))
        self._bars.read(record, offset)
        _read_list(self._step_list, record, offset)
        if (stopped := _STOPPED.search(record)) is not None:
            self._stopped_at, self._stopped_steps = offset, int(stopped[1])

    def not_finite(self, series: StepSeries) -> tuple[int | None, str] | None:
        # A diverged attempt counts in any notation.
        return next((series.not_finite for series in self._candidates if series.not_finite is not None), None)

    def log(self) -> StepLog:
        series = self.series()
        total = None
        if series.attempts:
            total = self._printed.total if series is self._printer else None
            total = self._bars.total if series in (self._logger, self._bars.series) else total
        diverged = next((series.diverged for series in self._candidates if series.diverged), [])
        batch = Identity(global_batch_size=self._printed.batch)
        log = replace(super().log(), total_steps=total, identity=batch, diverged=tuple(diverged))
        first, last = (log.steps[0].offset, log.steps[-1].index) if log.steps else (None, None)
        if total is None or first is None or first > self._stopped_at or last is None or last >= self._stopped_steps:
            return log
        return replace(log, total_steps=self._stopped_steps)


@dataclass
class _Printed:
    """Lines of NeMo 2's ProgressPrinter, with the planned steps and the batch."""

    #: Steps until the last displayed end.
    total: int | None = None
    batch: int | None = None
    _epochs: _Epochs = field(default_factory=_Epochs)

    def read(self, series: SingleRankSteps, line: bytes, offset: int) -> None:
        for head, rest in pieces(_PRINTER, line):
            value = number_of(_PRINTER_TIME.search(rest))
            if value is None:
                continue
            step = _PRINTER_STEP.search(rest)
            batch = _BATCH.search(rest)
            setup = StepSetup(None if batch is None else int(batch[1]))
            self.batch = setup.global_batch_size or self.batch
            # Iterations count from 0, and begin anew in each epoch.
            index = self._epochs.step(int(head[1]), int(head[2]) + 1) if step is None else int(step[1])
            self.total = _end(index, index - int(head[2]), int(head[3]) + 1)
            series.add(_record(rest, offset, index, value, needs_loss=True)._replace(rank=rank_of(line), setup=setup))


@dataclass
class _MLPerf:
    """MLPerf records: their counter, of tokens or samples, shows a restart but no step."""

    series: UnnumberedSteps = field(default_factory=UnnumberedSteps)
    _counter: int = -1

    def read(self, line: bytes, offset: int) -> None:
        value, step = number_of(_JSON_TIME.search(line)), _JSON_STEP.search(line)
        if value is None:
            return
        counter = self._counter + 1 if step is None else int(step[1])
        if counter == self._counter:
            return
        if counter < self._counter:
            self.series.restart(offset)
        self._counter = counter
        self.series.add(_record(line, offset, 0, value))


def _end(index: int, first: int, shown: int) -> int | None:
    """Planned steps of the run up to the displayed end.

    Args:
        index: The step's number.
        first: The number of the first step that the counter counts.
        shown: The counter's end: the steps of an epoch or, if NeMo takes ``max_steps`` for it, of the run.

    Returns:
        ``None`` if the counter counts batches of which many make a step.
    """
    if first < 0:
        return None
    return shown if index < shown else first + shown


def _read_dll(series: SingleRankSteps, line: bytes, offset: int) -> None:
    for head, rest in pieces(_DLL, line):
        value = number_of(_DLL_TIME.search(rest))
        if value is not None:
            series.add(_record(rest, offset, int(head[1]), value, needs_loss=True))


def _read_json(series: SingleRankSteps, line: bytes, offset: int) -> None:
    value, step = number_of(_JSON_TIME.search(line)), _JSON_STEP.search(line)
    if value is not None and step is not None:
        series.add(_record(line, offset, int(step[1]), value, needs_loss=True))


def _read_list(series: UnnumberedSteps, line: bytes, offset: int) -> None:
    begin = _LIST.search(line)
    end = -1 if begin is None else line.find(b"]", begin.end())
    if begin is None or end < 0:
        return
    series.restart(offset)
    for text in line[begin.end() : end].split(b","):
        value = number(text)
        if value is not None:
            series.add(StepRecord(offset, 0, value))


def _record(text: bytes, offset: int, index: int, seconds: float, *, needs_loss: bool = False) -> StepRecord:
    """The record of a step, with the loss that its text has, and the loss or gradient norm that is not finite."""
    problem, loss, zero_norm = text_of(_NOT_FINITE.search(text)), number_of(_LOSS.search(text)), has_zero_norm(text)
    return StepRecord(offset, index, seconds, None, problem, loss, needs_loss, zero_norm=zero_norm)


NEMO = BuiltIn("nemo", ((b"train_step_tim", b"stopped: `max_steps="),), _Parser, first_index=0, wraps=True)
