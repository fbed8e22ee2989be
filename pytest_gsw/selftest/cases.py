"""``pytest-gsw selftest``: whether the comparator is right, on logs whose truth is known.

For every kind of log that the simulated recipe writes, runs of a known speed are written to
files, whole or broken, and go the way of a real run's log: the state of the job, the reader,
the checks, the measurement, the verdict. What must come out is computed here, from the
simulated steps and not from the log, by arithmetic that shares nothing with that way.
"""

from __future__ import annotations

import math
import re
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any

from pytest_gsw.common.words import counted
from pytest_gsw.demo.damage import damage
from pytest_gsw.demo.faults import Fault
from pytest_gsw.demo.simulation import DEEPSPEED_UNLOGGED_STEPS, Job, simulate
from pytest_gsw.demo.simulation import Run as SimulatedRun
from pytest_gsw.demo.untrained import untrained
from pytest_gsw.demo.writers import WRITERS, Event, identity
from pytest_gsw.errors import JobError, LogError, RunError
from pytest_gsw.jobs.model import JobState, JobStatus, JobStep
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.performance.figures import figures
from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.peaks import documented_peak_flops, peak_flops
from pytest_gsw.performance.verdict import judge
from pytest_gsw.results import outcomes
from pytest_gsw.runs.checks import Run, check_job, measure, read_steps
from pytest_gsw.runs.contradictions import other_settings
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import STEP_SHARE, load_tables
from pytest_gsw.tables.metrics import STEP_TIME, Series
from pytest_gsw.tables.model import MAX_GAIN, Baseline
from pytest_gsw.tables.statistic import parse_statistic

#: How often each kind of row is drawn anew.
ROUNDS = 2
_ROWS_PER_KIND = 2

#: How far a right measurement may be from the simulated time, as a fraction: half of the last digit that the
#: framework prints. NeMo's bar has three digits; of two Hugging Face nodes the slower one counts.
_ACCURACY = 0.0005
_ACCURACY_OF_NEMO = 0.005
_HUGGINGFACE_DIGIT_PER_S = 0.0005
_HUGGINGFACE_NODES = 0.0004
#: "Just beyond" a limit is this much farther than what the digits can tell.
_MARGIN = 0.0005
#: An MFU that is still possible.
_MOST_MFU = 0.99
_TOLERANCES = (0.01, 0.02, 0.03, 0.05, 0.1)
#: Noise of which a single job may lose 8.9 % of throughput, and a tolerance that is less than that.
_KNOWN_NOISE, _KNOWN_TOLERANCE = Noise(sigma=0.03, jobs=30), 0.05
#: Steps that tables can state; tens, so that a Megatron log of every tenth iteration ends with the run.
_STATED_STEPS = (20, 30, 50)
_ENDED_WELL = JobStatus(JobState.COMPLETED, exit_code=0)
#: What is wrong with the steps of a job whose script ended with 0, as Slurm tells it, and what is to be said.
_FAILED_STEPS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    (
        "its step failed",
        {"steps": (JobStep("0", "train", JobState.FAILED, "FAILED", 1),), "derived_exit_code": "1:0"},
        "{job} completed, but its step 0 (train) failed with exit code 1*",
    ),
    (
        "a rank was killed",
        {"steps": (JobStep("0", "train", JobState.CANCELLED, "CANCELLED", 0, 9),), "derived_exit_code": "0:9"},
        "{job} completed, but its step 0 (train) ended CANCELLED by signal 9*",
    ),
    (
        "without accounting, a step failed",
        {"derived_exit_code": "1:0"},
        "{job} completed, but one of its steps failed (DerivedExitCode 1:0)*",
    ),
    (
        "another job is behind its submission",
        {"siblings": ("1",)},
        "2 jobs are behind the one submission of {job}, and one row is one job",
    ),
)
#: So many losses have a first and a last tenth.
_TENTHS = 10
#: By so many bytes before it a figure is found.
_WORDS_BYTES = 8
#: Logs that say how many steps there will be.
_NAMING_THEIR_END = frozenset({"maxtext", "megatron", "nemo"})
_STARTED = datetime(2026, 11, 20, 21, 0, tzinfo=timezone.utc)

