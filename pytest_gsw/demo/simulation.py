"""Step times and losses of one simulated run. No I/O, no text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline, parse_statistic, row_matches
from pytest_gsw.tables.value_types import nearest

# -- The faults of simulated runs, and the option text that assigns them to rows -------------------


#: Every fault as written, and its effect. ``P%`` is a percentage, ``N`` a whole number.
FAULTS: Mapping[str, str] = {
    "slow:P%": "every step takes P % longer",
    "fast:P%": "every step takes P % less time",
    "slow-once:P%": "every step of the row's first job takes P % longer; those of further ones do not",
    "noise:P%": "each job is slower or faster as a whole, with a standard deviation of P %",
    "fail": "a Python traceback after a few steps, exit code 1",
    "oom": "one rank runs out of GPU memory before its first step, exit code 1",
    "oom-kill": "killed after a third of the steps, as by Slurm when a node's memory is used up",
    "stall": "stops writing after half the steps and never ends",
    "nan": "the loss is NaN from half way on; of a benchmark, values are wrong, a request fails or the run is aborted. "
    "Speed and exit code are those of a healthy run",
    "short": "stops without a word after 60 % of the steps, exit code 0",
    "wrong-identity": "the log states another model size",
    "wrong-settings": "the log states half of the row's sequence length, and twice its micro-batch",
    "no-log": "no log is left, exit code 0",
    "truncated": "the log ends inside the figure of the last step, exit code 0",
    "cancel": "the job cancels itself after its last step",
    "exit:N": "a healthy log, exit code N (1 to 255)",
    "lost:N": "a node of the job is lost after step N, state NODE_FAIL; runs of fewer steps are healthy",
    "down": "of a node alone: it gets no jobs",
}
_DOWN = "down"
#: Beginning of the pattern of a node.
_NODE = "node:"

_ARGUMENTS = {usage.partition(":")[0]: usage.partition(":")[2] for usage in FAULTS}
#: The values of a whole number.
_EXIT_CODES, _STEPS = range(1, 256), range(1, 100_000)


@dataclass(frozen=True)
class DemoFault:
    """One fault for the rows whose id matches a pattern, or for the jobs on nodes whose name does."""

    #: A row id, or ``node:`` and a node, in which only ``*`` and ``?`` are special; the brackets of ids are not.
    pattern: str
    #: A word of :data:`FAULTS`: ``slow``.
    word: str
    #: The number behind the word's colon: 12 for ``slow:12%``; 0 for none.
    argument: float = 0.0
    #: The fault as ``--gsw-demo`` has it.
    text: str = field(default="", compare=False)

    def matches(self, row_id: str, nodes: Collection[str] = ()) -> bool:
        """True if a job of the row of this id on these nodes has the fault."""
        return bool(self.of_nodes(nodes)) if self.pattern.startswith(_NODE) else row_matches(self.pattern, row_id)

    def of_nodes(self, nodes: Iterable[str]) -> list[str]:
        """Those of these nodes that have the fault; all of them if it is a row's."""
        is_node, pattern = self.pattern.startswith(_NODE), self.pattern.removeprefix(_NODE)
        return [node for node in nodes if not is_node or row_matches(pattern, node)]

    @property
    def time_factor(self) -> float:
        """Factor on the time of every step."""
        sign = {"slow": 1, "slow-once": 1, "fast": -1}.get(self.word, 0)
        return 1 + sign * self.argument / 100


def parse_faults(text: str) -> tuple[DemoFault, ...]:
    """Read ``PATTERN=FAULT;PATTERN=FAULT…``, the value of ``--gsw-demo``.

    Raises:
        ConfigurationError: A part is no ``PATTERN=FAULT``, or its fault is not in :data:`FAULTS`.
    """
    return tuple(_parse_fault(part.strip()) for part in text.split(";") if part.strip())


def fault_of(row_id: str, faults: Iterable[DemoFault], nodes: Collection[str] = ()) -> DemoFault | None:
    """The fault of a row's job on these nodes: the last that matches it."""
    return next((fault for fault in reversed(tuple(faults)) if fault.matches(row_id, nodes)), None)


def down_nodes(faults: Iterable[DemoFault], nodes: Collection[str]) -> dict[str, str]:
    """Those of these nodes that get no jobs, with the reason."""
    return {node: "down: by --gsw-demo" for fault in faults if fault.word == _DOWN for node in fault.of_nodes(nodes)}


