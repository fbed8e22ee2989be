"""``pytest-gsw alarms``: list alarms, each with onset and owner; ``acknowledge ID`` and ``reopen ID``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pytest_gsw.cli.output import Answer, changes_facts, quoted_answer
from pytest_gsw.cli.run_arguments import clusters_of, opened
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import day, plain_table
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.alarms import Alarm, acknowledge, alarms_of
from pytest_gsw.history.cluster_series import ClusterSeries, series_of_cluster
from pytest_gsw.history.comparison import COLUMNS, acknowledged_text, advice_line, cells, counts_text, state_text
from pytest_gsw.history.store import REVOKE, Event, History
from pytest_gsw.tables.load import accepted_figures


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    now_s = time.time()
    accepted = accepted_figures(args.ini.tables(args.baselines))
    with opened(args) as history:
        read = partial(series_of_cluster, history, accepted=accepted)
        found = read_alarms(history, {name: read(name) for name in clusters_of(history, args)}, now_s)
        if args.action is not None:
            return Answer(_decide(history, args, _find_alarm(found, args.alarm), now_s))
    status = 1 if any(one.is_active for one in found) else 0
    return quoted_answer(args, [_facts(one) for one in found], _text(found), status)


def read_alarms(history: History, series: Mapping[str, ClusterSeries], now_s: float) -> tuple[Alarm, ...]:
    """The alarms of clusters by all their runs, active ones first."""
    found = [one for name, of in series.items() for one in alarms_of(history, name, of, now_s=now_s)]
    return tuple(sorted(found, key=lambda one: (not one.is_active, not one.pages)))


def _find_alarm(found: Sequence[Alarm], given: str) -> Alarm:
    same = [one for one in found if one.id == given] or [one for one in found if one.id.startswith(given)]
    if len(same) != 1:
        what = f"{len(same)} alarms begin with '{given}'" if same else f"there is no alarm '{given}'"
        raise ConfigurationError(f"{what}\nnext: pytest-gsw alarms")
    return same[0]


def _decide(history: History, args: argparse.Namespace, alarm: Alarm, now_s: float) -> str:
    """Acknowledge or reopen an alarm; the text of what was done."""
    why = redact(args.why, os.environ)
    if args.action == "reopen":
        if alarm.acknowledged is None:
            raise ConfigurationError(f"alarm {alarm.id} is not acknowledged")
        known = alarm.acknowledged
        history.decide(Event(REVOKE, known.alarm, known.cluster, now_s, {"why": why}, known.event))
        return f"{history.shown}: {alarm.id} is open again"
    if args.until <= now_s:
        raise ConfigurationError(f"--until: {day(args.until - 1)} has passed")
    if not alarm.is_active:
        raise ConfigurationError(
            f"alarm {alarm.id} is not active ({state_text(alarm)}): there is nothing to acknowledge"
        )
    owner = redact(args.owner, os.environ)
    history.decide(acknowledge(alarm, why=why, owner=owner, until_s=args.until, time_s=now_s))
    until = f"until {day(args.until - 1)}, unless it becomes worse"
    back = f"pytest-gsw alarms reopen {alarm.id} --why=TEXT"
    return f"{history.shown}: {alarm.id} is acknowledged {until}; to reopen it: {back}"


def _text(found: Sequence[Alarm]) -> str:
    if not found:
        return "no alarm"
    lines = [plain_table([cells(one) for one in found], *COLUMNS, style="simple")]
    lines += [line for one in found if (line := advice_line(one))]
    lines.append(counts_text(found) if any(one.is_active for one in found) else "no active alarm")
    paging = [one.id for one in found if one.pages]
    lines += [f"next: pytest-gsw alarms acknowledge {one} --why=TEXT --owner=NAME --until=DATE" for one in paging[:1]]
    return "\n".join(lines)


def _facts(one: Alarm) -> dict[str, Any]:
    period, known = one.period, one.acknowledged
    return {
        "id": one.id,
        "kind": period.kind.value,
        "cluster": period.cluster,
        "subject": period.subject,
        "state": one.state.value,
        "pages": one.pages,
        "part_of": one.part_of or None,
        "since_s": one.since.time_s,
        "fixed_s": one.fixed_s,
        "gone_s": period.gone_s,
        "raised": {"time_s": period.runs[0].time_s, "run_id": period.runs[0].run_id},
        "last_measured_s": period.last_s,
        "last": {"time_s": period.runs[-1].time_s, "run_id": period.runs[-1].run_id},
        "runs": one.since.runs,
        period.metric.change_key: one.change,
        "changes": changes_facts(one.since.changes),
        "acknowledged": None
        if known is None
        else {"why": known.why, "owner": known.owner, "until_s": known.until_s, "text": acknowledged_text(one)},
    }
