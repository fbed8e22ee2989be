"""Megatron-LM and its relatives: one line for each iteration, or for the mean of each N.

====================  ==========================================================  ==================================
writer                line                                                        source
====================  ==========================================================  ==================================
Megatron-LM           ``iteration 5/ 50 | … | elapsed time per iteration (ms):``  ``megatron/training/training.py``
Megatron-DeepSpeed    the same in ``(ms)``, in BigScience's fork in ``(s)``       ``megatron/training.py``
GPT-NeoX              the same, ``samples/sec`` before it                         ``megatron/logging.py``
Primus                the same, ``current/average`` from the third on             ``primus/…/trainer.py``
argonne's fork        ``iteration= 5/ 50 | … | elapsed_time_per_iteration_ms=``   ``megatron/training_log.py``
Megatron-Bridge       the same, and ``Step Time : 9.09s GPU utilization: …``      ``train_utils.py``
====================  ==========================================================  ==================================

The last rank prints; steps count from 1. ``Step Time`` has no number and is printed by the first rank, which also
marks the start of a run: ``[after dataloaders are built]`` (``setup.py``) and, since November 2025, ``Starting training
loop at iteration`` (``train.py``). If an output holds that rank alone, they are the border between two attempts.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.model import ALL_SKIPPED, EndMarkers, Identity, StepLog, StepSetup
from pytest_gsw.logs.scan import NOT_FINITE, NUMBER, has_zero_norm, number, number_of, pieces, rank_of, text_of
from pytest_gsw.logs.steps import SingleRankSteps, StepRecord, StepSeries, UnnumberedSteps, can_be

#: "iteration: 5 / 50 | … elapsed_time_per_iteration_ms: 13.8K" is nanotron.
_ITERATION = re.compile(rb"\biteration[ =] {0,12}(\d{1,12}) {0,12}/ {0,12}(\d{1,12}) {0,8}\|")
#: The current one of "current/average". More text follows: a number at the line's end was cut.
_ELAPSED = re.compile(rb"elapsed time per iteration \((ms|s)\): {0,12}(-?%b)(?=[\s|/])" % NUMBER)
_ELAPSED_KEY = re.compile(rb"elapsed_time_per_iteration_(ms|s)= {0,12}(-?%b)(?=[\s|])" % NUMBER)
_BRIDGE_BEGINS = (b"[after dataloaders are built]", b"Starting training loop at iteration ")
_BRIDGE = re.compile(rb"Step Time : (-?%b)s GPU utilization" % NUMBER)
_GLOBAL_BATCH = re.compile(rb"global[ _]batch[ _]size[:=] {0,12}(\d{1,12})\b")
#: Megatron-DeepSpeed prints both under a curriculum: the planned and the actual length.
_SEQUENCE = re.compile(rb"\bactual[ _]seqlen[:=] {0,12}(\d{1,9})\b")
_NOT_FINITE = re.compile(
    rb"(?:loss|grad[ _]norm)[:=] {0,12}[-+]?%b\b|number[ _]of[ _]nan[ _]iterations[:=] {0,12}[1-9]\d{0,9}" % NOT_FINITE,
    re.IGNORECASE,
)
#: A loss that is no number is not printed at all if DeepSpeed's engine takes the step. Nor is that of a step that the
#: loss scaler of half precision skips, and "number of skipped iterations" does not count those there; but a scale of 1
#: scales nothing.
#: Losses of a mixture of experts and of further heads are printed next to it, even if it is missing.
_LOSS = re.compile(
    rb"(?<!balancing_)(?<!balancing )(?<!aux_)(?<!aux )(?<!moe )(?<!moe_)(?<!\bz_)(?<!mtp_\d )loss[:=] {0,12}([-+]?%b)"
    % NUMBER
)
#: Counted since the last such line.
_SKIPPED = re.compile(rb"number[ _]of[ _]skipped[ _]iterations[:=] {0,12}(\d{1,12})\b")
_UNSCALED = re.compile(rb"\bloss[ _]scale[:=] {0,12}1\.0\b.{0,400}number[ _]of[ _]skipped[ _]iterations[:=] {0,12}0\b")
#: The part before the losses in each line; documents quote lines that end before it.
_PRINTS_LOSS = re.compile(rb"\blearning[ _]rate[:=][^|]{1,40}\|[^|]{1,200}\|")
#: ``Timers.log``: "time (ms) | save-checkpoint: 17960.68 | …", since 2023 a line for each timer, "    save-checkpoint
#: ....: (17960.61, 17960.68)", the fastest and the slowest rank.
_SAVE = re.compile(
    rb"\bsave[-_ ]checkpoint(?: \.{1,80})?: (?:\(-?%b, (-?%b)\)|(-?%b)(?![\w.]))" % (NUMBER, NUMBER, NUMBER)
)

#: ``pretrain`` of megatron/training/training.py; a run that ends by an interval, a signal or a duration exits.
_LAST_WORDS = EndMarkers(
    (b"[before the start of training step]", *_BRIDGE_BEGINS), (b"[after training is done]", b"[exiting program")
)


#: ``evaluate_and_print_results``: "validation loss at iteration 100 | lm loss value: 8.0E+00 | lm loss PPL: 3.0E+03 |";
#: GPT-NeoX has "results" and "lm_loss value".
_EVALUATION = (b"loss value: ", b" | ")
_EVALUATED = re.compile(
    rb"\b(?:validation|test) (?:loss|results) at [^|]{1,80}\|.{0,400}?loss value: {0,12}[-+]?%b\b" % NOT_FINITE
)


class _Parser(SeriesParser):
    """Reads the steps, and the save times of the last attempt's checkpoints."""

    def __init__(self) -> None:
        self._steps, self._bridge = SingleRankSteps(), UnnumberedSteps()
        super().__init__("megatron", self._steps, self._bridge)
        self._bridge_continues = False
        self._saves_s: list[float] = []
        self._bad_save: str | None = None
        self._batch: int | None = None

    def feed(self, offset: int, record: bytes) -> None:
        self._read_save(record)
        for head, rest in pieces(_ITERATION, record):
            elapsed = _ELAPSED.search(rest) or _ELAPSED_KEY.search(rest)
            value = None if elapsed is None else number(elapsed[2])
            if elapsed is None or value is None:
                continue
            seconds = _from_ms(value) if elapsed[1] == b"ms" else value
            loss = number_of(_LOSS.search(rest))
            problem = _problem(rest, loss)
            # A line that counts no skipped iterations has no other reason to lack a loss.
            needs_loss = _PRINTS_LOSS.search(rest) is not None and _SKIPPED.search(rest) is None
            skipped, setup, rank = _skip_count(rest, loss), _setup(rest), rank_of(record)
            zero_norm = has_zero_norm(rest)
            if self._steps.add(
                StepRecord(offset, int(head[1]), seconds, rank, problem, loss, needs_loss, skipped, setup, zero_norm)
            ):
                self._saves_s.clear()
                self._bad_save = None
            self.total_steps = int(head[2])
            self._batch = setup.global_batch_size or self._batch
        if (evaluated := text_of(_EVALUATED.search(record))) is not None:
            self.lose(self._steps, evaluated)
        if self._bridge_continues and any(words in record for words in _BRIDGE_BEGINS):
            self._bridge.restart(offset)
            self._bridge_continues = False
        for step in _BRIDGE.finditer(record):
            self._bridge.add(StepRecord(offset, 0, number(step[1]) or math.nan))
            self._bridge_continues = True

    def _read_save(self, record: bytes) -> None:
        saved = _SAVE.search(record)
        save_ms = None if saved is None else number(saved[1] or saved[2])
        if saved is None or save_ms is None:
            return
        if can_be(save_ms):
            self._saves_s.append(_from_ms(save_ms))
        else:
            self._bad_save = self._bad_save or text_of(saved)

    def not_finite(self, series: StepSeries) -> tuple[int | None, str] | None:
        if series is self._bridge:
            return series.not_finite
        return super().not_finite(series) or (None if self._bad_save is None else (None, self._bad_save))

    def log(self) -> StepLog:
        log = super().log()
        if not self._steps.attempts:
            return log
        batch = Identity(global_batch_size=self._batch)
        return replace(log, identity=batch, checkpoint_saves_s=tuple(self._saves_s))