def _parse_fault(part: str) -> DemoFault:
    pattern, equals, fault = (piece.strip() for piece in part.rpartition("="))
    if not equals or not pattern:
        raise ConfigurationError(f"--gsw-demo: got '{part}', wanted PATTERN=FAULT such as 'llama2*=slow:12%'")
    word, colon, argument = fault.partition(":")
    if word not in _ARGUMENTS:
        raise ConfigurationError(
            f"--gsw-demo: unknown fault '{word}' in '{part}'{nearest(word, _ARGUMENTS)}\n{_help_text()}"
        )
    number = _argument(word, argument)
    if number is None or bool(colon) != bool(_ARGUMENTS[word]):
        raise ConfigurationError(f"--gsw-demo: got '{fault}' in '{part}', wanted '{_usage(word)}'\n{_help_text()}")
    if word == _DOWN and not pattern.startswith(_NODE):
        raise ConfigurationError(f"--gsw-demo: got '{part}', wanted a node such as {_NODE}demo-06={_DOWN}")
    return DemoFault(pattern, word, number, part)


def _argument(word: str, text: str) -> float | None:
    """The number after a fault's colon; 0 if the fault takes none, ``None`` if it is wrong."""
    match _ARGUMENTS[word]:
        case "P%" if re.fullmatch(r"\d+(\.\d+)?%", text):
            percent = float(text[:-1])
            return None if word == "fast" and percent >= 100 else percent
        case "N" if re.fullmatch(r"\d{1,5}", text) and int(text) in (_EXIT_CODES if word == "exit" else _STEPS):
            return int(text)
        case "" if not text:
            return 0.0
        case _:
            return None


def _usage(word: str) -> str:
    return f"{word}:{_ARGUMENTS[word]}" if _ARGUMENTS[word] else word


def _help_text() -> str:
    width = max(map(len, FAULTS))
    return "\n".join(["faults:", *(f"  {usage:<{width}}  {meaning}" for usage, meaning in FAULTS.items())])


#: Steps of a run whose document states none.
DEFAULT_STEPS = 12
#: The same if the statistic is over a window of iterations, and if only checkpoints count.
DEFAULT_WINDOW_STEPS = 60
DEFAULT_CHECKPOINT_STEPS = 4
NCCL_TRACE_STEPS = 10
#: Paxml prints the time of its first 20 steps only (``log_first_n`` in paxml/programs.py).
PAXML_LOGGED_STEPS = 20

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
class SimulatedJob:
    """Values that the launch script passes to the training."""

    id: str
    nodes: int
    gpus: int
    gpus_per_node: int
    size: str
    dtype: str
    version: str
    #: Traces of NCCL are long: recipes stop after a few steps when they write one.
    nccl_trace: bool = False


