"""``pytest-gsw nodes``: the nodes that make jobs slow or fail them, since when, and the jobs that show it."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_gsw.cli.output import Answer, quoted_answer, write_answer
from pytest_gsw.cli.run_arguments import clusters_of, opened
from pytest_gsw.common import typed_json
from pytest_gsw.common.node_lists import expand
from pytest_gsw.common.text import command, minute, percent, plain_table, plural, share
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history import cluster_series, comparison, store
from pytest_gsw.history.model import Point, cluster_of, record_time_s
from pytest_gsw.history.node_search import FAILURES_DAYS, FailingNode, Nodes, SlowNode
from pytest_gsw.results import node_facts, outcomes
from pytest_gsw.stats.slow_nodes import LOSS, NEWEST_RUNS

#: Newest runs of a cluster whose records are read for facts.
_FACTS_RUNS = 30


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    with opened(args) as history:
        clusters = clusters_of(history, args)
        if args.facts:
            return _facts_answer(args, {cluster: _drifts(history, cluster, args.since) for cluster in clusters})
        found = {cluster: cluster_series.series_of_cluster(history, cluster, args.since).nodes for cluster in clusters}
    if args.nodes:
        return _named_answer(args, found)
    slow = [one for nodes in found.values() for one in nodes.slow if not one.recovered]
    avoided = [one for one in slow if not one.below]
    failing = [one for nodes in found.values() for one in nodes.failing]
    if args.exclude_file is not None:
        if len(found) > 1:
            raise ConfigurationError(f"--exclude-file is of one cluster; add --cluster=NAME: {', '.join(found)}")
        write_answer(args.exclude_file, exclude_list([*avoided, *failing]))
    known = all(nodes.all_known for nodes in found.values())
    state = "slow" if slow or failing else "cleared" if known else "without enough data"
    facts = [_facts(*one) for one in found.items()]
    lines = [*_lines(found, known, len(slow)), *_next_lines(found, args.exclude_file)]
    return quoted_answer(args, facts, "\n".join(lines), STATUSES[state])


def _named_answer(args: argparse.Namespace, found: Mapping[str, Nodes]) -> Answer:
    """The state of some nodes: a line for each, and the exit status as of all."""
    named = dict.fromkeys(node for text in args.nodes for node in expand(text))
    facts = [{"cluster": name, "node": node, **_state_of(node, of)} for node in named for name, of in found.items()]
    statuses = [STATUSES[one["state"]] for one in facts]
    texts = ((f"{one['node']} on {one['cluster']}", one["state"], one["why"]) for one in facts)
    lines = (": ".join(filter(None, text)) for text in texts)
    return quoted_answer(args, facts, "\n".join(lines), outcomes.exit_status(statuses))


#: The exit status of a node, and of all, by its state.
STATUSES = {
    "slow": outcomes.FAILED,
    "fails jobs": outcomes.FAILED,
    "cleared": outcomes.GREEN,
    "without enough data": outcomes.OPEN,
    "no job had it": outcomes.OPEN,
}


def _state_of(node: str, nodes: Nodes) -> dict[str, str]:
    """A node's state in a word, and what shows it."""
    slow = [one for one in nodes.slow if node in one.nodes or node in expand(one.below)]
    texts = [comparison.slow_since_text(one) + (", fast again" if one.recovered else "") for one in slow]
    failing = [comparison.failing_text(one) for one in nodes.failing if node in one.nodes]
    if failing or any(not one.recovered for one in slow):
        return {"state": "fails jobs" if failing else "slow", "why": "; ".join([*texts, *failing])}
    if node in nodes.sound.cleared:
        no_loss = f"no loss of {comparison.least_loss_text()} or more in the newest runs"
        return {"state": "cleared", "why": "; ".join([no_loss, *texts])}
    return {"state": "without enough data" if node in nodes.sound.undecided else "no job had it", "why": ""}


def _drifts(history: store.History, cluster: str, since_s: float) -> tuple[node_facts.Drift, ...]:
    """The versions of a cluster's nodes by its newest runs."""
    ended_s: dict[str, float] = {}
    for points in history.cluster_points(cluster, since_s=since_s).values():
        for point in points:
            ended_s[point.run_id] = max(point.time_s, ended_s.get(point.run_id, 0.0))
    runs = sorted(ended_s, key=lambda run_id: ended_s[run_id])[-_FACTS_RUNS:]
    records = (record for run_id in runs for record in sorted(history.records(run_id), key=record_time_s))
    return node_facts.drift_table(record.facts for record in records if record.facts and cluster_of(record) == cluster)


