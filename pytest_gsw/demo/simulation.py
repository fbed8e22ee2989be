"""Step times and losses of one simulated run. No I/O, no text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random

from pytest_gsw.demo.faults import Fault
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline, parse_statistic

#: Steps of a run whose document states none.
DEFAULT_STEPS = 12
#: The same if the statistic is over a window of iterations, and if only checkpoints count.
DEFAULT_WINDOW_STEPS = 60
DEFAULT_CHECKPOINT_STEPS = 4
NCCL_TRACE_STEPS = 10
#: Paxml prints the time of its first 20 steps only (``log_first_n`` in paxml/programs.py).
PAXML_LOGGED_STEPS = 20
#: First steps without a time in the log, by its format: DeepSpeed's throughput timer leaves out two (``start_step`` in
#: deepspeed/utils/timer.py), Composer's speed monitor fills its window first, which in the demo holds one batch.
UNLOGGED_STEPS = {"deepspeed": 2, "composer": 1}

#: Step time of a row that documents none (one that runs out of memory, or saves checkpoints).
_UNDOCUMENTED_STEP_TIME_S = 10.0
#: Compilation and warm-up: the first steps take this many times longer.
_WARM_UP = (6.0, 1.3)
_SPIKE = 1.03
_STEPS_PER_SPIKE = 25
_NOISE = 0.005
#: A step that is no spike stays within this share of the documented time, the last logged one within a narrower share,
#: to which NeMo's three printed digits add up to 0.5 %.
_NOISE_LIMIT = 0.009
_LAST_STEP_LIMIT = 0.004
_RANK_LIMIT = 0.0008


@dataclass(frozen=True)
class Job:
    """Values that the launch script passes to the training."""

    id: str
    nodes: int
    gpus: int
    gpus_per_node: int
    size: str
    dtype: str
    version: str
    optimization_name: str = ""
    optimization_code: str = ""
    #: Traces of NCCL are long: recipes stop after a few steps when they write one.
    nccl_trace: bool = False


@dataclass(frozen=True)
class Run:
    """The data from which a writer makes a log."""

    baseline: Baseline
    job: Job
    started: datetime
    #: Seconds of each step on rank 0, and on a second rank, which measures slightly different times.
    steps_s: tuple[float, ...]
    second_rank_s: tuple[float, ...]
    losses: tuple[float, ...]
    #: Seconds of each checkpoint saved.
    checkpoint_saves_s: tuple[float, ...]
    #: Steps that share one line of the log (Megatron's ``--log-interval``).
    log_interval: int
    #: Lines of the log that state a step time, on one rank.
    logged_steps: int

    @property
    def global_batch_size(self) -> int:
        """Samples of one step; one for each GPU if the document states none."""
        return self.baseline.global_batch_size or self.job.gpus

    @property
    def sequence_length(self) -> int:
        """Tokens of one sample."""
        return self.baseline.sequence_length or 4096

    @property
    def micro_batch_size(self) -> int:
        """Samples of one pass of a GPU."""
        return self.baseline.micro_batch_size or 1

    @property
    def precision(self) -> str:
        """Precision of everything that is not FP8."""
        return self.baseline.dtype if self.baseline.dtype in {"fp16", "fp32"} else "bf16"

    @property
    def quantization(self) -> str:
        """Number format of matrix products: ``fp8`` for mxfp8, too, and ``fp4``; empty if it is the precision."""
        return next((kind for kind in ("fp8", "fp4") if kind in self.baseline.dtype), "")

    @property
    def layers(self) -> int:
        """The model's layers."""
        return self.baseline.all_layers or 24

    @property
    def hidden_size(self) -> int:
        """The hidden size."""
        return self.baseline.hidden_size or 8192

    @property
    def degrees(self) -> Mapping[str, int]:
        """Degrees of parallelism that give the job's GPUs: the row's, unless they contradict that."""
        own, gpus = self.baseline.parallelism, self.job.gpus
        tp, cp = own.tp or 1, own.cp or 1
        pp = own.pp or 1
        if gpus % (tp * pp * cp) or (own.dp and own.pp and not own.ep and tp * pp * cp * own.dp != gpus):
            pp = max(1, gpus // (tp * cp * (own.dp or 1)))  # the document contradicts itself
        return {"tp": tp, "pp": pp, "cp": cp, "ep": own.ep or 1, "dp": max(1, gpus // (tp * pp * cp))}


def simulate(baseline: Baseline, job: Job, fault: Fault | None, random: Random, started: datetime) -> Run:
    """Train one row at its documented speed, changed by a fault; faults that end a run early change nothing here.

    The same seed of the noise gives the same run.
    """
    time_factor = fault.time_factor if fault else 1.0
    if fault and fault.word == "noise":
        time_factor = math.exp(random.gauss(0.0, fault.argument / 100))
    interval = _log_interval(baseline)
    steps = NCCL_TRACE_STEPS if job.nccl_trace else _step_count(baseline, interval)
    logged = steps // interval
    if baseline.log_format == "paxml":
        logged = min(steps, baseline.recipe.logged_steps or PAXML_LOGGED_STEPS)
    first_nan_step = logged * interval // 2 if fault and fault.word == "nan" else None
    quiet = {logged * interval - 1, steps - 1}
    factors = _step_factors(steps, _has_warm_up(baseline, steps), quiet, random)
    steps_s = tuple(_step_time_s(baseline) * time_factor * factor for factor in factors)
    checkpoint_s = (baseline.documented.checkpoint_save_time_s or 0.0) * time_factor
    return Run(
        baseline,
        job,
        started,
        steps_s,
        second_rank_s=tuple(seconds * _noise(random, _RANK_LIMIT) for seconds in steps_s),
        losses=_losses(steps, first_nan_step, random),
        checkpoint_saves_s=tuple(
            checkpoint_s * _noise(random, _LAST_STEP_LIMIT) for _ in range(2 * bool(checkpoint_s))
        ),
        log_interval=interval,
        logged_steps=logged,
    )


def _step_count(baseline: Baseline, interval: int) -> int:
    if baseline.judged_by.series is Series.SAVES:
        return baseline.recipe.steps or DEFAULT_CHECKPOINT_STEPS
    wanted = baseline.recipe.steps or (DEFAULT_STEPS if interval == 1 else DEFAULT_WINDOW_STEPS)
    # A table may require more than the recipe runs only by mistake, but a demo must show it green.
    window_end = parse_statistic(baseline.statistic).last or 0
    unlogged = UNLOGGED_STEPS.get(baseline.log_format, 0)
    needed = max(wanted, baseline.min_steps * interval + unlogged, window_end)
    return -(-needed // interval) * interval


def _log_interval(baseline: Baseline) -> int:
    """Steps per line: one, but for a Megatron row judged by a window of tens, such as ``mean[31:40]``."""
    recipe, statistic = baseline.recipe, parse_statistic(baseline.statistic)
    if baseline.log_format != "megatron":
        return 1
    if recipe.steps and recipe.logged_steps:
        return max(1, recipe.steps // recipe.logged_steps)
    in_tens = (statistic.first or 0) % 10 == 1 and (statistic.last or 1) % 10 == 0
    return 10 if in_tens else 1


def _step_time_s(baseline: Baseline) -> float:
    documented = baseline.documented
    if documented.step_time_s:
        return documented.step_time_s
    if documented.tokens_per_s and baseline.global_batch_size and baseline.sequence_length:
        return baseline.sequence_length * baseline.global_batch_size / documented.tokens_per_s
    return _UNDOCUMENTED_STEP_TIME_S


def _has_warm_up(baseline: Baseline, steps: int) -> bool:
    """True if the row's statistic skips slow first steps.

    A mean over the whole run was documented with the run's own warm-up: a warm-up on top of the documented time would
    make it a slower run. Hugging Face reports only such means.
    """
    statistic = parse_statistic(baseline.statistic)
    if baseline.log_format == "huggingface":
        return False
    if statistic.kind != "mean":
        return True
    first = statistic.first or 0
    return first > len(_WARM_UP) if first >= 0 else steps + first >= len(_WARM_UP)


def _step_factors(steps: int, warm_up: bool, quiet: set[int], random: Random) -> tuple[float, ...]:
    """The factor of each step over the documented time; the steps of ``quiet`` are never spikes."""
    spikes = {random.randrange(start, start + _STEPS_PER_SPIKE) for start in range(0, steps, _STEPS_PER_SPIKE)} - quiet
    slow = {step: factor for step, factor in enumerate(_WARM_UP) if warm_up and step not in quiet}
    return tuple(
        _noise(random, _LAST_STEP_LIMIT if step in quiet else _NOISE_LIMIT)
        * slow.get(step, _SPIKE if step in spikes else 1.0)
        for step in range(steps)
    )


def _noise(random: Random, limit: float) -> float:
    return min(max(random.lognormvariate(0.0, _NOISE), 1 - limit), 1 + limit)


def _losses(steps: int, first_nan_step: int | None, random: Random) -> tuple[float, ...]:
    """A loss that falls from about ln(vocabulary), as at the start of any pre-training."""
    return tuple(
        math.nan
        if first_nan_step is not None and step >= first_nan_step
        else 6.4 + 5.4 * math.exp(-step / 15) + random.gauss(0.0, 0.02)
        for step in range(steps)
    )
