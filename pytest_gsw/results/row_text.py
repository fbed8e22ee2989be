"""Texts of one row, by its record and its verdict: lines of plain ASCII."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.clusters import LOCAL
from pytest_gsw.common.text import at_line, command, duration, listed, percent, plain_table, rounded, share
from pytest_gsw.errors import RunError
from pytest_gsw.jobs.model import BOOST_NOT_SET
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import node_facts, outcomes
from pytest_gsw.results.record import AmongTiles, JobFacts, Record
from pytest_gsw.stats.decision import WORST_FIRST, Outcome, is_below
from pytest_gsw.stats.goodput import Endurance
from pytest_gsw.stats.noise import Noise, jobs_to_resolve, median_interval
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.stats.verdict import MetricVerdict, RankSpread, Reason, Verdict, is_longer_than_job
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import Metric, short
from pytest_gsw.tables.model import Accepted, Baseline

#: The form of further figures in tables.
_TABLE = "{:,.4g}"
#: The most ranks that are named: in a job of thousands, all may differ.
_RANKS_SHOWN = 4


def attempt_text(attempt: JobFacts) -> str:
    """An attempt that was not the row's last, in one line: ``481220 NODE_FAIL on pool0-0017: node failure``."""
    state = "" if attempt.state is JobState.COMPLETED else f" {attempt.state}"
    where = f" on {attempt.nodes}" if attempt.nodes else ""
    return f"{attempt.id}{state}{where}: {attempt.why_repeated}"


def repeat_text(job: JobFacts, metric: Metric) -> str:
    """A measured job of several in one line: ``481220 5.12 s on pool0-0017``."""
    where = f" on {job.nodes}" if job.nodes else ""
    took = "not measured" if job.judged is None else metric.text(job.judged)
    return f"{job.id} {took}{where}"


def compared_text(record: Record) -> str:
    """The settings that log and row agree on, in one line: ``GPUs 64, sequence length 8192``."""
    return ", ".join(f"{name} {value}" for name, value in record.run.compared.items())


def title(metric: Metric, record: Record) -> str:
    """The heading of a record's figure; an MFU of a measured peak must not be taken for a data sheet's."""
    return f"{metric.title}{of_peak(record)}" if metric is metrics.MFU else metric.title


def of_peak(record: Record) -> str:
    """The words after an MFU of a measured peak; empty for other MFUs."""
    return "" if record.figures.calibration_flops is None else " of measured peak"


def verdict_fact(
    record_documented: Mapping[str, float | None], verdict: Verdict, tokens_per_s: float | None, cluster: str = ""
) -> str:
    """The first line of a failed or passed row: metric, measured figure, reference, limit.

    Args:
        record_documented: The document's figures.
        verdict: The verdict.
        tokens_per_s: The measured throughput; ``None`` for rows that are not judged by it.
        cluster: The cluster of the accepted figure, if the verdict rests on one.
    """
    metric, is_accepted = verdict.metric, verdict.accepted is not None
    of_jobs = _of_jobs(len(verdict.jobs))
    kind, of_whom = ("accepted", f" of {cluster}") if is_accepted else ("documented", "")
    if tokens_per_s is None:
        measured, words = metric.in_words(verdict.measured, of_jobs), metric.change_words
        reference, documented = map(metric.text, (verdict.reference, verdict.documented))
    else:
        measured = f"throughput {tokens_per_s:,.0f} tokens/s{of_jobs}"
        words = ("below", "above")
        per_second = tokens_per_s * verdict.measured
        # The table's throughput if it has one; the comparison itself rests on the step time.
        documented = f"{record_documented.get(metrics.TOKENS_PER_S.key) or per_second / verdict.documented:,.0f}"
        reference = f"{per_second / verdict.reference:,.0f}" if is_accepted else documented
    compared = f"{_change_words(verdict.change, words)} the {kind} {reference}{of_whom}"
    fact = f"{measured} is {compared} ({_limit_text(verdict)}){_ranks(verdict.ranks)}"
    if is_accepted:
        fact += f", {_change_words(verdict.documented_change, words)} the documented {documented}"
    return f"{fact}{_effect_text(verdict)}{_repeat_text(verdict)}{_statistic_gap(verdict)}"