_TOO_FEW = "the log holds * needed"
_OF_FEWER = "the run was to do * steps, * needed"
_ENDS_EARLY = "the log ends at step *, the run's last step is *"
_ENDS_EARLY_BY_ITSELF = "the log ends at step *, and says itself that the last one is *"
#: Lines behind the last step of a job that is said to have ended well, and what they tell of.
_FATAL = (
    ("xid", b"kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.\n", "GPU error (Xid)"),
    ("ecc", b"[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n", "ECC error"),
    ("gpu-hang", b"HW Exception by GPU node-4 (Agent handle: 0x1eb) reason :GPU Hang\n", "GPU hang"),
    ("gpu-reset", b"kernel: amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!\n", "GPU hang"),
    ("no-gpu", b"RuntimeError: Unable to initialize backend 'cuda': No visible GPU devices.\n", "no GPU found"),
    ("coordination", b"E0203 04:05:06 CoordinationServiceError: task 3 is gone\n", "coordination service lost"),
    ("watchdog", b"[Rank 9] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)\n", "NCCL time-out"),
    ("oom", b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n", "CUDA out of memory"),
    ("task", b"srun: error: n7: task 3: Exited with exit code 1\n", "a failed task"),
    ("cancelled", b"slurmstepd: error: *** STEP 7.0 ON n7 CANCELLED AT 2031-02-03T04:05:06 ***\n", "cancelled"),
    ("segfault", b"bash: line 1:  4242 Segmentation fault      (core dumped) python train.py", "segmentation fault"),
    ("exception", b'Traceback (most recent call last):\n  File "t.py", line 7, in f\nValueError: x\n', "an exception"),
)
#: Lines that healthy runs end with.
_HARMLESS = (
    (
        "teardown",
        b"Exception ignored in: <function Pool.__del__>\nTraceback (most recent call last):\nOSError: closed\n",
    ),
    ("process-group", b"[rank0]:[W203 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called\n"),
    ("abort", b"n7:42:43 [3] NCCL INFO comm 0x7f rank 3 nranks 8 cudaDev 3 busId 3 - Abort COMPLETE\n"),
)
_IN_A_LINE = "the log ends in the middle of a line"
_ENDS_UNTOLD = ("the log lacks what * prints when a run has ended", "the log announces * checkpoint saves, *")
_NOT_FINITE = "the loss or a step time is not finite*"


@dataclass(frozen=True)
class Expected:
    """What must come out of a case."""

    #: passed, improved, regressed, inconclusive, or ``not measured``.
    outcome: str
    #: Of what is not measured: the kind of error, and its fact, in which ``*`` is any text; one of several.
    error: type[RunError] = LogError
    facts: tuple[str, ...] = ()
    #: Of what is measured: the true time and number of steps, and how exactly a log can tell the time.
    judged_s: float = math.nan
    steps: int = 0
    accuracy: float = 0.0

    def __str__(self) -> str:
        if self.facts:
            return f"{self.outcome}, {self.error.__name__}: {' or '.join(self.facts)}"
        return f"{self.outcome}, {_measured(self.judged_s, self.steps)} (give or take {self.accuracy * 100:g} %)"


@dataclass(frozen=True)
class Case:
    """One log, and what must come out of it."""

    #: Unique within a self-test: ``maxtext-12-nan``.
    name: str
    baseline: Baseline
    seed: int
    #: What was done to the run or to its log.
    done: str
    log: bytes | None
    expected: Expected
    job_id: str
    status: JobStatus = _ENDED_WELL
    tolerance: float = 0.05
    #: By how much jobs of the row are known to differ.
    noise: Noise | None = None

    @property
    def row(self) -> str:
        """The row and what may differ from its table."""
        steps = self.baseline.recipe.steps
        return f"{self.baseline.id}, {self.baseline.statistic} of {'some' if steps is None else steps} steps"


@dataclass(frozen=True)
class Unchecked:
    """What a kind of log cannot show, so that nothing can notice it."""

    log_format: str
    framework: str
    what: str


@dataclass(frozen=True)
class Wrong:
    """A case that came out wrong."""

    case: Case
    got: str

    @property
    def again(self) -> str:
        """The command that repeats it and keeps its log."""
        return f"pytest-gsw selftest --seed {self.case.seed} --keep DIR, then look at DIR/{self.case.name}.log"


@dataclass(frozen=True)
class Tally:
    """The cases of one log format and framework."""

    log_format: str
    framework: str
    rows: int
    cases: int
    right: int


@dataclass(frozen=True)
class Report:
    """How a self-test went."""

    seed: int
    tallies: tuple[Tally, ...]
    wrong: tuple[Wrong, ...]
    unchecked: tuple[Unchecked, ...]

    @property
    def cases(self) -> int:
        """How many cases there were."""
        return sum(tally.cases for tally in self.tallies)

    @property
    def right(self) -> int:
        """How many of them came out right."""
        return sum(tally.right for tally in self.tallies)


def selftest(seed: int, *, rounds: int = ROUNDS, keep: Path | None = None) -> Report:
    """Write all logs of one seed, one after the other, and examine each.

    Args:
        seed: Which rows, noise, tolerances and damages are drawn.
        rounds: How often each kind of row is drawn anew.
        keep: A directory for the logs of cases that come out wrong.
    """
    wrong: list[Wrong] = []
    unchecked: dict[Unchecked, None] = {}
    rows: dict[tuple[str, str], set[str]] = {}
    counts: dict[tuple[str, str], list[bool]] = {}
    with tempfile.TemporaryDirectory(prefix="pytest-gsw-selftest-") as folder:
        for case in cases(seed, rounds):
            if isinstance(case, Unchecked):
                unchecked[case] = None
                continue
            got = _examine(case, Path(folder))
            kind = case.baseline.log_format, case.baseline.framework
            rows.setdefault(kind, set()).add(case.baseline.id)
            counts.setdefault(kind, []).append(got is None)
            if got is not None:
                wrong.append(Wrong(case, got))
                _keep(case, keep)
    tallies = tuple(Tally(*kind, len(rows[kind]), len(rights), sum(rights)) for kind, rights in sorted(counts.items()))
    return Report(seed, tallies, tuple(wrong), tuple(unchecked))


def cases(seed: int, rounds: int = ROUNDS) -> Iterator[Case | Unchecked]:
    """All cases of one seed, and what none of them can check."""
    number = 0
    for draw in range(rounds):
        for baseline in _rows(f"{seed} {draw}"):
            number += 1
            yield from _Trial(baseline, seed, f"{baseline.log_format}-{number}", f"{seed} {draw} {number}").cases()
    for name in FORMATS:
        if name not in WRITERS:
            yield Unchecked(name, "any", "all of it: the simulated recipe writes no such log")


def _examine(case: Case, folder: Path) -> str | None:
    """What came out of a case, in words, where it is wrong; ``None`` where it is right."""
    path = folder / f"{case.name}.log"
    if case.log is not None:
        path.write_bytes(case.log)
    baseline, expected = case.baseline, case.expected
    run = Run(case.job_id, case.status, path)
    try:
        check_job(run)
        log_format = FORMATS[baseline.log_format]
        measurement = measure(
            baseline,
            run,
            read_steps(baseline, run, log_format),
            peak_flops=peak_flops(baseline.accelerator, baseline.dtype),
            steps=baseline.recipe.steps,
            first_index=log_format.first_index,
        )
        outcome = judge(baseline, measurement, case.tolerance, noise=case.noise).outcome.value
    except RunError as error:
        right = type(error) is expected.error and any(_matches(fact, error.fact) for fact in expected.facts)
        return None if right else f"not measured, {type(error).__name__}: {error.fact}"
    except Exception as error:  # a fault of the program is a finding here, not the end of the self-test
        return f"{type(error).__name__}: {error}"
    finally:
        path.unlink(missing_ok=True)
    off = abs(measurement.judged_s / expected.judged_s - 1)  # NaN, and so never right, where no time was expected
    right = outcome == expected.outcome and measurement.steps == expected.steps and off <= expected.accuracy
    return None if right else f"{outcome}, {_measured(measurement.judged_s, measurement.steps)}"


def _matches(pattern: str, fact: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), fact) is not None