def _facts_answer(args: argparse.Namespace, found: Mapping[str, Sequence[node_facts.Drift]]) -> Answer:
    lines = []
    for cluster, drifts in found.items():
        table = [
            (one.name, one.value, f"{one.count} of {one.nodes}", nodes, value)
            for one in drifts
            for value, nodes in one.outliers.items()
        ]
        if table:
            lines.append(plain_table(table, "fact", "most nodes", ">nodes", "others", "with", style="simple"))
        nodes = max((one.nodes for one in drifts), default=0)
        same = sum(not one.outliers for one in drifts)
        lines.append(f"{cluster}: {same} of {plural(len(drifts), 'fact')} {'is' if same == 1 else 'are'} the same on ")
        lines[-1] += plural(nodes, "node") if drifts else "no node: none was read (`facts` in clusters.yaml)"
    facts = [
        {"cluster": cluster, **typed_json.facts(node_facts.Drift, drift)}
        for cluster, drifts in found.items()
        for drift in drifts
    ]
    return quoted_answer(
        args, facts, "\n".join(lines), outcomes.FAILED if any(one["outliers"] for one in facts) else outcomes.GREEN
    )


def exclude_list(found: Sequence[SlowNode | FailingNode]) -> str:
    """The argument of ``sbatch --exclude=``, which may be empty; sbatch refuses an empty file of nodes."""
    return ",".join(sorted({node for one in found for node in one.nodes}))


def _lines(found: Mapping[str, Nodes], known: bool, slow: int) -> Iterator[str]:
    table = [_line(cluster, one) for cluster, nodes in found.items() for one in nodes.slow]
    if table:
        columns = ("nodes", "cluster", ">throughput", "since", "last", ">slow jobs", ">fast jobs", "")
        yield plain_table(table, *columns, style="simple")
    if slow:
        switches = any(one.below for nodes in found.values() for one in nodes.slow)
        yield f"{plural(slow, 'slow node or switch' if switches else 'slow node')} (--json lists the jobs)"
    else:
        yield f"no node {'makes' if known else 'is known to make'} jobs slow{' any more' if table else ''}"
    for cluster, nodes in found.items():
        yield f"{cluster}: {comparison.sound_text(nodes.sound)}"
        yield from _failing_lines(cluster, nodes)


def _next_lines(found: Mapping[str, Nodes], exclude_file: Path | None) -> Iterator[str]:
    """The commands to type next: one that keeps jobs off the nodes that are slow or fail jobs."""
    for cluster, nodes in found.items():
        slow = [one for one in nodes.slow if not one.recovered]
        for kind in sorted({one.name.partition(" ")[0] for one in slow if one.below} - {"tile"}):
            yield f"next: see the links and counters of the {kind}; pytest --gsw-tile={kind} measures each {kind}"
        if not nodes.failing and all(one.below for one in slow):
            continue
        if exclude_file is None:
            file = "--exclude-file=nodes.txt"
            yield f"next: keep jobs off them: {command('pytest-gsw', 'nodes', f'--cluster={cluster}', file)}"
        else:
            yield f'next: sbatch --exclude="$(cat {shlex.quote(str(exclude_file))})" ...'


def _failing_lines(cluster: str, nodes: Nodes) -> Iterator[str]:
    count = nodes.failed_jobs
    if not count:
        return
    failed = f"{cluster}: {plural(count, 'job')} failed by the infrastructure in {FAILURES_DAYS} days"
    if not nodes.failing:
        yield f"{failed}, on no node more than by chance"
        return
    table = [(one.name, str(one.failed), str(one.of), share(one.usual)) for one in nodes.failing]
    yield f"{failed}, more than by chance on"
    yield plain_table(table, "nodes", ">failed", ">of jobs", ">usual", style="simple")


def _line(cluster: str, one: SlowNode) -> tuple[str, ...]:
    first, last = one.slow_jobs[0], one.slow_jobs[-1]
    jobs = (str(len(one.slow_jobs)), str(len(one.fast_jobs)))
    state = "fast again" if one.recovered else ""
    return (one.label, cluster, percent(one.change), minute(first.begin_s), minute(last.begin_s), *jobs, state)


def _facts(cluster: str, nodes: Nodes) -> dict[str, Any]:
    sound = nodes.sound
    return {
        "cluster": cluster,
        "slow": [_suspect(cluster, one) for one in nodes.slow],
        "newest_runs": NEWEST_RUNS,
        "cleared_of": math.exp(-LOSS) - 1,
        "cleared": list(sound.cleared),
        "failed_jobs": nodes.failed_jobs,
        "failures": [
            {
                "nodes": list(one.nodes),
                "failed": one.failed,
                "of": one.of,
                "usual": one.usual,
                "beyond_chance": one.named,
            }
            for one in nodes.failures
        ],
        "without_enough_data": list(sound.undecided),
    }


def _suspect(cluster: str, one: SlowNode) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "nodes": list(expand(one.below) or one.nodes),
        "switch": one.name if one.below else None,
        "throughput_change": one.change,
        "fixed": one.recovered,
        "since": _job(one.slow_jobs[0]),
        "last": _job(one.slow_jobs[-1]),
        "slow_jobs": [_job(point) for point in one.slow_jobs],
        "fast_jobs": [_job(point) for point in one.fast_jobs],
    }


def _job(point: Point) -> dict[str, Any]:
    return {"time_s": point.time_s, "run_id": point.run_id, "job_id": point.job_id}