def shown_limit(limit: float, metric: Metric, *, is_gain: bool = False) -> float:
    """A limit of the loss, or of the gain, of speed as that of the change that is shown."""
    change = metric.change_by(limit if is_gain else -limit)
    return limit if abs(change) == limit else float(f"{abs(change):.3g}")


def _effect_text(verdict: Verdict) -> str:
    """The change of a row that has not passed, without the cluster's effect; empty for other rows."""
    effect, left = verdict.cluster_effect, verdict.left_change
    if effect is None or left is None or verdict.own in {Outcome.PASSED, Outcome.IMPROVED}:
        return ""
    now = percent(math.exp(-effect.effect) - 1)
    return f"; the other {effect.rows - 1} rows are at {now} in this run, and without that it is at {percent(left)}"


def _repeat_text(verdict: Verdict) -> str:
    """The reason for which a row was repeated although within its tolerance, or was not although slow; else empty."""
    if verdict.screen is None or not verdict.jobs:
        return ""
    effect, screen = verdict.cluster_effect, percent(verdict.metric.change_by(-verdict.screen))
    speed = verdict.metric.direction.speed(verdict.jobs[0], verdict.reference)
    speed *= 1.0 if effect is None else math.exp(effect.taken)
    if len(verdict.jobs) > 1:
        why = f"its first job is beyond {screen}" if is_below(speed, verdict.screen) else "its newest runs are slower"
        return "" if is_below(speed, verdict.tolerance) else f"; repeated, because {why}"
    if not is_below(speed, verdict.tolerance / 2):
        return ""
    if not is_below(speed, verdict.screen):
        return f"; not repeated within {screen}"
    return f"; not repeated: it is as slow as {'in the run before' if verdict.more else 'the other rows'}"


def metric_fact(found: MetricVerdict, jobs: int = 1) -> str:
    """The measured value of a site's metric, its reference and its tolerance, in one clause."""
    metric = found.metric
    more, unit = _change_words(found.change, ("below", "above")), f" {metric.unit}" if metric.unit else ""
    limit = limit_name(found)
    against = f"the {'limit' if limit else 'documented'} {short(found.documented)}{unit}"
    fact = f"{metric.label} {short(found.measured)}{unit}{_of_jobs(jobs)} is {more} {against}"
    if limit:
        return f"{fact} ({limit})"
    allowed = f"allowed {found.tolerance * 100:g} %, {metric.direction.value}"
    doubt = ", and no job is believed to be so much better: look at its unit"
    return f"{fact} ({allowed}{doubt if found.outcome is Outcome.INCONCLUSIVE else ''})"


def limit_name(found: MetricVerdict) -> str:
    """The meaning of a limit; empty for a documented figure."""
    if found.tolerance or found.metric.direction is metrics.Direction.EQUAL_IS_BEST:
        return ""
    return "at most" if found.metric.direction is metrics.Direction.LOWER_IS_BETTER else "at least"


def finding_text(one: SweepFinding) -> str:
    """A finding without its nodes: ``-9.8 % (-11.2 % to -8.4 %), 3 jobs``."""
    if one.kind == "intermittent":
        return f"{percent(one.change)} in job {one.job_id}, fast in {rounded(one.jobs, 'job')} since"
    together = "its nodes together" if one.switch else "each of its nodes is sound beside others"
    notes = [f"switch {one.switch}"] if one.switch else []
    notes += [together] if one.kind == "between" else []
    notes += [f"about {rounded(one.more_jobs, 'more job')} would tell"] if one.more_jobs else []
    text = f"{percent(one.change)} ({percent(one.low)} to {percent(one.high)}), {rounded(one.jobs, 'job')}"
    return f"{text}{', ' if one.switch else ': '}{': '.join(notes)}" if notes else text