def _measured(seconds: float, steps: int) -> str:
    return f"{seconds:.6g} s over {counted(steps, 'step')}"


def _keep(case: Case, folder: Path | None) -> None:
    if folder is not None and case.log is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{case.name}.log").write_bytes(case.log)


def _random(seed: str) -> Random:
    return Random(seed)  # noqa: S311 - noise, not cryptography


# ---- The rows ------------------------------------------------------------------------------------


def _rows(seed: str) -> Iterator[Baseline]:
    """Bundled rows of every kind of log, and variants of them that no document has."""
    random = _random(f"{seed} rows")
    kinds: dict[tuple[object, ...], list[Baseline]] = {}
    for row in load_tables([bundled_baselines()]):
        if row.expected_failure is None:  # such a row is judged by its job, not by its log
            pipeline = (row.parallelism.pp or 1) > 1
            kind = row.log_format, row.framework, row.metric, row.statistic, pipeline
            kinds.setdefault(kind, []).append(row)
    for rows in kinds.values():
        drawn = random.sample(rows, min(_ROWS_PER_KIND, len(rows)))
        yield from drawn
        row = drawn[0]
        if row.judged_by is STEP_TIME and row.log_format != "huggingface":  # whose logs hold one number
            yield _varied(row, random)
        if row.framework == "deepspeed" and row.judged_by is STEP_TIME:
            # No table has DeepSpeed's own logs, but a site's may.
            yield _varied(replace(row, log_format="deepspeed"), random)


