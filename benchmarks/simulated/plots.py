"""The figures as plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.simulated import experiments as of
from benchmarks.simulated.cluster import NOTHING
from benchmarks.simulated.real import tigerbeetle
from benchmarks.simulated.rules import BENCHMARK, FIXED, REFRAME
from benchmarks.simulated.tally import Tally
from benchmarks.svg import Chart, draw

QUIET = NOTHING.name
#: Models whose noise is the same but for its size, and short names of those of different kinds.
BY_SIGMA = {f"Gaussian {sigma}%": f"{sigma}%" for sigma in (1, 2, 3, 5, 8)}
KINDS = {
    "Gaussian 3%": "normal",
    "Student t3 3%": "t3",
    "lognormal 3%": "logn.",
    "AR(1) 0.5 3%": "AR(1)",
    "level plus jobs 3%": "level",
    "shared night 2%": "night",
    "congestion": "hours",
    "1 in 20 slow": "1/20",
    "slow nodes 10%": "nodes",
}
GATES = (FIXED, REFRAME, "any of 3", "Megatron-LM", BENCHMARK, of.GSW)
#: Names of rules in a legend, if not their own.
_LEGEND = {BENCHMARK: "pytest-benchmark", of.GSW: "pytest-gsw"}
_SHARES = [(value, f"{value:.0%}") for value in (0, 0.2, 0.4, 0.6, 0.8, 1)]
_LOGARITHMIC = [(10**-power, f"{100 * 10**-power:g} %") for power in (0, 1, 2, 3)]

#: A figure by model and rule, ``None`` where nothing was counted.
Figure = Callable[[str, str], float | None]


def write(figures: Mapping[str, Any], directory: Path) -> None:
    """All charts, as SVG."""
    tally = Tally.of_plain(figures["simulated"])
    directory.mkdir(parents=True, exist_ok=True)
    drawn = {**charts(tally), "tigerbeetle": real_chart(figures["real"])}
    for name, chart in drawn.items():
        if not chart.lines:
            continue  # none of its models is measured
        (directory / f"{name}.svg").write_text(draw(chart), encoding="utf-8")


def charts(tally: Tally) -> dict[str, Chart]:
    """Those of the simulation."""

    def share(change: str, name: str) -> Figure:
        def figure(model: str, rule: str) -> float | None:
            found = tally.share((model, change, rule), name)
            return None if found is None else found.value

        return figure

    def soon(change: str) -> Figure:
        def figure(model: str, rule: str) -> float | None:
            found = tally.within([(model, change, rule)], "warned", of.LATE)
            return None if found is None else found.value

        return figure

    def chart(
        title: str, names: Mapping[str, str], rules: Sequence[str], figure: Figure, target: float, what: str = "runs"
    ) -> Chart:
        measured = {
            name: short for name, short in names.items() if any(figure(name, rule) is not None for rule in rules)
        }
        return _chart(title, measured, rules, figure, target, what)

    false, ten = share(QUIET, "false night"), share(of.ROW_CHANGES[-1].name, "fails")
    drifts = (of.DRIFT, of.OTAVA, of.OTAVA_DEFAULTS)
    return {
        "false-failures": chart("Runs with a false failure among 30 rows", BY_SIGMA, GATES, false, 0.01),
        "models": chart("Runs with a false failure among 30 rows, sigma 2 or 3 %", KINDS, GATES, false, 0.01),
        "power": chart("A row 10 % slower: runs in which it fails", BY_SIGMA, GATES, ten, 0.95),
        "power-models": chart("A row 10 % slower: runs in which it fails, sigma 2 or 3 %", KINDS, GATES, ten, 0.95),
        "drift": chart(
            "A drift of 1 % a week: found within 28 runs", BY_SIGMA, drifts, soon(of.DRIFTS[-1].name), 0.5, "rows"
        ),
        "false-alarms": chart("Rows with a false drift alarm", KINDS, drifts, share(QUIET, "alarm"), 0.02, "rows"),
    }


def _chart(
    title: str, names: Mapping[str, str], rules: Sequence[str], figure: Figure, target: float, what: str
) -> Chart:
    places = [float(place) for place in range(len(names))]
    is_small = target < 0.1
    lines = {rule: [figure(name, rule) for name in names] for rule in rules}
    lines = {
        _LEGEND.get(rule, rule): values for rule, values in lines.items() if any(value is not None for value in values)
    }
    return Chart(
        title=title,
        x_title="noise between jobs",
        y_title=f"{what} (logarithmic)" if is_small else what,
        xs=places,
        lines=lines,
        y_from=1e-3 if is_small else 0,
        y_to=1,
        y_ticks=_LOGARITHMIC if is_small else _SHARES,
        x_ticks=list(zip(places, names.values(), strict=True)),
        logarithmic=is_small,
        targets=[(target, f"target: {target:.0%}")],
        dots=frozenset() if names.keys() <= BY_SIGMA.keys() else frozenset(lines),
    )


def real_chart(real: Mapping[str, Any]) -> Chart:
    """The real series with the first suspects of the drift rule and the change points of Otava."""
    per_s = tigerbeetle()
    suspects = {one["suspect"] for one in real["drift"]}
    otava = {index for index, _, _ in real.get("otava", [])}

    def dots(at: set[int], height: float) -> list[float | None]:
        return [height if index in at else None for index in range(len(per_s))]

    lines: dict[str, Sequence[float | None]] = {"transactions per second": per_s}
    lines["gsw drift: first suspects"] = dots(suspects, 22_500)
    if otava:
        lines["Otava's change points"] = dots(otava, 21_500)
    return Chart(
        title="TigerBeetle's accepted load",
        x_title="measurement",
        y_title="thousands per second",
        xs=[float(index) for index in range(len(per_s))],
        lines=lines,
        y_from=20_000,
        y_to=33_000,
        y_ticks=[(1000.0 * value, str(value)) for value in (20, 22, 24, 26, 28, 30, 32)],
        x_ticks=[(float(value), str(value)) for value in (0, 50, 100, 150, 200, 250, 300, 350)],
        dots=frozenset(lines) - {"transactions per second"},
    )
