"""Pictures: what is marked in them, and what they say to those who do not see them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.history.suspects import Sound, Suspect
from pytest_gsw.performance.measurement import TimedStep, apply
from pytest_gsw.reports.html.drawing import Plot, Scale, round_numbers, ticks, upright
from pytest_gsw.reports.html.nodes_plot import nodes_plot
from pytest_gsw.reports.html.plots import MFU, THROUGHPUT, history_plot, jobs_plot, scaling_plot, steps_plot, window_of
from pytest_gsw.reports.night import Night
from pytest_gsw.reports.read import nights_by_run
from pytest_gsw.reports.rows import Row
from pytest_gsw.results.record import Record
from pytest_gsw.tables.statistic import parse_statistic
from tests.unit.reports.nights import BROKEN, FAST, PASSED, SLOW, TONIGHT, attempt, history_of, row, runs
from tests.unit.results.records import varied


def texts(plot: Plot | None) -> list[str]:
    assert plot is not None
    return ["".join(element.itertext()) for element in plot.svg.iter("text")]


def series(statistic: str, first_index: int, count: int = 50) -> Record:
    """A record of a log whose steps all differ, and begin with a number."""
    series_s = tuple(4.5 + number / 1000 for number in range(count))
    steps = [TimedStep(first_index + place, seconds) for place, seconds in enumerate(series_s)]
    judged_s = apply(parse_statistic(statistic), steps)
    return varied(SLOW, statistic=statistic, series_s=series_s, measured={"step_time_s": judged_s})


@pytest.mark.parametrize(
    ("statistic", "first_index", "window"),
    [
        ("last", 0, (49, 49)),
        ("last", 1, (49, 49)),
        ("mean[35:44]", 0, (35, 44)),
        ("mean[35:44]", 1, (34, 43)),
        ("median[-10:]", 1, (40, 49)),
        ("median", 0, (0, 49)),
    ],
)
def test_what_the_statistic_is_taken_over(statistic: str, first_index: int, window: tuple[int, int]) -> None:
    assert window_of(series(statistic, first_index)) == window


def test_a_window_that_is_not_known_is_not_marked() -> None:
    # A log in which each line stands for ten steps has other numbers than places.
    assert window_of(varied(series("mean[35:44]", 0), measured={"step_time_s": 4.9})) is None
    assert window_of(varied(SLOW, statistic="best of three")) is None
    assert window_of(varied(SLOW, series_s=())) is None


def test_of_several_jobs_the_series_is_the_last_ones() -> None:
    assert SLOW.jobs.last is not None
    judged = replace(SLOW.jobs.last, judged_s=5.0)
    several = varied(SLOW, repeats=(replace(judged, judged_s=7.0),), job=judged, measured={"step_time_s": 6.0})
    assert window_of(several) == (4, 4)
    assert window_of(varied(several, job=SLOW.jobs.last)) is None


def test_the_steps_of_a_job() -> None:
    plot = steps_plot(SLOW)
    assert plot is not None
    assert plot.alt == (
        "Each of 5 steps (s), from 5 to 40 s; the first 1 are warm-up; last is taken over lines 5 to 5; it is 5 s"
    )
    assert {"warm-up", "last", "5 s", "step"} <= set(texts(plot))
    assert steps_plot(varied(SLOW, series_s=(5.0,))) is None
    assert steps_plot(replace(SLOW, timing=replace(SLOW.timing, series_s=(5.0, float("nan"))))) is None
    assert steps_plot(varied(SLOW, series_s=(5.0, 1e300))) is None


def test_of_very_many_steps_the_extremes_are_drawn() -> None:
    spiky = tuple(9.0 if number == 31_416 else 5.0 + number % 7 / 1000 for number in range(100_000))
    plot = steps_plot(varied(SLOW, series_s=spiky, warm_up_steps=0))
    assert plot is not None
    assert len(ET.tostring(plot.svg)) < 12_000
    (curve,) = plot.svg.iter("polyline")
    heights = [float(place.partition(",")[2]) for place in (curve.get("points") or "").split()]
    assert min(heights) < 60 < max(heights)


def nights_of_slow(directory: Path, *before: Record) -> Row:
    with history_of(directory, *before) as history:
        (night,) = nights_by_run([SLOW], history, runs(directory))
    return night.rows[0]


def test_the_nights_of_a_row(tmp_path: Path) -> None:
    before = [row(SLOW.row.id, number) for number in range(TONIGHT - 1)]
    before += [row(SLOW.row.id, TONIGHT - 1, 5.2, outcome="inconclusive")]
    plot = history_plot(nights_of_slow(tmp_path, *before))
    assert plot is not None
    assert (
        plot.alt
        == "Step time of 46 nights (s), the newest 5 s; documented 4.5 s; limit 4.737 s; 1 regressed; 1 inconclusive"
    )
    assert {"reference", "documented", "limit", "triangle: regressed, square: inconclusive"} <= set(texts(plot))
    assert len(list(plot.svg.iter("polygon"))) == 2


def test_one_night_is_no_picture(tmp_path: Path) -> None:
    assert history_plot(nights_of_slow(tmp_path)) is None


def test_the_first_suspect_night_is_marked(tmp_path: Path) -> None:
    drift = [
        row(SLOW.row.id, number, (4.5 if number < 32 else 4.62) * (1 + number % 5 / 1000)) for number in range(TONIGHT)
    ]
    found = nights_of_slow(tmp_path, *drift)
    plot = history_plot(found)
    assert plot is not None
    assert "slower from here on" in texts(plot)
    assert plot.alt.endswith("; 1 regressed; slower since about 2026-12-03")


def test_the_newest_200_nights_are_drawn(tmp_path: Path) -> None:
    plot = history_plot(nights_of_slow(tmp_path, *(row(SLOW.row.id, number) for number in range(-300, TONIGHT))))
    assert plot is not None
    assert "200 nights" in plot.alt
    assert "reference" not in texts(plot)  # they were before


def test_scaling() -> None:
    (night,) = nights_by_run([PASSED, SLOW, FAST], None, runs(Path("run")))
    curves = night.workloads["llama2_70b"]
    plot = scaling_plot("llama2_70b", THROUGHPUT, curves)
    assert plot is not None
    assert plot.alt == (
        "Throughput (tokens/s) of llama2_70b over 128 to 256 GPUs; measured drawn through, documented dashed"
    )
    assert "llama2_70b_fp8" in texts(plot)
    assert scaling_plot("llama2_70b", MFU, curves) is not None
    assert scaling_plot("llama2_70b", MFU, ()) is None


def test_the_jobs_of_a_night() -> None:
    again = varied(PASSED, attempts=(attempt("7", "node failure", "pool0-0017"),))
    (night,) = nights_by_run([again, SLOW, BROKEN], None, runs(Path("run")))
    plot = jobs_plot(night)
    assert plot is not None
    assert plot.alt == "4 jobs over the night; thin bars are time in the queue, thick ones run time, red ones failed"
    assert sum(shape.get("fill") == "#b03a00" for shape in plot.svg.iter("rect")) == 2
    (empty,) = nights_by_run([varied(SLOW, job=None)], None, runs(Path("run")))
    assert jobs_plot(empty) is None


def test_of_a_thousand_jobs_those_that_ended_last_are_drawn() -> None:
    many = [varied(SLOW, node_id=f"t::{number}") for number in range(1000)]
    (night,) = nights_by_run(many, None, runs(Path("run")))
    plot = jobs_plot(night)
    assert plot is not None
    assert plot.alt.startswith("The 200 jobs that ended last;")


def slow_night(*nodes: str) -> Night:
    (night,) = nights_by_run([SLOW, BROKEN], None, runs(Path("run")))
    slow = Suspect(nodes, -0.1, -0.11, -0.09, (), (), mended=False)
    return replace(night, slow_nodes={"eos": (slow,)})


def test_a_map_of_the_nodes() -> None:
    plot = nodes_plot(slow_night("pool0-0018", "pool0-0099"))
    assert plot is not None
    assert plot.alt == (
        "16 nodes of the night's jobs, 1 slow: pool0-0018; in the order of their names, slow ones are diamonds"
    )
    assert texts(plot)[-1] == "slow: pool0-0018"
    assert len(list(plot.svg.iter("polygon"))) == 1
    (others,) = plot.svg.iter("path")
    assert others.get("d", "").count("M") == 15
    assert nodes_plot(slow_night("pool0-0099")) is None  # it ran no job of this night


def test_a_map_tells_nodes_that_are_cleared_from_those_that_are_not() -> None:
    night = slow_night("pool0-0018")
    cleared = tuple(node for node in night.nodes if node not in {"pool0-0017", "pool0-0018"})
    plot = nodes_plot(replace(night, sound_nodes={"eos": Sound(cleared, {"pool0-0017": 2})}))
    assert plot is not None
    assert plot.alt.startswith("16 nodes of the night's jobs, 1 slow, 1 could not be told (small dots): pool0-0018; ")
    known, unknown = plot.svg.iter("path")
    assert (known.get("d", "").count("M"), unknown.get("d", "").count("M")) == (14, 1)
    assert float(unknown.get("stroke-width", "9")) < float(known.get("stroke-width", "0"))


def test_a_map_of_two_thousand_nodes() -> None:
    assert SLOW.jobs.last is not None
    large = replace(SLOW, jobs=replace(SLOW.jobs, last=replace(SLOW.jobs.last, nodes="n[0001-2048]")))
    (night,) = nights_by_run([large], None, runs(Path("run")))
    slow = tuple(Suspect((f"n{number:04}",), -0.1, -0.1, -0.1, (), (), mended=False) for number in range(1, 10))
    plot = nodes_plot(replace(night, slow_nodes={"eos": slow}))
    assert plot is not None
    assert plot.alt.startswith("2048 nodes of the night's jobs, 9 slow: n0001, n0002, n0003, n0004, n0005, n0006 and 3")
    assert float(plot.svg.get("height", "0")) < 300


# -- axes ------------------------------------------------------------------------------------------


def test_round_numbers() -> None:
    assert round_numbers(4.4, 5.2) == [4.4, 4.6, 4.8, 5.0, 5.2]
    assert round_numbers(0, 100) == [0, 50, 100]
    assert round_numbers(3, 3) == [3]


def test_noise_of_a_few_thousandths_looks_like_nothing() -> None:
    y = upright([4.5, 4.51])
    assert y.high - y.low > 0.06 * 4.5


def test_what_is_beyond_an_axis_stands_at_its_end() -> None:
    x = Scale(1, 10, 100, 200)
    assert (x(0), x(1), x(5.5), x(10), x(1e9)) == (100, 100, 150, 200, 200)
    assert ticks(x, [1, 1.5, 4, 10]) == [(100, "1"), (133.3, "4"), (200, "10")]
    assert Scale(1, 100, 0, 10, logarithmic=True)(10) == 5
    assert Scale(1, 1, 0, 10)(1) == 5