def tile_texts(tile: AmongTiles) -> list[str]:
    """Texts of what the other tiles show of a tile."""
    texts = [f"{found.kind} {found.nodes}: {finding_text(found)}" for found in tile.findings]
    return [*texts, *([f"other loss: {tile.other_loss}"] if tile.other_loss else [])]


def worst_change(verdict: Verdict) -> str:
    """The change of the metric that decides a row: ``throughput -10.8 %``, ``peak memory +14.6 %``."""
    label, change, _ = _worst(verdict)
    return f"{label} {percent(change)}"


def change_first(verdict: Verdict) -> str:
    """The same for pytest's short summary, which cuts lines: ``-10.8 % throughput, allowed -5 %``."""
    label, change, tolerance = _worst(verdict)
    return f"{percent(change)} {label}, allowed {math.copysign(tolerance * 100, change) + 0.0:+g} %"


def short_fact(record: Record) -> str:
    """The fact of a record in a few words, for pytest's short summary: a finding of its nodes, or its change."""
    if record.judged is None:
        return record.fact
    return ", ".join(finding.short for finding in record.named) or change_first(record.judged)


def _worst(verdict: Verdict) -> tuple[str, float, float]:
    """The metric that decides a row, its change and its tolerance."""
    if verdict.own_outcome is None:
        return verdict.metric.change_label, verdict.change, shown_limit(verdict.tolerance, verdict.metric)
    worst = next(metric_verdict for metric_verdict in verdict.metrics if metric_verdict.outcome is verdict.outcome)
    return worst.metric.label, worst.change, worst.tolerance


def jobs_change(verdict: Verdict) -> str:
    """The change by the newest job, and by the median of all if there were several: ``-0.3 %; median of 2: -6.2 %``."""
    if len(verdict.jobs) < 2 or verdict.own_outcome is not None:
        return worst_change(verdict)
    newest = verdict.metric.change(verdict.jobs[-1], verdict.reference)
    return f"{percent(newest)}; median of {len(verdict.jobs)}: {percent(verdict.change)}"


def row_fact(own: str, verdict: Verdict) -> str:
    """The first line of a row, with ``own`` of its own metric; the worst metric comes first."""
    worst_first = sorted(verdict.metrics, key=lambda metric_verdict: WORST_FIRST.index(metric_verdict.outcome))
    facts = [metric_fact(metric_verdict, len(verdict.jobs)) for metric_verdict in worst_first]
    place = sum(WORST_FIRST.index(further.outcome) < WORST_FIRST.index(verdict.own) for further in worst_first)
    return "; ".join([*facts[:place], own, *facts[place:]])


def _of_jobs(jobs: int) -> str:
    """The words after a figure that is the median of several jobs."""
    return f", the median of {jobs} jobs," if jobs > 1 else ""


def _limit_text(verdict: Verdict) -> str:
    """The allowed change, and the limit with its reason if that is another."""
    allowed = f"allowed {shown_limit(verdict.tolerance, verdict.metric) * 100:g} %"
    if verdict.reason is Reason.TOO_GOOD and verdict.max_gain is not None:
        return f"{allowed}, and no more than {verdict.max_gain * 100:.3g} % is believed"
    return f"{allowed}{beyond_text(verdict)}"


def beyond_text(verdict: Verdict) -> str:
    """The limit with its reason, behind the allowed change; empty if that is the limit."""
    if verdict.limit is None or verdict.noise is None:
        return ""
    is_gain = verdict.own is Outcome.IMPROVED
    what = "an improvement" if is_gain else "a regression"
    limit = shown_limit(verdict.limit, verdict.metric, is_gain=is_gain)
    return f"; {what} beyond {limit * 100:.3g} %, because {noise_text(verdict.noise)}"


