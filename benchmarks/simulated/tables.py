"""The figures as Markdown tables, each beside its target."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from benchmarks.simulated import experiments as of
from benchmarks.simulated.cluster import NOTHING
from benchmarks.simulated.models import MODELS
from benchmarks.simulated.rules import RULES
from benchmarks.simulated.tally import Share, Tally

QUIET = NOTHING.name
LOSS_7, LOSS_10 = (change.name for change in of.ROW_CHANGES[1:])


#: A figure of a noise model; ``None`` where nothing was counted.
Figure = Callable[[Tally, str], "Share | None"]
Goal = Callable[[str], "float | None"]


@dataclass(frozen=True)
class Target:
    """One figure of each model, and what it is to be."""

    title: str
    to_reach: str
    figure: Figure
    most: Goal = lambda _: None
    least: Goal = lambda _: None
    is_percent: bool = True

    def cell(self, tally: Tally, model: str) -> str:
        """The figure, and whether it is reached; with a question mark where chance may have it so."""
        share = self.figure(tally, model)
        if share is None:
            return ""
        if not self.is_percent:
            return f"{share.value:.2f}{_reached(share.value, share.value, share.value, self, model)}"
        return f"{with_interval(share)}{_reached(share.value, *share.interval, self, model)}"


def _reached(value: float, low: float, high: float, target: Target, model: str) -> str:
    most, least = target.most(model), target.least(model)
    if most is None and least is None:
        return ""
    most, least = 1e9 if most is None else most, -1.0 if least is None else least
    if least <= value <= most:
        return " ok"
    return " missed?" if low <= most and high >= least else " **missed**"


def with_interval(share: Share | None) -> str:
    """A share in percent, and its interval."""
    if share is None:
        return ""
    low, high = share.interval
    return f"{percent(share.value)} ({percent(low)}-{percent(high)})"


def percent(value: float) -> str:
    """With as many digits as anybody reads."""
    hundred = round(100 * value, 2)
    return f"{hundred:.0f}" if hundred >= 10 or not hundred else f"{hundred:.1f}" if hundred >= 1 else f"{hundred:.2f}"


def share_of(change: str, rule: str, name: str) -> Figure:
    return lambda tally, model: tally.share((model, change, rule), name)


def _silent(tally: Tally, model: str) -> Share | None:
    rules = (of.DRIFT, of.CLUSTER_DRIFT)
    return tally.pooled([(model, change.name, rule) for change in of.DRIFTS for rule in rules], "silent")


def _is_usual(model: str) -> bool:
    """Noise of up to 3 %."""
    sigmas = [float(one) for one in re.findall(r"(\d+)%", model)]
    return "slow" in model or not sigmas or max(sigmas) <= 3


def _most_false_runs(model: str) -> float | None:
    """Some more with slow nodes; none is set for noise that comes in spells of a row."""
    if model == "slow nodes 10%":
        return 0.03
    is_meant = model.startswith(("Gaussian", "Student", "lognormal", "shared night"))
    return 0.01 if is_meant and _is_usual(model) else None


def _usual(value: float) -> Goal:
    return lambda model: value if _is_usual(model) else None


def _every(value: float) -> Goal:
    return lambda _: value


TARGETS = (
    Target("false nights", "≤ 1; nodes ≤ 3", share_of(QUIET, of.GSW, "false night"), most=_most_false_runs),
    Target("-10 % fails", "≥ 95", share_of(LOSS_10, of.GSW, "fails"), least=_usual(0.95)),
    Target("-7 % fails", "≥ 75", share_of(LOSS_7, of.GSW, "fails"), least=_usual(0.75)),
    Target("jobs a row", "≤ 1.1", share_of(QUIET, of.GSW, "jobs"), most=_usual(1.1), is_percent=False),
    Target("false incidents", "", share_of(QUIET, of.GSW, "incident")),
    Target("rows inconclusive", "", share_of(QUIET, of.GSW, "inconclusive")),
    Target("false drift", "≤ 2", share_of(QUIET, of.DRIFT, "alarm"), most=_every(0.02)),
    Target("of clusters", "≤ 2", share_of(QUIET, of.CLUSTER_DRIFT, "alarm"), most=_every(0.02)),
    Target("drift silent", "0", _silent, most=_every(0.0)),
    Target("compare", "≤ 5", share_of(QUIET, of.COMPARE, "false night"), most=_every(0.05)),
)


def targets(tally: Tally, models: Sequence[str]) -> str:
    lines = [[model, *(target.cell(tally, model) for target in TARGETS)] for model in models]
    goals = ["**to reach**", *(target.to_reach for target in TARGETS)]
    return _table(["noise", *(target.title for target in TARGETS)], [goals, *lines])


def by_model(tally: Tally, models: Sequence[str], columns: Mapping[str, Figure]) -> str:
    """One line for each model, one column for each figure."""
    lines = [[model, *(with_interval(figure(tally, model)) for figure in columns.values())] for model in models]
    return _table(["noise", *columns], [line for line in lines if any(line[1:])])


def false_runs(tally: Tally, models: Sequence[str]) -> str:
    """All rules on the same quiet runs: runs with a false failure, and jobs a row."""
    lines = []
    for model in models:
        cells = [(model, QUIET, rule) for rule in (*RULES, of.GSW)]
        shares = [(tally.share(cell, "false night"), tally.share(cell, "jobs")) for cell in cells]
        lines.append([model, *(f"{percent(one.value)} · {jobs.value:.2f}" for one, jobs in shares if one and jobs)])
    return _table(["noise", *RULES, of.GSW], lines)


def losses(tally: Tally, models: Sequence[str]) -> str:
    """All rules where one row is slower: how often a run fails, and whether one of seven does."""
    lines = []
    for rule in (*RULES, of.GSW):
        line = [rule]
        for model in models:
            for change in of.ROW_CHANGES:
                cell = (model, change.name, rule)
                share, soon = tally.share(cell, "fails"), tally.within([cell], "fails", of.SOON)
                line.append(f"{percent(share.value)} · {percent(soon.value)}" if share and soon else "")
        lines.append(line)
    return _table(["rule", *(f"{model}: {change.name[4:]}" for model in models for change in of.ROW_CHANGES)], lines)


def young(tally: Tally, models: Sequence[str]) -> str:
    shown = {
        "nights with a false failure": share_of(of.YOUNG, of.GSW, "false night"),
        "rows inconclusive": share_of(of.YOUNG, of.GSW, "inconclusive"),
    }
    return by_model(tally, models, shown)


def clusters(tally: Tally, models: Sequence[str]) -> str:
    """The whole cluster slower: what fails, and what it costs."""
    lines = []
    for model in models:
        line = [model]
        for change in of.CLUSTER_CHANGES:
            cell = (model, change.name, of.GSW)
            names = ("incident", "fails", "rows failed", "further jobs")
            incident, failed, rows, jobs = (tally.share(cell, name) for name in names)
            if incident and failed and rows and jobs:
                shares = f"{percent(incident.value)} · {percent(failed.value)}"
                line.append(f"{shares} · {rows.value:.1f} · {jobs.value:.1f}")
        lines.append(line)
    return _table(["noise", *(change.name for change in of.CLUSTER_CHANGES)], lines)


def drift(tally: Tally, models: Sequence[str]) -> str:
    """False alarms, what is found within four weeks and after how many runs, and warnings that became silent."""
    lines = []
    for model in models:
        for rule in (of.DRIFT, of.CLUSTER_DRIFT, of.OTAVA, of.OTAVA_DEFAULTS):
            false = tally.share((model, QUIET, rule), "alarm")
            cells = [(model, change.name, rule) for change in of.DRIFTS]
            found = [(tally.within([cell], "warned", of.LATE), tally.median(cell, "warned")) for cell in cells]
            silent = tally.pooled(cells, "silent")
            if false is not None:
                shown = (f"{percent(soon.value)} · {median or '-'}" if soon else "" for soon, median in found)
                lines.append([model, rule, with_interval(false), *shown, with_interval(silent)])
    return _table(["noise", "rule", "false", *(change.name for change in of.DRIFTS), "silent"], lines)


def nodes(tally: Tally, models: Sequence[str]) -> str:
    """How soon a node is named, and whether a sound one is; and of all models of usual noise together."""
    usual = [model for model in models if _is_usual(model)]
    lines = [[model, *_named(tally, [model])] for model in models]
    lines.append(["all models of up to 3 %", *_named(tally, usual)])
    header = ("within 7 nights", "14 nights", "14 nights, alone", "a sound one named", "false nights once named")
    return _table(["noise", *header], [line for line in lines if any(line[1:])])


def _named(tally: Tally, models: Sequence[str]) -> list[str]:
    cells = [(model, of.NODE, of.GSW) for model in models]
    quiet = [(model, QUIET, of.GSW) for model in models]
    figures = (
        tally.within(cells, "named", 7),
        tally.within(cells, "named", 14),
        tally.within(cells, "named alone", 14),
        tally.pooled([*cells, *quiet], "sound node named"),
        tally.pooled(cells, "false night"),
    )
    return [with_interval(figure) for figure in figures]


def real(found: Mapping[str, Any]) -> str:
    """The alarms on the real series."""
    lines = []
    for one in found["drift"]:
        sign = 1 if one["way"] == "slower" else -1
        change = (1 + one["shift"]) ** -sign - 1
        suspect = [str(one["suspect"]), one["way"], f"{100 * change:+.1f} %"]
        lines.append([str(one["at"]), *suspect, f"{one['z']:.1f}"])
    parts = [_table(["alarm at", "first suspect", "to", "throughput", "z"], lines)]
    for name in ("otava", "otava 5 %"):
        if name in found:
            points = ", ".join(f"{index} ({after / before - 1:+.1%})" for index, before, after in found[name])
            parts.append(f"{name}: {points}")
    if "otava nightly slower" in found:
        points = ", ".join(f"{index} (at {at})" for index, at in found["otava nightly slower"])
        parts.append(f"otava each night, to slower: {points}")
    return "\n\n".join(parts)


def all_tables(figures: Mapping[str, Any]) -> Mapping[str, tuple[str, str]]:
    """By name, each table's title and text."""
    tally = Tally.of_plain(figures["simulated"])
    models = [name for name in MODELS if _is_measured(figures, name)]
    some = [model for model in ("Gaussian 2%", "Gaussian 3%", "shared night 2%") if model in models] or models[:3]
    return {
        "targets": ("Every noise model, % (95 % interval), and the targets", targets(tally, models)),
        "runs": ("Nights with a false failure, % · jobs a row", false_runs(tally, models)),
        "losses": ("One row slower: nights that fail, % · found within seven nights, %", losses(tally, some)),
        "young": ("The first 30 nights, %", young(tally, models)),
        "clusters": (
            "The whole cluster slower: incidents, % · nights that fail, % · failed rows · further jobs",
            clusters(tally, models),
        ),
        "drift": ("Drift: false in all nights, % · found within 28 nights, % · median night", drift(tally, models)),
        "nodes": ("A node 10 % slower, %", nodes(tally, models)),
        "real": ("TigerBeetle: the drift rule's alarms", real(figures["real"])),
    }


def text(figures: Mapping[str, Any]) -> str:
    """All tables, and what they were made of."""
    shown = (f"**{title}**\n\n{table}" for title, table in all_tables(figures).values())
    return "\n\n".join([made_of(figures), *shown])


def made_of(figures: Mapping[str, Any]) -> str:
    """The commands, and what was measured by them."""
    lines = []
    for one in figures["made of"]:
        options = " ".join(f"--{name} {one[name]}" for name in ("seed", "rows", "runs", "clusters"))
        lines.append(
            f"`python benchmarks/decisions.py {options} --parts {' '.join(one['parts'])}`, commit {one['commit']}"
        )
    return "\n\n".join(lines)


def _is_measured(figures: Mapping[str, Any], model: str) -> bool:
    return any(model in one["models"] for one in figures["made of"])


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return tabulate(list(lines), header, tablefmt="pipe", disable_numparse=True)
