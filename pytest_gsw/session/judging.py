"""Whether a measured row is as fast as it is to be, and whether one more of its jobs is to tell."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.fleet.rows import Later, RepeatRequest
from pytest_gsw.hooks.faults import wrong_answer
from pytest_gsw.performance.decision import is_known
from pytest_gsw.performance.measurement import Measurement
from pytest_gsw.performance.together import Night
from pytest_gsw.performance.verdict import (
    UNUSUAL,
    MetricVerdict,
    Outcome,
    Reason,
    Verdict,
    judge_metric,
    with_metrics,
)
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.nodes import compressed, expand
from pytest_gsw.results.recording import Found
from pytest_gsw.results.row_line import has_failed
from pytest_gsw.results.row_text import accepted_text, ignored_text, outdated_text, unused_text
from pytest_gsw.runs.checks import check_job
from pytest_gsw.runs.run import Run
from pytest_gsw.session.measuring import Measuring
from pytest_gsw.session.metrics import site_metrics
from pytest_gsw.session.sources import RowSource
from pytest_gsw.session.stash import CANARIES, NIGHTS, OTHERS
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import Accepted


class Judging:
    """The outcome of one row."""

    def __init__(self, config: pytest.Config, source: RowSource, jobs: Measuring) -> None:
        settings, baseline = source.settings, source.baseline
        #: The row's own, unless the cluster or the command line says otherwise.
        self.tolerance = settings.tolerance or baseline.tolerance
        self._max_gain = settings.max_gain or baseline.max_gain
        self._config = config
        self._baseline = baseline
        self._source = source
        self._jobs = jobs
        #: Ids of the canary rows that were too slow so far.
        self._canaries = config.stash[CANARIES]
        self._others = config.stash[OTHERS]

    def judge(self, run: Run, measurement: Measurement) -> Found:
        """Judge what was measured of a row's last job, or of all its jobs together.

        Raises:
            HookError: The rule of a plugin returned no sound verdict.
        """
        baseline, source = self._baseline, self._source
        accepted, unused = source.accepted(run)
        verdict = self._with_canaries(self._ask(run, measurement, accepted, self._night()))
        not_comparable = source.not_comparable(run)
        tokens_per_s = measurement.figures.tokens_per_s if baseline.judged_by is STEP_TIME else None
        documented = dict(vars(baseline.documented))
        own = row_text.verdict_fact(documented, verdict, tokens_per_s, source.cluster or "", baseline.metric)
        slow_nodes = self._slow_nodes(run, verdict)
        fact = "; ".join(filter(None, (row_text.row_fact(own, verdict), slow_nodes)))
        is_usual = not_comparable is None and verdict.reason.value not in UNUSUAL
        first, beside = run.jobs[0], self._others.beside(verdict.night)
        return Found(
            outcomes.PROFILED.word if not_comparable else verdict.outcome.value,
            quoted(fact, os.environ),  # a log may call its ranks anything
            not_comparable,
            self._accepted_note(accepted, unused, verdict, run),
            source.drift(run, self._judged_s(first), accepted, beside) if is_usual else None,
            quoted(slow_nodes, os.environ),
            measurement=measurement,
            verdict=dataclasses.replace(verdict, given_reason=verdict.reason),
        )

    def once_more(self, run: Run) -> RepeatRequest | Later | None:
        """Why one more job of the row is wanted after this one, which ended well; ``None`` where it is not.

        Raises:
            RunError: The job cannot be measured.
        """
        run = self._jobs.with_evidence(run)
        repeats, jobs = self._source.settings.repeats, len(run.jobs)
        is_last = jobs >= repeats.most and not self._others.may_speak
        if is_last or self._baseline.expected_failure or self._source.not_comparable(run) is not None:
            return None
        check_job(run, self._baseline.recipe.may_fail)
        measurement = self._jobs.measure(run, self._source).measurement
        assert measurement is not None  # rows that are to fail are not measured, and have ended above
        self._tell_others(run)
        if jobs < repeats.first:
            return RepeatRequest(f"{measurement.judged_s:.4g} s, to be repeated ({jobs} of {repeats.first})")
        if self._canaries:
            return None  # whatever further jobs would say, the night is inconclusive
        accepted = self._source.accepted(run)[0]
        verdicts = [self._ask(run, measurement, accepted, night) for night in self._possible_nights()]
        if len({(one.outcome, one.reason, one.more) for one in verdicts}) != 1:
            return Later()  # the others decide what it is
        verdict = verdicts[0]
        if jobs >= repeats.most:
            return None
        fails = has_failed(verdict.outcome.value, verdict.reason.value, strict=self._source.settings.strict)
        is_too_fast = fails and verdict.outcome is Outcome.IMPROVED
        if not (fails if verdict.more is None or is_too_fast else verdict.more > 0):
            return None
        failed_before_s = self._source.past(run, accepted).failed_before_s
        if all(_is_known(one, failed_before_s) for one in verdicts):
            return None
        confirmed = f"to be confirmed ({jobs - repeats.first + 1} of {repeats.confirm})"
        own = _nodes_of(run)
        there = {node for nodes in own for node in expand(nodes)}
        slow = (node for node in self._config.stash[NIGHTS].slow_nodes if node not in there)
        return RepeatRequest(f"{row_text.worst_change(verdict)}, {confirmed}", (*own, *slow))

    def _tell_others(self, run: Run) -> None:
        """Tell the other rows what the first job took; of a row that has changed since, other nights are known."""
        first = run.jobs[0]
        first_s = self._judged_s(first) if self._source.experiment(run) else None
        had_slow_node = self._config.stash[NIGHTS].had_slow_node(first.status.nodes, first.status.end_s or time.time())
        self._others.note(self._baseline.id, first_s, had_slow_node=had_slow_node)

    def _possible_nights(self) -> tuple[Night | None, ...]:
        """What the other rows may come to say of the night; of a canary, which tells it to them, they say nothing."""
        return (None,) if self._baseline.canary else self._others.bounds(self._baseline.id, self.tolerance)

    def _night(self) -> Night | None:
        if self._baseline.canary:
            return None
        return self._source.night or self._others.now(self._baseline.id, self.tolerance)

    def _judged_s(self, run: Run) -> float | None:
        measurement = self._jobs.of_job(run.job_id, run.status)
        return None if measurement is None else measurement.judged_s

    def _with_canaries(self, verdict: Verdict) -> Verdict:
        """A loss says nothing of a row where a canary row has shown that the cluster is not in its usual state."""
        if self._baseline.canary and verdict.own is Outcome.REGRESSED:
            self._canaries.append(self._baseline.id)
        if verdict.outcome is not Outcome.REGRESSED or not (self._canaries or self._source.was_excused):
            return verdict
        return dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE, own_outcome=None, given_reason=Reason.CANARY)

    def _slow_nodes(self, run: Run, verdict: Verdict) -> str | None:
        """That a slow node explains a regression, and that its confirming jobs were to do without those that are."""
        slow = self._config.stash[NIGHTS].slow if verdict.own is Outcome.REGRESSED else ()
        if not slow:
            return self._source.slow_nodes if verdict.own is Outcome.REGRESSED else None
        # Only a session that knows of one needs the words.
        from pytest_gsw.history.texts import explaining, suspect_text

        jobs = [(job.status.nodes, job.status.end_s or time.time()) for job in run.jobs]
        found = explaining(slow, verdict, jobs)
        said = [] if found is None else [f"explained by {suspect_text(found)}"]
        avoided = self._config.stash[NIGHTS].slow_nodes
        if avoided and len(jobs) > self._source.settings.repeats.first:
            said.append(f"confirming jobs were to avoid {compressed(avoided)}")
        return "; ".join(said) or None

    def _accepted_note(
        self, accepted: Accepted | None, unused: Accepted | None, verdict: Verdict, run: Run
    ) -> str | None:
        """What is to be said of the cluster's own figure, where it has one."""
        if unused is not None:
            then, now = self._source.definition(run), self._source.definition_now(run)
            if then != now:
                return outdated_text(unused, then, now)
            return unused_text(unused, now, quoted(self._source.image(run)[0], os.environ))
        if accepted is None:
            return None
        return ignored_text(accepted) if verdict.accepted_s is None else accepted_text(accepted)

    def _ask(self, run: Run, measurement: Measurement, accepted: Accepted | None, night: Night | None) -> Verdict:
        """The verdict of the session's rule, and of the site's metrics that the row documents."""
        hook = self._config.hook.pytest_gsw_judge
        verdict = hook(
            config=self._config,
            baseline=self._baseline,
            measurement=measurement,
            tolerance=self.tolerance,
            accepted=accepted,
            noise=self._source.noise(run, accepted, self.tolerance),
            repeats=self._source.repeats,
            max_gain=self._max_gain,
            night=night,
        )
        if not isinstance(verdict, Verdict):
            raise wrong_answer(hook, f"{verdict!r}, which is no Verdict")
        problem = _accepted_problem(verdict, accepted)
        if problem is not None:
            advice = "give judge() the figure that the hook was handed, or leave accepted_s out"
            raise wrong_answer(hook, problem, advice)
        return with_metrics(verdict, self._by_site_metrics(measurement))

    def _by_site_metrics(self, measurement: Measurement) -> list[MetricVerdict]:
        known, repeats = site_metrics(self._config), self._source.repeats
        return [
            judge_metric(
                known[key],
                measurement.metrics[key],
                stated.value,
                stated.tolerance or self.tolerance,
                repeats,
                self._max_gain,
            )
            for key, stated in self._baseline.metrics.items()
        ]


def _is_known(verdict: Verdict, failed_before_s: Sequence[float]) -> bool:
    """Whether the row has failed with the same loss on the night before, and nothing else of it is to be confirmed."""
    if verdict.own is not Outcome.REGRESSED or verdict.noise is None or any(one.more for one in verdict.metrics):
        return False
    times_s = verdict.jobs_s or (verdict.measured_s,)
    return is_known(times_s, verdict.reference_s, verdict.tolerance, verdict.noise, failed_before_s)


def _accepted_problem(verdict: Verdict, accepted: Accepted | None) -> str | None:
    """What is wrong with a verdict that rests neither on the document nor on what the cluster has accepted."""
    wanted = None if accepted is None else accepted.judged_s
    if verdict.accepted_s is None or verdict.accepted_s == wanted:
        return None
    return f"a Verdict with accepted_s={verdict.accepted_s!r}, wanted None{'' if wanted is None else f' or {wanted:g}'}"


def _nodes_of(run: Run) -> tuple[str, ...]:
    """The nodes of a row's jobs so far, as Slurm names them."""
    return tuple(dict.fromkeys(job.status.nodes for job in run.jobs if job.status.nodes))