def _ranks(ranks: RankSpread | None) -> str:
    """The ranks of a job that differ from the others, with their times."""
    if ranks is None:
        return ""
    named = ((f"rank {label}" if label.isdigit() else label, seconds) for label, seconds in ranks.ranks[:_RANKS_SHOWN])
    shown = [f"{name} took {seconds:.4g} s" for name, seconds in named]
    more = len(ranks.ranks) - len(shown)
    listed = ", ".join(shown) + (f" and {more} more differ" if more else "")
    return f"; of its ranks, {listed}, and their median is {ranks.median_s:.4g} s"


def noise_text(noise: Noise) -> str:
    """The noise between jobs of a row, and the number of jobs that it is computed from."""
    if not noise.jobs:
        return f"its jobs are taken to differ by {noise.sigma * 100:.2g} % until enough of them are known"
    return f"its jobs differ by {noise.sigma * 100:.2g} % (standard deviation of {noise.jobs})"


def inconclusive_line(record: Record) -> str:
    """An inconclusive row's text in a session's summary; empty for others and for rows that an incident lists."""
    if record.outcome != outcomes.INCONCLUSIVE.word or record.reason == Reason.INCIDENT.value:
        return ""
    is_told = record.own_outcome or record.fact.startswith(record.reason)
    return record.fact if is_told else f"{record.reason}: {record.fact}"


def _statistic_gap(verdict: Verdict) -> str:
    """The gap between the document's statistic and the steady steps; empty if there is none."""
    gap, steady_s = verdict.statistic_gap, verdict.steady_s
    if gap is None or steady_s is None:
        return ""
    if verdict.reason is Reason.THIRD_SLOWER:
        return f"; a third of its steps took {steady_s:.4g} s or more"
    more = "more" if gap > 0 else "less"
    return f"; its {verdict.measured:.4g} s are {abs(gap) * 100:.1f} % {more} than the median of the steady steps"


def inconclusive_text(record: Record, verdict: Verdict, canaries: Sequence[str] = ()) -> str:
    """The reason for which a measured row is neither passed nor regressed.

    ``canaries`` are the canary rows that were too slow in the session, if known.
    """
    fact = f"inconclusive: {record.fact}"
    if verdict.own is not Outcome.INCONCLUSIVE:  # one of the site's metrics is, and the fact has it
        return fact
    text = INCONCLUSIVE_TEXTS.get(verdict.reason, _within_noise_text)
    return f"{fact}{text if isinstance(text, str) else text(record, verdict, canaries)}"


def _within_noise_text(record: Record, verdict: Verdict, _: Sequence[str]) -> str:
    if verdict.noise is None:
        return ""
    jobs = rounded(jobs_to_resolve(record.row.tolerance, verdict.noise), "job")
    wanted = f"{jobs} would distinguish a loss of {record.row.tolerance * 100:g} % from noise"
    return f"; jobs of this row differ by as much: {wanted} (--gsw-repeat)"


def _canary_text(record: Record, _: Verdict, canaries: Sequence[str]) -> str:
    unusual = "the cluster is not in its usual state"
    if record.row.canary:
        return f"; it is a canary: {unusual}, and rows that are too slow say nothing"
    which = f" {', '.join(canaries)}" if canaries else " row"
    return f"; the canary{which} was too slow as well: {unusual}"


def _too_good_text(record: Record, verdict: Verdict, _: Sequence[str]) -> str:
    """The text of an implausible gain: where its cause may be, and how it is accepted."""
    gain, metric = verdict.greatest_gain, verdict.metric
    fastest = f": one of its jobs {metric.did} {metric.text(verdict.best_job)}" if gain > verdict.gain else ""
    where = f"{record.row.baseline} (decimal point, unit, statistic {record.timing.statistic})"
    table = f"{verdict.reference:.6g} {metric.unit} in {where}"
    log = f"{record.run.log} " if record.run.log else "its log "
    look = f"look at the {table}, and at what {log}says of {metric.conditions}"
    accept = f"max_gain: {math.floor(gain * 100) + 1}% in the table or in clusters.yaml"
    return f"; that is too good to be true{fastest}; {look}; if it is true, {accept} accepts it"


