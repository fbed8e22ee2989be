"""A row as a session plans it, and the decision on one more job."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_gsw.acceptance.plan import Stage
from pytest_gsw.common.node_lists import expand
from pytest_gsw.errors import RunError, SubmissionError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results import row_text
from pytest_gsw.results.reported_status import has_failed
from pytest_gsw.stats.decision import Done, Outcome, Repeat, Undecided, is_known
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import Verdict, compare
from pytest_gsw.tables.metrics import Metric, Series
from pytest_gsw.tables.model import Baseline, parse_statistic
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
    #: Seconds that the row runs from its first start, by one job after another; ``None`` for one run.
    for_s: float | None = None


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


def plan_for(
    for_s: float, plan: RowPlan, make_plan: Callable[[Baseline], RowPlan], simulated_s: float | None
) -> RowPlan:
    """The plan of a row for a time: with steps for it, however fast they are, and judged by all of them.

    The job has the recipe's own steps, and runs again and again, if the time of a step is not known, or if the recipe
    does not take their number.

    Args:
        for_s: The row's time.
        plan: Its plan for one run.
        make_plan: Makes the plan of a row with other steps.
        simulated_s: The seconds of its job if that is simulated.
    """
    row, own, log_format = plan.baseline, plan.spec, plan.log_format
    if not isinstance(own, JobSpec):
        return plan
    recipe, criterion, step_s = row.recipe, row.criterion, row.documented.step_time_s
    is_timed = row.judged_by.series is Series.STEPS and recipe.logged_steps is None
    if log_format is None or log_format.first_index is None or not is_timed:
        fact = f"no goodput follows from {row.workload.log_format} logs: not each step has a number and a time"
        error = SubmissionError(fact, (("baseline", str(row.location)),), advice="run other rows 'for' a time")
        return replace(plan, spec=error)
    step_s = step_s if simulated_s is None or recipe.steps is None else simulated_s / recipe.steps
    steps = math.ceil((1 + criterion.max_gain) * for_s / step_s) if step_s else 0
    plan = replace(plan, for_s=for_s)
    if steps <= (recipe.steps or math.inf):
        return plan
    statistic = "mean" if parse_statistic(criterion.statistic).kind == "mean" else "median"
    longer = make_plan(
        replace(row, recipe=replace(recipe, steps=steps), criterion=replace(criterion, statistic=statistic))
    )
    spec = longer.spec
    if isinstance(spec, RunError) or (spec.environment, spec.arguments) == (own.environment, own.arguments):
        return plan
    return replace(longer, spec=replace(spec.with_left(for_s), definition=own.definition), for_s=for_s)
