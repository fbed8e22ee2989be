"""A row as a session plans it, and the decision on one more job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_gsw.acceptance.plan import Stage
from pytest_gsw.common.node_lists import expand
from pytest_gsw.errors import RunError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results import row_text
from pytest_gsw.results.reported_status import has_failed
from pytest_gsw.stats.decision import Done, Outcome, Repeat, Undecided, is_known
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import Verdict, compare
from pytest_gsw.tables.metrics import Metric
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.run import Run


def _is_same_loss(verdict: Verdict, previous_failed: Sequence[float]) -> bool:
    """True if the row failed with the same loss in the previous run, and no other metric needs confirmation."""
    if verdict.own is not Outcome.REGRESSED or verdict.noise is None or any(metric.more for metric in verdict.metrics):
        return False
    facts = verdict.jobs or (verdict.measured,), verdict.reference, verdict.tolerance, verdict.noise
    return is_known(*facts, previous_failed, verdict.metric.direction)


@dataclass(frozen=True)
class RowPlan:
    """A row as the session runs it: the results of hooks, called once, before anything is submitted."""

    baseline: Baseline
    node_id: str
    #: The spec of its job, or the error that prevents it.
    spec: JobSpec | RunError
    #: The format of its logs, and the peak of its accelerator; ``None`` if no plugin provides it.
    log_format: LogFormat | None = None
    peak_flops: float | None = None
    #: The site's metrics, by key.
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    #: The stage of an acceptance; ``None`` without one.
    stage: Stage | None = None

    @property
    def for_s(self) -> float | None:
        """Seconds that the row runs from its first start, by one job after another; ``None`` for one run."""
        return None if self.stage is None else self.stage.for_s


@dataclass(frozen=True)
class Context:
    """Facts besides a row's own jobs that decide on one more job."""

    repeats: Repeats
    #: True with ``strict``: a row that is too fast fails as well.
    strict: bool = False
    #: The figures of its jobs in the previous run, if it failed there.
    previous_failed: Sequence[float] = ()
    #: The nodes that are known to make jobs slow.
    slow_nodes: Sequence[str] = ()


def decide(run: Run, verdicts: Sequence[Verdict], context: Context) -> Repeat | Undecided | Done:
    """Decide if a row that has had its first jobs needs one more.

    Args:
        run: Its jobs so far.
        verdicts: Its verdicts for each effect of the cluster that is still possible.
        context: All other facts of the decision.
    """
    jobs, repeats = len(run.jobs), context.repeats
    if len({(verdict.outcome, verdict.reason, verdict.more) for verdict in verdicts}) != 1:
        return Undecided()
    verdict = verdicts[0]
    if jobs >= repeats.most:
        return Done()
    fails = has_failed(verdict.outcome.value, verdict.reason.value, strict=context.strict)
    is_too_fast = fails and verdict.outcome is Outcome.IMPROVED
    if not (fails if verdict.more is None or is_too_fast else verdict.more > 0):
        return Done()
    if all(_is_same_loss(verdict, context.previous_failed) for verdict in verdicts):
        return Done()
    confirmed = f"to be confirmed ({jobs - repeats.first + 1} of {repeats.confirm})"
    own = tuple(dict.fromkeys(job.status.nodes for job in _odd_jobs(run, verdict) if job.status.nodes))
    there = {node for nodes in own for node in expand(nodes)}
    slow = (node for node in context.slow_nodes if node not in there)
    return Repeat(f"{row_text.jobs_change(verdict)}, {confirmed}", (*own, *slow))


def _odd_jobs(run: Run, verdict: Verdict) -> Sequence[Run]:
    """The jobs that are beyond the tolerance by themselves, whose nodes may be why; all of them if none is."""
    figures, direction = verdict.jobs if verdict.own_outcome is None else (), verdict.metric.direction
    odd = [
        job
        for job, figure in zip(run.jobs, figures, strict=False)
        if compare(figure, verdict.reference, verdict.tolerance, direction) is not Outcome.PASSED
    ]
    return odd or run.jobs