def _steps_slower_text(record: Record, verdict: Verdict, _: Sequence[str]) -> str:
    took = f"{record.timing.statistic} {verdict.measured:.4g} s, steady steps {verdict.steady_s:.4g} s"
    return f"; a statistic is not a run ({took}): {_LOOK_AT_STEPS}"


_LOOK_AT_STEPS = "look at its steps and nodes, and run it again"
#: The text of each inconclusive reason, behind the fact.
INCONCLUSIVE_TEXTS: Mapping[Reason, str | Callable[[Record, Verdict, Sequence[str]], str]] = {
    Reason.WITHIN_NOISE: _within_noise_text,
    Reason.CANARY: _canary_text,
    Reason.INCIDENT: "; it is part of the cluster's incident",
    Reason.TOO_GOOD: _too_good_text,
    Reason.RANKS_DIFFER: "; ranks of one job wait for each other in every step, so that all take the same time: "
    "look at the nodes of these ranks, and whether its log is that of one run",
    Reason.LAST_STEP: "; its other steps are within the tolerance: another job tells (--gsw-confirm=2)",
    Reason.STEPS_SLOWER: _steps_slower_text,
    Reason.THIRD_SLOWER: f"; a statistic is not a run: {_LOOK_AT_STEPS}",
    Reason.NOT_KNOWN: ": let the recipe print the arguments of its benchmark, or the bar",
    Reason.NOT_DECIDED: "; more jobs would tell (--gsw-find)",
    Reason.OTHER_LOSS: "; tiles of one seed and shape lose alike: silent data corruption is possible",
}


def _change_words(change: float, words: tuple[str, str]) -> str:
    """``10.8 % below``."""
    return f"{abs(change) * 100:.1f} % {words[0] if change < 0 else words[1]}"


def failure_text(record: Record, verdict: Verdict, facts: Sequence[tuple[str, str]]) -> str:
    """The whole text of a judged row: the fact, a table, its files, the next commands."""
    lines = [record.fact, "", figures_table(record, verdict), ""]
    return "\n".join([*lines, *fact_lines(facts)])


class FigureCells(NamedTuple):
    """A figure in tables: measured, against the document, and against the accepted figure; empty if unknown."""

    title: str
    measured: str
    documented: tuple[str, str]
    accepted: tuple[str, str]
    #: The allowed change, and the outcome by the figure.
    allowed: str
    outcome: str


def figure_cells(record: Record, verdict: Verdict | None, *, only_measured: bool = False) -> list[FigureCells]:
    """The figures of a row that are measured or documented, and the site's metrics.

    ``only_measured`` leaves out those that are not measured, and minor ones that are not documented.
    """
    cells = []
    for metric in record.judged_metric.shown_with:
        measured, documented = record.figures.measured.get(metric.field), record.figures.documented.get(metric.field)
        if measured is None and (documented is None or only_measured):
            continue
        if only_measured and documented is None and not metric.always_shown:
            continue
        show, stated = metric.in_table, record.figures.stated(metric.field)
        allowed = "" if verdict is None else allowed_text(record, verdict, metric)
        outcome = "" if verdict is None else _own_word(verdict) if allowed else "derived"
        by_document = _against(measured, stated, show)
        by_cluster = _against(measured, record.figures.accepted.get(metric.field), show)
        shown = "" if measured is None else show(measured)
        cells.append(FigureCells(title(metric, record), shown, by_document, by_cluster, allowed, outcome))
    for one in record.metrics:
        name = f"{one.metric.label} ({one.metric.unit})" if one.metric.unit else one.metric.label
        stated_text = f"{limit_name(one)} {short(one.documented, _TABLE)}".lstrip()
        by_document, allowed = (stated_text, percent(one.change)), percent(one.allowed_change)
        cells.append(FigureCells(name, short(one.measured, _TABLE), by_document, ("", ""), allowed, one.outcome.value))
    return cells