def _setup(rest: bytes) -> StepSetup:
    """The batch of the line's step, which a ramp-up changes, and its sequence length under a curriculum."""
    batch = _GLOBAL_BATCH.search(rest)
    length = _SEQUENCE.search(rest) if b"seqlen" in rest else None
    return StepSetup(None if batch is None else int(batch[1]), None if length is None else int(length[1]))


def _problem(rest: bytes, loss: float | None) -> str | None:
    """Text of the loss or the gradient norm that is not finite."""
    is_unexplained = loss is None and _UNSCALED.search(rest) is not None
    return text_of(_NOT_FINITE.search(rest)) or ("no loss, though none was skipped" if is_unexplained else None)


def _skip_count(rest: bytes, loss: float | None) -> int:
    """Steps of the line that the loss scaler skipped: all of them if the line has no loss."""
    match = _SKIPPED.search(rest)
    if match is None:
        return 0
    return ALL_SKIPPED if loss is None else int(match[1])


def _from_ms(milliseconds: float) -> float:
    # Nine decimals are finer than any log, and make 3591.2 ms 3.5912 s, not 3.5911999999999997.
    return round(milliseconds / 1000, 9)


MEGATRON = BuiltIn(
    "megatron",
    # The first set is found by its parentheses alone; the others are searched for only if it has no steps.
    (
        (b"per iteration (", b"time (ms) |", b".: (", _EVALUATION),
        (b"elapsed_time_per_iteration_", _EVALUATION),
        (b"Step Time : ", *_BRIDGE_BEGINS),
    ),
    _Parser,
    first_index=1,
    last_words=_LAST_WORDS,
)