@dataclass(frozen=True)
class SimulatedRun:
    """The data from which a writer makes a log."""

    baseline: Baseline
    job: SimulatedJob
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
    #: The result is wrong: of a benchmark, its log shows it.
    is_wrong: bool = False

    @property
    def slowdown(self) -> float:
        """The time of the last step over the documented one, by which a benchmark's figure is worse."""
        return self.steps_s[-1] / _step_time_s(self.baseline)

    @property
    def global_batch_size(self) -> int:
        """Samples of one step; one for each GPU if the document states none."""
        return self.baseline.batch.global_batch_size or self.job.gpus

    @property
    def sequence_length(self) -> int:
        """Tokens of one sample."""
        return self.baseline.workload.sequence_length or 4096

    @property
    def micro_batch_size(self) -> int:
        """Samples of one pass of a GPU."""
        return self.baseline.batch.micro_batch_size or 1

    @property
    def precision(self) -> str:
        """Precision of everything that is not FP8."""
        return self.baseline.workload.dtype if self.baseline.workload.dtype in {"fp16", "fp32"} else "bf16"

    @property
    def quantization(self) -> str:
        """Number format of matrix products: ``fp8`` for mxfp8, too, and ``fp4``; empty if it is the precision."""
        return next((kind for kind in ("fp8", "fp4") if kind in self.baseline.workload.dtype), "")

    @property
    def layers(self) -> int:
        """The model's layers."""
        return self.baseline.workload.all_layers or 24

    @property
    def hidden_size(self) -> int:
        """The hidden size."""
        return self.baseline.workload.hidden_size or 8192

    @property
    def degrees(self) -> Mapping[str, int]:
        """Degrees of parallelism that give the job's GPUs: the row's, unless they contradict that."""
        own, gpus = self.baseline.parallelism, self.job.gpus
        tp, cp = own.tp or 1, own.cp or 1
        pp = own.pp or 1
        if gpus % (tp * pp * cp) or (own.dp and own.pp and not own.ep and tp * pp * cp * own.dp != gpus):
            pp = max(1, gpus // (tp * cp * (own.dp or 1)))  # the document contradicts itself
        return {"tp": tp, "pp": pp, "cp": cp, "ep": own.ep or 1, "dp": max(1, gpus // (tp * pp * cp))}


def simulate(
    baseline: Baseline, job: SimulatedJob, fault: DemoFault | None, random: Random, started: datetime
) -> SimulatedRun:
    """Train one row at its documented speed, changed by a fault; faults that end a run early change nothing here.

    The same seed of the noise gives the same run; losses are those of the row.
    """
    time_factor = fault.time_factor if fault else 1.0
    if fault and fault.word == "noise":
        time_factor = math.exp(random.gauss(0.0, fault.argument / 100))
    interval = _log_interval(baseline)
    steps = NCCL_TRACE_STEPS if job.nccl_trace else _step_count(baseline, interval)
    logged = steps // interval
    if baseline.workload.log_format == "paxml":
        logged = min(steps, baseline.recipe.logged_steps or PAXML_LOGGED_STEPS)
    first_nan_step = logged * interval // 2 if fault and fault.word == "nan" else None
    quiet = {logged * interval - 1, steps - 1}
    factors = _step_factors(steps, _has_warm_up(baseline, steps), quiet, random)
    steps_s = tuple(_step_time_s(baseline) * time_factor * factor for factor in factors)
    checkpoint_s = (baseline.documented.checkpoint_save_time_s or 0.0) * time_factor
    return SimulatedRun(
        baseline,
        job,
        started,
        steps_s,
        second_rank_s=tuple(seconds * _noise(random, _RANK_LIMIT) for seconds in steps_s),
        losses=_losses(steps, first_nan_step, Random(baseline.id)),  # each job has the same data and seed
        checkpoint_saves_s=tuple(
            checkpoint_s * _noise(random, _LAST_STEP_LIMIT) for _ in range(2 * bool(checkpoint_s))
        ),
        log_interval=interval,
        logged_steps=logged,
        is_wrong=fault is not None and fault.word == "nan",
    )


def _step_count(baseline: Baseline, interval: int) -> int:
    if baseline.judged_by.series is Series.SAVES:
        return baseline.recipe.steps or DEFAULT_CHECKPOINT_STEPS
    wanted = baseline.recipe.steps or (DEFAULT_STEPS if interval == 1 else DEFAULT_WINDOW_STEPS)
    # A table may require more than the recipe runs only by mistake, but a demo must show it green.
    window_end = parse_statistic(baseline.criterion.statistic).last or 0
    needed = max(wanted, baseline.criterion.min_steps * interval, window_end)
    return -(-needed // interval) * interval


def _log_interval(baseline: Baseline) -> int:
    """Steps per line: one, but for a Megatron row judged by a window of tens, such as ``mean[31:40]``."""
    recipe, statistic = baseline.recipe, parse_statistic(baseline.criterion.statistic)
    if baseline.workload.log_format != "megatron":
        return 1
    if recipe.steps and recipe.logged_steps:
        return max(1, recipe.steps // recipe.logged_steps)
    in_tens = (statistic.first or 0) % 10 == 1 and (statistic.last or 1) % 10 == 0
    return 10 if in_tens else 1


def _step_time_s(baseline: Baseline) -> float:
    documented = baseline.documented
    if documented.step_time_s:
        return documented.step_time_s
    if documented.tokens_per_s and baseline.batch.global_batch_size and baseline.workload.sequence_length:
        return baseline.workload.sequence_length * baseline.batch.global_batch_size / documented.tokens_per_s
    return _UNDOCUMENTED_STEP_TIME_S


def _has_warm_up(baseline: Baseline, steps: int) -> bool:
    """True if the row's statistic skips slow first steps.

    A mean over the whole run was documented with the run's own warm-up: a warm-up on top of the documented time would
    make it a slower run. Hugging Face reports only such means.
    """
    statistic = parse_statistic(baseline.criterion.statistic)
    if baseline.workload.log_format == "huggingface":
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