def _own_word(verdict: Verdict) -> str:
    """The outcome by the row's own metric; a slow tile may be within what its row allows."""
    return verdict.reason.value if verdict.reason is Reason.SLOW_NODE else verdict.own.value


def _against(measured: float | None, reference: float | None, show: Callable[[float], str]) -> tuple[str, str]:
    """A reference and the change against it."""
    if not reference:
        return "", ""
    return show(reference), "" if measured is None else percent(measured / reference - 1)


def figures_table(record: Record, verdict: Verdict) -> str:
    """Measured against documented figures, one line each; between them accepted ones if the verdict rests on one."""
    lines = figure_cells(record, verdict, only_measured=True)
    if verdict.accepted is None:
        columns = ["metric", ">measured", ">documented", ">change", ">allowed", ""]
        return plain_table(((x.title, x.measured, *x.documented, x.allowed, x.outcome) for x in lines), *columns)
    columns = ["metric", ">measured", ">accepted", ">change", ">allowed", "", ">documented", ">change"]
    rows = ((x.title, x.measured, *x.accepted, x.allowed, x.outcome, *x.documented) for x in lines)
    return plain_table(rows, *columns)


def allowed_text(record: Record, verdict: Verdict, metric: Metric) -> str:
    """The allowed change of a figure; empty if the verdict does not rest on it."""
    judged = record.judged_metric
    if metric is metrics.TOKENS_PER_S and judged is metrics.STEP_TIME:
        return percent(verdict.allowed_gain)
    if metric.key != judged.key:
        return ""
    return percent(metric.direction.change_by(verdict.allowed_gain)) if verdict.allowed_gain > -1 else "any"


