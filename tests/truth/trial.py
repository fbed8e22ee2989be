"""One row with one seed: its healthy run, what is known of it, and the cases that are made of it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timezone

from pytest_gsw.demo.simulation import DemoFault, SimulatedJob, SimulatedRun, simulate
from pytest_gsw.demo.writers import Event
from pytest_gsw.errors import JobError
from pytest_gsw.jobs.states import JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.stats.figures import documented_peak_flops, figures
from pytest_gsw.tables.metrics import Series
from pytest_gsw.tables.model import Baseline
from tests.truth.logs import as_bytes
from tests.truth.model import Case, Expected
from tests.truth.rows import seeded
from tests.truth.truth import logged_steps, statistic_s
from tests.writers import TRAININGS

#: How far a right measurement may be from the simulated time, as a fraction: half of the last digit that the
#: framework prints. NeMo's bar has three digits; of two Hugging Face nodes the slower one counts.
_ACCURACY = 0.0005
_ACCURACY_OF_THREE_DIGITS = 0.0055
_ACCURACY_OF_NEMO = 0.005
_HUGGINGFACE_DIGIT_PER_S = 0.0005
_HUGGINGFACE_NODES = 0.0004
_TORCHTITAN_DIGIT_PER_S = 0.5
#: An MFU that is still possible.
_MOST_MFU = 0.99
#: Logs that say how many steps there will be.
_NAMING_THEIR_END = frozenset({"maxtext", "megatron", "nemo", "torchtitan"})
_STARTED = datetime(2026, 11, 20, 21, 0, tzinfo=timezone.utc)


class Trial:
    """A row that cases are made of.

    Args:
        baseline: The row.
        seed: The self-test's seed.
        name: How the names of its cases begin: ``maxtext-12``.
        randomness: From what its random numbers are drawn.
    """

    def __init__(self, baseline: Baseline, seed: int, name: str, randomness: str) -> None:
        self.baseline = baseline
        self._seed = seed
        self._name = name
        self.random = seeded(f"{randomness} damage")
        self._randomness = randomness
        self.job = SimulatedJob(
            id=str(self.random.randrange(10**6, 10**9)),
            nodes=baseline.nodes,
            gpus=baseline.gpus,
            gpus_per_node=baseline.gpus_per_node,
            size=baseline.size or "",
            dtype=baseline.dtype,
            version="selftest",
        )
        self.run = self.simulate()
        documented = baseline.judged
        assert documented is not None  # the tables' loader has made sure of it
        self.documented = documented
        self.saves = baseline.judged_by.series is Series.SAVES
        self.one_number = baseline.log_format == "huggingface"
        self.steps_known = baseline.recipe.steps is not None and not self.saves
        mfu = figures(baseline, baseline.documented.step_time_s, documented_peak_flops(baseline)).mfu
        #: The documented MFU; the most throughput that hardware can have, against the documented one.
        self.mfu = None if self.saves else mfu
        self.most = math.inf if mfu is None else _MOST_MFU / mfu
        #: Whether a log without its last step can be told.
        self.end_known = self.steps_known and FORMATS[baseline.log_format].first_index is not None
        #: The same where no table says which the last step is.
        self.end_named = baseline.recipe.steps is None and baseline.log_format in _NAMING_THEIR_END

        #: What is said of a log of this format that holds no step.
        self.no_steps = f"no {baseline.log_format} step times in the log: *"

    def simulate(self, fault: DemoFault | None = None) -> SimulatedRun:
        """The row's run, with a fault of the demo's."""
        return simulate(self.baseline, self.job, fault, seeded(f"{self._randomness} noise"), _STARTED)

    def at(self, throughput: float) -> SimulatedRun:
        """The run, with this share of the documented throughput to the last digit."""
        true_s = statistic_s(self.baseline.statistic, logged_steps(self.run))
        factor = self.documented / throughput / true_s
        run = self.run
        series = (run.steps_s, run.second_rank_s, run.checkpoint_saves_s)
        steps_s, second_rank_s, saves_s = (tuple(seconds * factor for seconds in one) for one in series)
        return replace(run, steps_s=steps_s, second_rank_s=second_rank_s, checkpoint_saves_s=saves_s)

    def events(self, run: SimulatedRun) -> tuple[Event, ...]:
        """The log of a run."""
        return tuple(TRAININGS[self.baseline.log_format](run))

    def judged(
        self, name: str, done: str, run: SimulatedRun, outcome: str, tolerance: float | None = None, log: bytes = b""
    ) -> Case:
        """A case of a run that is measured and judged, whose log may hold more than the run."""
        logged = logged_steps(run)
        true_s = statistic_s(self.baseline.statistic, logged)
        expected = Expected(outcome, judged=true_s, steps=len(logged), accuracy=self.accuracy(true_s))
        case = self._case(name, done, log or as_bytes(self.events(run)), expected)
        return case if tolerance is None else replace(case, tolerance=tolerance)

    def accuracy(self, seconds: float) -> float:
        """How exactly the log can tell a time."""
        if self.baseline.log_format == "nemo":
            return _ACCURACY_OF_NEMO
        if self.baseline.log_format in {"torchtitan", "olmo-core"}:
            rate = self.run.sequence_length * self.run.global_batch_size / self.job.gpus / seconds
            return _ACCURACY + _TORCHTITAN_DIGIT_PER_S / rate
        if self.baseline.log_format == "nanotron":
            return _ACCURACY_OF_THREE_DIGITS
        if self.one_number:
            return _HUGGINGFACE_DIGIT_PER_S * seconds / self.run.global_batch_size + _HUGGINGFACE_NODES
        return _ACCURACY

    def broken(self, name: str, done: str, log: bytes | None, *facts: str) -> Case:
        """A case that is not measured because of its log; its fact is one of these."""
        return self._case(name, done, log, Expected("not measured", facts=facts))

    def failed(self, name: str, done: str, log: bytes, status: JobStatus, fact: str) -> Case:
        """A case that is not measured because of its job."""
        return replace(self._case(name, done, log, Expected("not measured", JobError, (fact,))), status=status)

    def _case(self, name: str, done: str, log: bytes | None, expected: Expected) -> Case:
        case = f"{self._name}-{name}", self.baseline, self._seed, done, log, expected, self.job.id
        return Case(*case, tolerance=self.baseline.tolerance)
