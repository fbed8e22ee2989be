"""``pytest-gsw nodes``: which nodes make jobs slow, since when, and by which jobs that is known."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_gsw.cli.answer import Answer, Commands, json_answer, write_answer
from pytest_gsw.cli.runs import add_history_option, opened
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted, day, percent
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.events import EXCLUDE
from pytest_gsw.history.model import Point
from pytest_gsw.history.store import History
from pytest_gsw.history.suspects import Suspect, suspects
from pytest_gsw.results.plain_table import plain_table


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    nodes = commands.add_parser("nodes", help="tell which nodes make jobs slow, since when, and by which jobs")
    nodes.add_argument("--cluster", metavar="NAME", help="only this cluster")
    nodes.add_argument(
        "--since", type=_day_s, default=0.0, metavar="DATE", help="only jobs from this day on: 2026-11-30"
    )
    nodes.add_argument(
        "--exclude-file", type=Path, metavar="FILE", help='write what sbatch takes by --exclude="$(cat FILE)"'
    )
    add_history_option(nodes)
    nodes.add_argument("--json", action="store_true", help="print JSON: a list of objects")
    nodes.set_defaults(run=_nodes)


def _day_s(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d").astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"got '{text}', wanted a day such as 2026-11-30") from None


def _nodes(asked: argparse.Namespace) -> Answer:
    with opened(asked) as history:
        found = {cluster: _suspects(history, cluster, asked.since) for cluster in _clusters(history, asked.cluster)}
    slow = [one for of_cluster in found.values() for one in of_cluster if not one.mended]
    if asked.exclude_file is not None:
        if len(found) > 1:
            raise ConfigurationError(f"--exclude-file is of one cluster; add --cluster=NAME: {', '.join(found)}")
        write_answer(asked.exclude_file, exclude_list(slow))
    status = 1 if slow else 0
    if asked.json:
        facts = [_facts(cluster, one) for cluster, of_cluster in found.items() for one in of_cluster]
        return json_answer(quoted(facts, os.environ), status)
    return Answer(quoted(_text(found, len(slow)), os.environ), status)


def exclude_list(slow: Sequence[Suspect]) -> str:
    """What ``sbatch --exclude=`` takes, where nobody is slow as well: a file of its own it refuses when it is empty."""
    return ",".join(sorted({node for one in slow for node in one.nodes}))


def _suspects(history: History, cluster: str, since_s: float) -> tuple[Suspect, ...]:
    excluded = {event.subject for event in history.events(cluster, EXCLUDE)}
    return suspects(history.nights(cluster, since_s=since_s), excluded)


def _clusters(history: History, cluster: str | None) -> Sequence[str]:
    known = sorted({key.cluster for key in history.series()})
    if not known:
        raise ConfigurationError(f"the history {history.shown} has no measured job\nnext: pytest-gsw history --add")
    if cluster is not None and cluster not in known:
        raise ConfigurationError(f"--cluster: the history {history.shown} is of {', '.join(known)}, not of {cluster}")
    return known if cluster is None else [cluster]


def _text(found: Mapping[str, Sequence[Suspect]], slow: int) -> str:
    if not any(found.values()):
        return "no node makes jobs slow"
    columns = ("nodes", "cluster", ">throughput", "95 %", "since", "last", ">accuse", ">clear", "")
    table = [_line(cluster, one) for cluster, of_cluster in found.items() for one in of_cluster]
    said = f"{counted(slow, 'culprit')}, see --json for the jobs" if slow else "no node makes jobs slow any more"
    return f"{plain_table(table, *columns, style='simple')}\n{said}"


def _line(cluster: str, one: Suspect) -> tuple[str, ...]:
    first, last = one.accusing[0], one.accusing[-1]
    interval = f"{percent(one.low)} to {percent(one.high)}"
    jobs = (str(len(one.accusing)), str(len(one.clearing)))
    state = "fast again" if one.mended else ""
    return (one.name, cluster, percent(one.change), interval, day(first.time_s), day(last.time_s), *jobs, state)


def _facts(cluster: str, one: Suspect) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "nodes": list(one.nodes),
        "throughput_change": one.change,
        "interval": [one.low, one.high],
        "mended": one.mended,
        "since": _job(one.accusing[0]),
        "last": _job(one.accusing[-1]),
        "accusing": [_job(point) for point in one.accusing],
        "clearing": [_job(point) for point in one.clearing],
    }


def _job(point: Point) -> dict[str, Any]:
    return {"time_s": point.time_s, "run_id": point.run_id, "job_id": point.job_id}