def fact_lines(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Facts as ``name   value`` lines."""
    return [f"{name:<10} {value}" for name, value in facts]


def run_facts(record: Record) -> list[tuple[str, str]]:
    """The files and facts of a run."""
    run, flops = record.run, record.figures.calibration_flops
    searched = (repeat_text(job, record.judged_metric) for job in record.jobs.search)
    facts = [
        ("baseline", f"{record.row.baseline}  ({at_line(record.row.document, record.row.document_line)})"),
        ("source", record.row.source),
        ("accepted", (record.accepted_note or "").removeprefix("accepted ")),
        *((f"attempt {n}", attempt_text(attempt)) for n, attempt in enumerate(record.jobs.attempts, 1)),
        *_repeats_facts(record),
        *((f"search {n}", text) for n, text in enumerate(searched, 1)),
        ("job", _last_job_text(record)),
        *([] if record.facts is None else node_facts.why_lines(record.facts)),
        ("remarks", record.remarks or ""),
        ("newer jobs", record.passed_over or ""),
        ("steps", _steps_text(record) if record.timing.steps else ""),
        ("endurance", endurance_text(record.endurance) if record.endurance is not None else ""),
        ("doubt", doubt_text(record)),
        ("peak", _peak_text(flops) if flops is not None and flops > 0 else ""),  # a record may hold any number
        ("MFU", record.figures.mfu_note if record.figures.measured else ""),
        ("log", run.log or ""),
        ("vboost", _boost_text(Path(run.log)) if run.log and BOOST_NOT_SET in run.environment.values() else ""),
        ("note", "this is a simulation: no GPU was used, the figures are made up" if run.simulated else ""),
    ]
    return [(name, text) for name, text in facts if text]


def _last_job_text(record: Record) -> str:
    job = record.jobs.last
    if job is None:
        return ""
    code = "" if job.exit_code is None else f" {job.exit_code}:{job.signal}"
    took = "" if job.run_s is None else f" in {duration(job.run_s)}"
    return f"{job.launcher} {job.id} {job.state}{code}{took}{f' on {job.nodes}' if job.nodes else ''}"


def _boost_text(log: Path) -> str:
    from pytest_gsw.validation.run import boost_error  # few rows need the file next to their log

    return f"{BOOST_NOT_SET}: {boost_error(log)}"


def _peak_text(flops: float) -> str:
    """A measured peak with an SI prefix: ``95.1 GFLOP/s``."""
    power = max(0, min(5, int(math.log10(flops) // 3)))
    reached = f"{flops / 1000**power:.3g} {' kMGTP'[power].strip()}FLOP/s"
    return f"{reached}, measured in the same job by a matrix product; the MFU is of that"


def _steps_text(record: Record) -> str:
    """The number of steps, and the spread of the steady ones."""
    known = {"median": record.timing.median_s, "mean": record.timing.mean_s, "p90": record.timing.p90_s}
    spread = ", ".join(f"{name} {value:.4g} s" for name, value in known.items() if value is not None)
    used = f"{record.timing.steps} read, {record.timing.statistic} used"
    if not spread:
        return used
    if metrics.CALIBRATION in record.judged_metric.needs:
        spread = f"calibrated {spread}"
    warm_up = f" after {record.timing.warm_up_steps} of warm-up" if record.timing.warm_up_steps else ""
    spikes = f", {share(record.timing.spike_fraction)} spikes" if record.timing.spike_fraction else ""
    return f"{used}; {spread}{spikes}{warm_up}"


def doubt_text(record: Record) -> str:
    """The contradiction of log and scheduler on the (last) job's time; empty if there is none.

    Simulated jobs take no time of their own, and a job on this machine may be a script that prints a log.
    """
    job, series_s = record.jobs.last, record.timing.series_s
    is_other_time = record.run.simulated or metrics.CALIBRATION in record.judged_metric.needs
    if is_other_time or job is None or job.launcher == LOCAL.scheduler:
        return ""
    if job.run_s is None or not is_longer_than_job(series_s, job.run_s):
        return ""
    both = f"the log's steps took {duration(sum(series_s))}, and the job ran for {duration(job.run_s)}"
    return f"{both}: not all of them are this job's, or the clock in the log is wrong"


def endurance_text(endured: Endurance) -> str:
    """The use of a row's time in one line."""
    causes = f" ({listed(endured.causes)})" if endured.causes else ""
    mtbf = "" if endured.mtbf_s is None else f"{duration(endured.mtbf_s)}, "
    to = " or more" if endured.mtbf_high_s is None else f" to {duration(endured.mtbf_high_s)}"
    drift = "" if endured.drift is None else f"; steps of the last hour take {percent(endured.drift)}"
    goodput = f"goodput {share(endured.goodput)} of {duration(endured.wall_s)}, {duration(endured.lost_s)} lost"
    mtbf = f"time between failures {mtbf}{duration(endured.mtbf_low_s)}{to}"
    return f"{goodput}; {rounded(endured.restarts, 'restart')}{causes}, {mtbf}{drift}"


def _repeats_facts(record: Record) -> list[tuple[str, str]]:
    """The jobs that the figure is the median of, and its interval of confidence."""
    if not record.jobs.repeats:
        return []
    jobs = record.measured_jobs
    metric = record.judged_metric
    listed = [(f"job {n}", repeat_text(job, metric)) for n, job in enumerate(jobs or record.jobs.repeats, 1)]
    figures = [job.judged for job in jobs if job.judged is not None]
    if min(figures, default=0.0) <= 0:  # without the last one's there is no figure; a damaged record may have any
        return listed
    low, high, confidence = median_interval(figures)
    sure = f"; {metric.span(low, high)} with {confidence * 100:.3g} % confidence"
    # The span of two jobs has the median in it no more often than not.
    median = f"{metric.text(statistics.median(figures))}{sure if len(figures) > 2 else ''}"
    return [*listed, ("median", median)]


def error_text(error: RunError, facts: Sequence[tuple[str, str]]) -> str:
    """The whole text of a row that could not be measured; it ends with advice and commands."""
    said = {name for name, _ in error.evidence}
    rest = [(name, value) for name, value in facts if name not in said and name not in {"steps", "again", "offline"}]
    tail = [("last" if number == 0 else "", line) for number, line in enumerate(error.tail)]
    advice = [("next", error.advice)] if error.advice else []
    commands = [(name, value) for name, value in facts if name in {"again", "offline"}]
    return "\n".join([error.fact, "", *fact_lines([*error.evidence, *tail, *rest, *advice, *commands])])


def accepted_text(accepted: Accepted, metric: Metric) -> str:
    """A cluster's accepted figure and the jobs that it is made of, in one line."""
    made_of = f"median of {rounded(accepted.jobs, 'job')}, spread {accepted.spread * 100:.2g} %"
    figure = f"{metric.text(accepted.judged)}, {made_of} ({accepted.job_ids})"
    return f"accepted on {accepted.cluster} {accepted.date}: {figure}"


def unused_text(row: Baseline, accepted: Accepted, definition: str, image: str | None) -> str:
    """The reason for which a row's accepted figure does not count for a run of this definition and image."""
    metric = row.judged_by
    if accepted.definition == definition and accepted.documented is not None and row.judged is not None:
        was, now = metric.text(accepted.documented), metric.text(row.judged)
        propose = ("pytest-gsw", "baseline", "propose", f"--row={row.row_id}", f"--cluster={accepted.cluster}", "RUN")
        ended = f"{_figure(accepted, metric)} has ended: the document had {was} then, and has {now} now"
        return f"{ended}, which is used; to accept what runs since then show: {command(*propose)}"
    if accepted.image != image:
        other = f"with {_image(accepted.image)}, this run used {_image(image)}"
    else:
        other = f"under another definition ({accepted.definition}, now {definition})"
    return f"{_figure(accepted, metric)} was measured {other}: the documented one is used"


def outdated_text(accepted: Accepted, then: str, now: str, metric: Metric) -> str:
    """The reason for which an accepted figure does not count: the row was another one when the run began."""
    other = f"this run was recorded under another definition ({then or 'none'}, now {now})"
    return f"{_figure(accepted, metric)} does not count: {other}, and the documented one is used"


def accepted_line(record: Record) -> str:
    """The text of an accepted figure in a session's summary: it hides a loss, or does not count; else empty."""
    if not record.figures.accepted.get(record.judged_metric.field):
        return record.accepted_note or ""
    verdict = record.judged
    if verdict is None or not hides_loss(record):
        return ""
    words = _change_words(verdict.documented_change, Metric.change_words)
    loss = f"{words} the documented {verdict.metric.change_label}"
    return f"passed by what {record.run.cluster} has accepted; it is {loss}, and would have failed by it"


def hides_loss(record: Record) -> bool:
    """True if a row has passed by an accepted figure alone: by the documented one it would have failed."""
    figures, judged = record.figures, record.judged_metric.field
    if not all(of.get(judged) for of in (figures.accepted, figures.measured, figures.documented)):
        return False
    verdict = record.judged if outcomes.of(record.outcome).pytest == "passed" else None
    return verdict is not None and verdict.documented_outcome is Outcome.REGRESSED


def ignored_text(accepted: Accepted, metric: Metric) -> str:
    """The reason for which an accepted figure does not count: the session's own rule ignored it."""
    return f"{_figure(accepted, metric)} was left aside by this session's pytest_gsw_judge: the documented one is used"


def _figure(accepted: Accepted, metric: Metric) -> str:
    return f"the accepted figure of {accepted.cluster} ({metric.text(accepted.judged)}, {accepted.date})"


def _image(image: str | None) -> str:
    return "an image that is not known" if image is None else f"the image {image}"
