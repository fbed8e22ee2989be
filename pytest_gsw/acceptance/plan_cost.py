"""The cost of a plan before it runs: the jobs, GPU-hours and hours of each stage."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pytest_gsw.acceptance.plan import Plan, Stage
from pytest_gsw.clusters import Cluster
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import duration, hours_text, plain_table, plural
from pytest_gsw.jobs.spec import START_UP_S, expected_run_s, start_up_s
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import Record
from pytest_gsw.stats.tile_search import most_search_jobs
from pytest_gsw.tables.model import Baseline, experiment_hash


class RunTimes(NamedTuple):
    """Expected run times of a job of each row."""

    #: Seconds by row, without its tile; rows with an unknown time are missing.
    seconds: Mapping[str, float]
    #: Number of rows whose time is that of their own jobs before.
    measured: int
    #: Where the times of the others come from.
    source: str


class StageCost(NamedTuple):
    """The cost of a stage, without further jobs of slow rows."""

    jobs: int
    #: Most nodes in use at once.
    nodes: int
    #: Number of rows with an unknown run time, which count as nothing.
    unknown: int
    gpu_hours: float
    hours: float
    #: The most that a search among its tiles takes besides.
    search_jobs: int
    search_gpu_hours: float


def run_times(rows: Iterable[Baseline], records: Iterable[Record], simulated_s: float | None = None) -> RunTimes:
    """Expected run times, by the rows' own jobs in records of the cluster, else by their documents.

    The start-up that these jobs took besides their documented steps is that of rows without a job. Without any job it
    is the allowance of :mod:`~pytest_gsw.jobs.spec`.

    Args:
        rows: The rows, with or without a tile.
        records: Of the rows' newest runs on the cluster.
        simulated_s: Run time of a simulated job; ``None`` if rows really run.
    """
    done = [(one.row.experiment, job) for one in records for job in one.jobs.all if job.state is JobState.COMPLETED]
    jobs_s = grouped((experiment, job.run_s) for experiment, job in done if job.run_s is not None)
    by_id = {row.row_id: row for row in rows}
    own_s = {row_id: jobs_s.get(experiment_hash(row)) for row_id, row in by_id.items()}
    measured = {row_id: statistics.median(seconds) for row_id, seconds in own_s.items() if seconds}
    steps_s = {row_id: run_s - start_up_s(row) for row_id, row in by_id.items() if (run_s := expected_run_s(row))}
    ratios = [(measured[one] - steps_s[one]) / start_up_s(by_id[one]) for one in measured.keys() & steps_s.keys()]
    ratio = max(0.0, statistics.median(ratios or [1.0]))  # of the start-up to what is allowed for it
    others = {row_id: seconds + ratio * start_up_s(by_id[row_id]) for row_id, seconds in steps_s.items()}
    source = f"documented steps and {duration(ratio * START_UP_S)} for each start"
    if simulated_s is not None:
        others, source = dict.fromkeys(by_id, simulated_s), "the simulation"
    return RunTimes({**others, **measured}, len(measured), source)


def stage_cost(
    stage: Stage, rows: Iterable[tuple[Baseline, int]], nodes: int, times: RunTimes, cluster: Cluster, repeats: int = 1
) -> StageCost:
    """The cost of a stage on a number of nodes.

    Args:
        stage: The stage.
        rows: Its rows, each once, with its number of tiles, or 1.
        nodes: Number of the nodes that are there for it.
        times: Run times of the rows.
        cluster: Where they run.
        repeats: Jobs of a row, or of each tile, one after another.
    """
    known = [(row, count, (stage.for_s or times.seconds.get(row.row_id, 0.0)) * repeats) for row, count in rows]
    sizes = [math.ceil(row.gpus / (cluster.gpus_per_node or row.gpus_per_node)) for row, *_ in known]
    jobs = [(job_s, size, count) for (_, count, job_s), size in zip(known, sizes, strict=True)]
    wall_s, most = _side_by_side(jobs, nodes)
    searches = [(most_search_jobs(count), row.gpus * job_s / repeats) for row, count, job_s in known if stage.find]
    return StageCost(
        jobs=sum(count for _, count, _ in known) * repeats,
        nodes=most,
        unknown=sum(not job_s for *_, job_s in known),
        gpu_hours=sum(row.gpus * count * job_s for row, count, job_s in known) / 3600,
        hours=wall_s / 3600,
        search_jobs=sum(jobs for jobs, _ in searches),
        search_gpu_hours=sum(jobs * gpu_s for jobs, gpu_s in searches) / 3600,
    )


def _side_by_side(jobs: Iterable[tuple[float, int, int]], nodes: int) -> tuple[float, int]:
    """Seconds of jobs that run side by side as far as nodes suffice, the largest first; the most nodes in use.

    ``jobs`` are seconds, nodes and number of equal jobs.
    """
    waiting = sorted(jobs, key=lambda one: one[0] * one[1], reverse=True)
    running: list[tuple[float, int]] = []
    now_s, free, most = 0.0, nodes, 0
    while waiting or running:
        left = []
        for job_s, size, count in waiting:
            begun = max(min(count, free // size), 0 if running else 1)  # one that is too large runs alone
            if begun:
                heapq.heappush(running, (now_s + job_s, begun * size))
                free -= begun * size
            if begun < count:
                left.append((job_s, size, count - begun))
        waiting, most = left, max(most, nodes - free)
        now_s, ended = heapq.heappop(running)
        free += ended
    return now_s, most


def plan_lines(plan: Plan, costs: Mapping[str, StageCost], times: RunTimes) -> list[str]:
    """The stages of a plan as a table, each with its cost, the sums, and where they come from."""
    each = costs.values()
    gpu_hours, hours = sum(c.gpu_hours for c in each), sum(c.hours for c in each)
    cells = [(name, c.jobs, c.nodes, hours_text(c.gpu_hours), duration(c.hours * 3600)) for name, c in costs.items()]
    jobs, most = sum(c.jobs for c in each), max((c.nodes for c in each), default=0)
    total = ("all", jobs, most, hours_text(gpu_hours), duration(hours * 3600))
    lines = [f"{plan.name}: {plural(len(costs), 'stage')}, {plural(len(plan.nodes), 'node')}"]
    lines += plain_table([*cells, total], "stage", ">jobs", ">nodes", ">GPU-hours", ">time").splitlines()
    if unknown := sum(c.unknown for c in each):
        lines.append(f"without {plural(unknown, 'row')} whose run time is not known")
    if search_jobs := sum(c.search_jobs for c in each):
        searched = f"{plural(search_jobs, 'more job')}, {hours_text(sum(c.search_gpu_hours for c in each))} GPU-hours"
        lines.append(f"the searches take at most {searched}")
    others = len(times.seconds) - times.measured
    sources = {"earlier jobs here": times.measured, times.source: others}
    known = [f"{plural(rows, 'row')} by {source}" for source, rows in sources.items() if rows]
    return [*lines, f"run times: {', '.join(known) or 'not known'}"]