def _varied(row: Baseline, random: Random) -> Baseline:
    """The row with its steps stated, and with another statistic."""
    recipe = row.recipe
    if recipe.steps is None:
        recipe = replace(recipe, steps=random.choice(_STATED_STEPS))
    assert recipe.steps is not None  # just stated
    logged = recipe.logged_steps or recipe.steps
    # Paxml's and DeepSpeed's windows count from where the log begins.
    first = random.randrange(logged // 3, logged // 2)
    window = f"{first}:{first + random.randrange(1, 6)}"
    statistic = random.choice(
        ("last", "mean", "median", f"mean[{window}]", f"median[{window}]", f"median[-{random.randrange(2, 11)}:]")
    )
    return replace(row, recipe=recipe, statistic=statistic, min_steps=math.ceil(logged * STEP_SHARE))


# ---- What is true of a simulated run -------------------------------------------------------------


def _logged(run: SimulatedRun) -> Sequence[tuple[int | None, float]]:
    """Number and seconds of every step that the run's log tells, as a right reader has them."""
    row, steps_s = run.baseline, run.steps_s
    if row.judged_by.series is Series.SAVES:
        return [(None, seconds) for seconds in run.checkpoint_saves_s]
    match row.log_format:
        case "paxml":
            return [(None, seconds) for seconds in steps_s[: run.logged_steps]]
        case "maxtext":  # the median of two ranks
            return [(index, sum(pair) / 2) for index, pair in enumerate(zip(steps_s, run.second_rank_s, strict=True))]
        case "megatron":
            every = run.log_interval
            ends = range(every, len(steps_s) + 1, every)
            return [(end, statistics.fmean(steps_s[end - every : end])) for end in ends]
        case "deepspeed":
            return list(enumerate(steps_s, start=1))[DEEPSPEED_UNLOGGED_STEPS:]
        case "huggingface":
            return [(None, statistics.fmean(steps_s))]
        case _:
            return list(enumerate(steps_s))


def _loss_count(run: SimulatedRun) -> int | None:
    """How many losses the run's log tells; ``None`` where its lines have none."""
    steps = len(run.steps_s)
    match run.baseline.log_format:
        case "deepspeed":
            return None
        case "paxml":
            return steps // 10
        case "megatron":
            return steps // run.log_interval
        case "huggingface":
            return steps // max(1, steps // 10)
        case _:
            return steps


def _statistic_s(text: str, logged: Sequence[tuple[int | None, float]]) -> float:
    """The statistic, computed the plain way."""
    wanted = parse_statistic(text)
    seconds = [value for _, value in logged]
    if wanted.kind == "last":
        return seconds[-1]
    numbers = [position if index is None else index for position, (index, _) in enumerate(logged)]

    def bound(given: int | None, default: int) -> int:
        return default if given is None else numbers[given] if given < 0 else given

    low, high = bound(wanted.first, numbers[0]), bound(wanted.last, numbers[-1])
    chosen = [value for number, value in zip(numbers, seconds, strict=True) if low <= number <= high]
    return statistics.median(chosen) if wanted.kind == "median" else sum(chosen) / len(chosen)


# ---- The cases of one row ------------------------------------------------------------------------


class _Trial:
    """All cases of one row with one seed."""

    def __init__(self, baseline: Baseline, seed: int, name: str, randomness: str) -> None:
        self.baseline = baseline
        self._seed = seed
        self._name = name
        self._random = _random(f"{randomness} damage")
        self._randomness = randomness
        self._job = Job(
            id=str(self._random.randrange(10**6, 10**9)),
            nodes=baseline.nodes,
            gpus=baseline.gpus,
            gpus_per_node=baseline.gpus_per_node,
            size=baseline.size,
            dtype=baseline.dtype,
            version="selftest",
        )
        self._run = self._simulate()
        documented_s = baseline.judged_s
        assert documented_s is not None  # the tables' loader has made sure of it
        self._documented_s = documented_s
        self._saves = baseline.judged_by.series is Series.SAVES
        self._one_number = baseline.log_format == "huggingface"
        self._steps_known = baseline.recipe.steps is not None and not self._saves
        mfu = figures(baseline, baseline.documented.step_time_s, documented_peak_flops(baseline)).mfu
        #: The documented MFU; the most throughput that hardware can have, against the documented one.
        self._mfu = None if self._saves else mfu
        self._most = math.inf if mfu is None else _MOST_MFU / mfu
        #: Whether a log without its last step can be told.
        self._end_known = self._steps_known and FORMATS[baseline.log_format].first_index is not None
        #: The same where no table says which the last step is.
        self._end_named = baseline.recipe.steps is None and baseline.log_format in _NAMING_THEIR_END

    def cases(self) -> Iterator[Case | Unchecked]:
        """All of them, and what cannot be checked."""
        yield from self._speeds()
        yield from self._not_believed()
        yield from self._not_finite()
        yield from self._cut()
        yield from self._of_others()
        yield from self._of_two_runs()
        yield from self._impossible_times()
        yield from self._untrained()
        yield from self._loss_that_is_to_fall()
        yield from self._not_ended_well()

    # Speeds ----

    def _speeds(self) -> Iterator[Case]:
        own = self.baseline.tolerance
        yield self._judged("untouched", "nothing", self._run, outcomes.PASSED.word, own)
        for sign, beyond in ((-1, outcomes.REGRESSED.word), (1, outcomes.IMPROVED.word)):
            tolerance = self._random.choice((*_TOLERANCES, own))
            limit = 1 + sign * tolerance
            if sign > 0 and tolerance >= MAX_GAIN:
                beyond = outcomes.INCONCLUSIVE.word  # nothing between what is allowed and what is believed
            factor = 1 + sign * (self._accuracy(self._documented_s / limit) + _MARGIN)
            word = "less" if sign < 0 else "more"
            for name, throughput, outcome in (
                ("within", limit / factor, outcomes.PASSED.word),
                ("beyond", limit * factor, beyond),
                ("far", limit * self._random.uniform(0.5, 0.9) if sign < 0 else self._far(tolerance), beyond),
            ):
                done = f"{abs(throughput - 1):.4%} {word} throughput, {tolerance:.2%} allowed"
                yield self._judged(f"{word}-{name}", done, self._at(throughput), outcome, tolerance)

    def _far(self, tolerance: float) -> float:
        """Throughput, against the documented one, that is far beyond a tolerance, possible, and believed if any is."""
        far = min((1 + tolerance) * 1.15, self._most)
        return far if tolerance >= MAX_GAIN else min(far, 1 + MAX_GAIN - 0.01)

    def _not_believed(self) -> Iterator[Case]:
        """Figures that neither pass nor fail: gains beyond belief, and a loss that noise may be."""
        least, most = (1 + max(MAX_GAIN, self.baseline.tolerance)) * 1.02, min(10.0, self._most)
        if most > least:
            throughput = self._random.uniform(least, most)
            done = f"{throughput - 1:.0%} more throughput"
            yield self._judged("more-unbelieved", done, self._at(throughput), outcomes.INCONCLUSIVE.word)
        case = self._judged("decimal", "the table's figure is ten times as long", self._run, outcomes.INCONCLUSIVE.word)
        figure = {self.baseline.judged_by.key: self._documented_s * 10}
        misprinted = replace(self.baseline, documented=replace(self.baseline.documented, **figure))
        yield replace(case, baseline=misprinted)
        lost = self._random.uniform(0.06, 0.08)
        allowed = f"{_KNOWN_TOLERANCE:.2%} allowed, of jobs that differ by {_KNOWN_NOISE.sigma:.0%}"
        done = f"{lost:.2%} less throughput, {allowed}"
        case = self._judged("less-in-noise", done, self._at(1 - lost), outcomes.INCONCLUSIVE.word, _KNOWN_TOLERANCE)
        yield replace(case, noise=_KNOWN_NOISE)
        if self.baseline.log_format == "maxtext":  # where two ranks print their steps
            first_s, second_s = (tuple(share * step_s for step_s in self._run.steps_s) for share in (0.5, 1.5))
            apart = replace(self._run, steps_s=first_s, second_rank_s=second_s)
            done = "one rank takes three times as long as the other, and their median is the documented one"
            yield self._judged("ranks-apart", done, apart, outcomes.INCONCLUSIVE.word)

    def _judged(
        self, name: str, done: str, run: SimulatedRun, outcome: str, tolerance: float | None = None, log: bytes = b""
    ) -> Case:
        return self._measured(name, done, log or _bytes(self._events(run)), _logged(run), outcome, tolerance)

    def _measured(
        self,
        name: str,
        done: str,
        log: bytes,
        logged: Sequence[tuple[int | None, float]],
        outcome: str,
        tolerance: float | None = None,
    ) -> Case:
        true_s = _statistic_s(self.baseline.statistic, logged)
        expected = Expected(outcome, judged_s=true_s, steps=len(logged), accuracy=self._accuracy(true_s))
        return self._case(name, done, log, expected, tolerance=tolerance or self.baseline.tolerance)

    def _accuracy(self, seconds: float) -> float:
        """How exactly the log can tell a time."""
        if self.baseline.log_format == "nemo":
            return _ACCURACY_OF_NEMO
        if self._one_number:
            return _HUGGINGFACE_DIGIT_PER_S * seconds / self._run.global_batch_size + _HUGGINGFACE_NODES
        return _ACCURACY

    # Numbers that are none ----

    def _not_finite(self) -> Iterator[Case]:
        run = self._simulate(Fault(self.baseline.id, "nan"))
        yield self._broken("nan", "the loss is NaN from half way on", _bytes(self._events(run)), _NOT_FINITE)
        events = self._events(self._run)
        step = self._random.choice(_steps(events))
        for text in ("nan", "inf"):
            facts = [_NOT_FINITE]
            if self._one_number:
                facts = [f"no step time in the {self.baseline.log_format} log is finite: *"]
            log = _bytes(_with_figure(events, text, step))
            yield self._broken(f"step-{text}", f"the figure of step {step} is {text}", log, *facts)

    def _impossible_times(self) -> Iterator[Case | Unchecked]:
        """Times of zero, or without end, and times that no hardware can have."""
        events = self._events(self._run)
        rates = self.baseline.log_format in {"deepspeed", "huggingface"}
        what = "rate" if rates else "time"
        fact = f"{'inf' if rates else '0'} s is no time of a step"
        yield self._broken("zero", f"every {what} is zero", _with_all_figures(events, "0.0"), fact)
        # NeMo shows each step twice, and the other time would still be right.
        averages = self.baseline.statistic in {"mean", "median"} and self.baseline.log_format != "nemo"
        if averages and not self._saves and not self._one_number:
            step = self._random.choice(_steps(events))
            log = _bytes(_with_figure(events, "0.0", step))
            yield self._broken("one-zero", f"the {what} of step {step} is zero", log, fact)
        if self._mfu is not None:
            wanted = self._random.uniform(1.02, 5)
            log = _bytes(self._events(self._at(wanted / self._mfu)))
            yield self._broken("mfu", f"an MFU of {wanted:.0%}", log, "MFU * is impossible: *")

    def _untrained(self) -> Iterator[Case]:
        nan = self._events(self._simulate(Fault(self.baseline.id, "nan")))
        for name, done, log, fact in untrained(self._run, [_restarted(e) for e in self._events(self._run)], nan):
            yield self._broken(name, done, log, fact)

    def _loss_that_is_to_fall(self) -> Iterator[Case]:
        """A table may ask for it, and then a loss that stays as it is, or of which nothing tells, is an error."""
        row, run = replace(self.baseline, loss="falls"), self._run
        count = _loss_count(run)
        if count is None:
            fact = f"the row asks that the loss falls, and {row.log_format} prints no loss"
        elif count < _TENTHS:
            fact = "the log holds *, too few to tell whether it falls"
        else:
            fact = "the loss does not fall: *"
            case = self._judged("loss-falls", "the loss is to fall, and does", run, outcomes.PASSED.word)
            yield replace(case, baseline=row)
        log = _bytes(self._events(replace(run, losses=(7.0,) * len(run.losses))))
        yield replace(self._broken("loss-stays", "the loss is to fall, and stays as it is", log, fact), baseline=row)

    # Logs that are cut ----

    def _cut(self) -> Iterator[Case | Unchecked]:
        events, none = self._events(self._run), f"no {self.baseline.log_format} step times in the log: *"
        yield self._broken("no-log", "no log is left", None, "the log does not exist: *")
        yield self._broken("empty", "the log is empty", b"", "the log is empty: *")
        yield self._broken("no-steps", "the log ends before the first step", _bytes(_before_training(events)), none)
        few = self._few(events)
        if few is not None:
            steps, log = few
            what = "saves" if self._saves else "steps"
            yield self._broken(
                "few", f"the log ends after {steps} of {self.baseline.min_steps} needed {what}", log, _TOO_FEW
            )
        short = _bytes(damage(events, self._run, "short"))
        yield self._broken("short", "the log ends after 60 % of the steps", short, *self._facts_of_short(none))
        yield from self._cut_in_a_figure(events, none)
        last = max(event.step for event in events)
        end = next(number for number, event in enumerate(events) if event.step == last and event.figure_end)
        if self._saves or self.baseline.log_format == "paxml":
            log = _bytes(events[:end])
            yield self._broken(
                "line", "the log ends with the line before the last figure", log, *_ENDS_UNTOLD, _TOO_FEW
            )
        elif self._end_known or self._end_named:
            log = _bytes(events[: end + 1])
            at = self._random.randrange(1, len(log))
            # Cut off within the profiling run of MaxText, its end is the one that the log names.
            facts = (none, _TOO_FEW, _OF_FEWER, _ENDS_EARLY if self._end_known else _ENDS_EARLY_BY_ITSELF)
            yield self._broken("cut", f"the log is cut off behind byte {at:,}", log[:at], *facts)

    def _few(self, events: Sequence[Event]) -> tuple[int, bytes] | None:
        """The log with one step less than needed; ``None`` where a log holds but one number."""
        if self._one_number:
            return None
        # A single line of a log with every tenth iteration does not tell that it stands for ten.
        fewest = 0 if self._saves else 1
        steps = max(fewest, (self.baseline.min_steps - 1) // self._run.log_interval)
        numbers = _steps(events)
        upto = numbers[steps - 1] if steps else 1
        return steps, _bytes(takewhile(lambda event: event.step <= upto, events))

    def _facts_of_short(self, none: str) -> tuple[str, ...]:
        """Why six tenths of the steps are not measured."""
        if self._one_number:
            return (none,)
        return (_ENDS_EARLY_BY_ITSELF, _TOO_FEW) if self._end_named else (_TOO_FEW,)

    def _cut_in_a_figure(self, events: Sequence[Event], none: str) -> Iterator[Case | Unchecked]:
        """What is left of the figure looks like another number, which must not count."""
        last = max(event.step for event in events)
        end = next(number for number, event in enumerate(events) if event.step == last and event.figure_end)
        event = events[end]
        start = _figure_start(event)
        whole = _bytes(events[:end])
        logs = {
            "truncated": ("before its last digit", _bytes(damage(events, self._run, "truncated"))),
            "digit": ("behind its first digit", whole + event.data[: start + 1]),
        }
        for name, (place, log) in logs.items():
            done = f"the log is cut off in the last step's figure, {place}"
            if self._one_number:
                yield self._broken(name, done, log, none)
            elif self._end_known:
                yield self._broken(name, done, log, _ENDS_EARLY, _TOO_FEW)
            elif self._end_named and not self._saves:
                yield self._broken(name, done, log, _ENDS_EARLY_BY_ITSELF, _TOO_FEW)
            elif self._steps_known and len(_logged(self._run)) == self.baseline.min_steps:
                yield self._broken(name, done, log, _TOO_FEW)
            else:
                yield self._broken(name, done, log, _IN_A_LINE)
        if self._steps_known and not self._end_known and self.baseline.log_format != "paxml":
            yield self._unchecked("that the last step is there: steps have no number from a fixed start")

    # Logs of others ----

    def _of_others(self) -> Iterator[Case | Unchecked]:
        row, job = self.baseline, self._job
        jobs = {
            "model size": replace(job, size="8b" if job.size != "8b" else "70b"),
            "dtype": replace(job, dtype="bf16" if row.dtype != "bf16" else "fp8"),
            "GPUs": replace(job, nodes=job.nodes * 2),
            "job": replace(job, id=str(int(job.id) - 1)),
        }
        rows = {"model": replace(row, model="another"), "framework": replace(row, framework="another")}
        if row.log_format == "paxml":
            yield self._unchecked("a log of another global batch size: the log does not say it")
        elif row.global_batch_size is not None:
            rows["global batch size"] = replace(row, global_batch_size=row.global_batch_size * 2)
        runs = {name: replace(self._run, job=other) for name, other in jobs.items()}
        runs |= {name: replace(self._run, baseline=other) for name, other in rows.items()}
        for name, run in runs.items():
            fact = f"the log belongs to another run, by its {name}"
            log = _bytes(self._events(run))
            yield self._broken(f"other-{name.replace(' ', '-')}", f"the log is of another {name}", log, fact)
        for name, other, fact in other_settings(row):
            if other is None:
                yield self._unchecked(f"a run of another {name}: row or log do not say it")
                continue
            log = _bytes(self._events(replace(self._run, baseline=other)))
            yield self._broken(f"other-{name.replace(' ', '-')}", f"the run was of another {name}", log, fact)
        # Megatron under DeepSpeed prints DeepSpeed's lines as well.
        unlike = {row.log_format} | ({"megatron"} if row.framework == "deepspeed" else set())
        writer = self._random.choice([name for name in WRITERS if name not in unlike])
        log = _bytes(tuple(WRITERS[writer](self._run)))
        fact = f"no {row.log_format} step times in the log: *"
        yield self._broken("other-format", f"the log is one of {writer}", log, fact)

    def _of_two_runs(self) -> Iterator[Case]:
        """Two runs in one file, as a requeued job leaves them: the last one counts, however it ended."""
        healthy = _bytes(self._events(self._run))
        slow = self._at((1 - self.baseline.tolerance) * self._random.uniform(0.5, 0.9))
        # Not every log says whose it is: where it counts anew, that alone tells.
        again = tuple(_restarted(event) for event in self._events(slow) if RECIPE_MARKER not in event.data)
        yield self._judged(
            "then-slow", "a slow run behind it", slow, outcomes.REGRESSED.word, log=healthy + _bytes(again)
        )
        healed = tuple(_restarted(event) for event in self._events(self._run))
        first = _bytes(self._events(slow))
        yield self._judged(
            "slow-then", "a slow run before it", self._run, outcomes.PASSED.word, log=first + _bytes(healed)
        )
        numbers = _steps(again)
        upto = numbers[len(numbers) // 2 - 1]
        log = healthy + _bytes(takewhile(lambda event: event.step <= upto, again))
        done = "a slow run behind it, cut off half way"
        if self._one_number:
            log = healthy + _bytes(damage(again, slow, "short"))
            yield self._broken("then-cut", done, log, f"no {self.baseline.log_format} step times in the log: *")
        elif self._end_named:
            yield self._broken("then-cut", done, log, _ENDS_EARLY_BY_ITSELF, _TOO_FEW)
        else:
            yield self._broken("then-cut", done, log, _TOO_FEW)
        if self._steps_known and not self._one_number:
            events = self._events(self._run)
            before = tuple(takewhile(lambda event: event.step <= upto, events))
            log = _bytes(before) + f"{identity(self._run)}\n".encode() + _bytes(events[len(before) :])
            yield self._broken("resumed", "half of the steps are of a run before, which had saved them", log, _TOO_FEW)

    # Jobs that did not end well ----

    def _not_ended_well(self) -> Iterator[Case]:
        job, healthy = f"job {self._job.id}", self._events(self._run)
        ends = [
            (JobStatus(JobState.FAILED, exit_code=3), f"{job} failed with exit code 3"),
            (JobStatus(JobState.COMPLETED, exit_code=3), f"{job} ended with exit code 3"),
            (JobStatus(JobState.COMPLETED, exit_code=0, signal=9), f"{job} ended by signal 9"),
            (JobStatus(JobState.COMPLETED), f"the exit code of {job} is not known"),
            (JobStatus(JobState.UNKNOWN, reason="no answer"), f"the end of {job} is not known: no answer"),
        ]
        with_words = {JobState.COMPLETED, JobState.FAILED, JobState.REPLAYED, JobState.UNKNOWN}
        ends += [(JobStatus(s, exit_code=0), f"{job} ended {s.value}") for s in JobState if s not in with_words]
        for status, fact in self._random.sample(ends, 4):
            code = "unknown" if status.exit_code is None else status.exit_code
            done = f"the log is whole, the job {status.state.value} with exit code {code}, signal {status.signal}"
            name = f"job-{status.state.value.lower()}-{code}-{status.signal}"
            yield self._failed(name, done, _bytes(healthy), status, fact)
        what, told, fact = _FAILED_STEPS[len(healthy) % len(_FAILED_STEPS)]
        done = f"the log is whole, the job COMPLETED with exit code 0, and {what}"
        yield self._failed("job-step", done, _bytes(healthy), replace(_ENDED_WELL, **told), fact.format(job=job))
        failed, killed = JobStatus(JobState.FAILED, exit_code=1), JobStatus(JobState.OUT_OF_MEMORY, exit_code=0)
        for word, status, fact in (
            ("fail", failed, f"{job} failed with exit code 1"),
            ("oom", failed, f"{job} failed with exit code 1: * out of memory"),
            ("oom-kill", killed, f"{job} ended OUT_OF_MEMORY: host out of memory"),
            ("stall", JobStatus(JobState.TIMEOUT, exit_code=0), f"{job} ended TIMEOUT"),
        ):
            log = _bytes(damage(healthy, self._run, word))
            if status is killed:
                fact_of_log = f"{job} completed, but its log tells of an end by host out of memory"
                if self._one_number:
                    fact_of_log = f"no {self.baseline.log_format} step times in the log: *"
                yield self._broken(f"{word}-lost", f"the demo's fault {word}, exit code 0", log, fact_of_log)
            yield self._failed(word, f"the demo's fault {word}", log, status, fact)
        name, line, text = self._random.choice(_FATAL)
        fact_of_log = f"{job} completed, but its log tells of an end by {text}"
        yield self._broken(f"then-{name}", f"{name} behind the last step", _bytes(healthy) + line, fact_of_log)
        name, line = self._random.choice(_HARMLESS)
        yield self._judged(
            f"then-{name}", f"{name} behind the last step", self._run, outcomes.PASSED.word, log=_bytes(healthy) + line
        )

    # ----

    def _simulate(self, fault: Fault | None = None) -> SimulatedRun:
        return simulate(self.baseline, self._job, fault, _random(f"{self._randomness} noise"), _STARTED)

    def _at(self, throughput: float) -> SimulatedRun:
        """The run, with this share of the documented throughput to the last digit."""
        true_s = _statistic_s(self.baseline.statistic, _logged(self._run))
        factor = self._documented_s / throughput / true_s
        run = self._run
        return replace(
            run,
            steps_s=tuple(seconds * factor for seconds in run.steps_s),
            second_rank_s=tuple(seconds * factor for seconds in run.second_rank_s),
            checkpoint_saves_s=tuple(seconds * factor for seconds in run.checkpoint_saves_s),
        )

    def _events(self, run: SimulatedRun) -> tuple[Event, ...]:
        return tuple(WRITERS[self.baseline.log_format](run))

    def _broken(self, name: str, done: str, log: bytes | None, *facts: str) -> Case:
        return self._case(name, done, log, Expected("not measured", facts=facts))

    def _failed(self, name: str, done: str, log: bytes, status: JobStatus, fact: str) -> Case:
        return self._case(name, done, log, Expected("not measured", JobError, (fact,)), status=status)

    def _case(
        self,
        name: str,
        done: str,
        log: bytes | None,
        expected: Expected,
        *,
        status: JobStatus = _ENDED_WELL,
        tolerance: float | None = None,
    ) -> Case:
        return Case(
            f"{self._name}-{name}",
            self.baseline,
            self._seed,
            done,
            log,
            expected,
            self._job.id,
            status,
            tolerance or self.baseline.tolerance,
        )

    def _unchecked(self, what: str) -> Unchecked:
        return Unchecked(self.baseline.log_format, self.baseline.framework, what)


# ---- Logs as bytes -------------------------------------------------------------------------------


def _bytes(events: Iterable[Event]) -> bytes:
    return b"".join(event.data for event in events)


def _steps(events: Iterable[Event]) -> list[int]:
    """The steps whose figures the events hold, without those of MaxText's run for the profile."""
    return sorted({event.step for event in events if event.figure_end} - {0})


def _before_training(events: Sequence[Event]) -> Iterator[Event]:
    return takewhile(lambda event: not event.step and not event.figure_end, events)


def _figure_start(event: Event) -> int:
    """Where in the event's data its figure begins."""
    figure = re.search(rb"[0-9.]+\Z", event.data[: event.figure_end + 1])
    assert figure is not None  # writers mark the last character of a number
    return figure.start()


def _with_figure(events: Iterable[Event], text: str, step: int) -> Iterator[Event]:
    """The events with another figure for one step, by whichever rank."""
    for event in events:
        if event.figure_end and event.step == step:
            data = event.data[: _figure_start(event)] + text.encode() + event.data[event.figure_end + 1 :]
            yield event._replace(data=data)
        else:
            yield event


def _with_all_figures(events: Iterable[Event], text: str) -> bytes:
    """The log with another figure wherever there is one, also where a bar is repainted with it."""
    events = tuple(events)
    event = next(event for event in events if event.figure_end)
    start = _figure_start(event)
    before = event.data[start - _WORDS_BYTES : start]
    return re.sub(re.escape(before) + rb"[0-9.]+", before + text.encode(), _bytes(events))


def _restarted(event: Event) -> Event:
    """What a later process writes: absl shows its thread, which is another one."""
    return event._replace(data=re.sub(rb"(?<= )1396837(\d{8}) (?=\w+\.py:)", rb"1397001\1 ", event.data))
