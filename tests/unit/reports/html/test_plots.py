"""Pictures: what is marked in them, and what they say to those who do not see them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.reports.charts import (
    CURVES,
    TOP,
    Scale,
    figure,
    history_plot,
    in_view,
    named_ticks,
    point,
    steps_plot,
    ticks,
    window_of,
)
from pytest_gsw.reports.reported_row import ReportedRow
from pytest_gsw.results import attention
from pytest_gsw.results.record import Record
from pytest_gsw.stats.measurement import TimedStep, apply
from pytest_gsw.stats.verdict import Reason
from pytest_gsw.tables.model import parse_statistic
from tests.messages import wording
from tests.unit.reports.records_of_runs import (
    BROKEN,
    CURRENT_RUN,
    SLOW,
    Picture,
    drawn,
    failed,
    minute_of,
    report_of,
    row,
)
from tests.unit.results.records import varied


def legend(plot: Picture) -> list[str]:
    """What a picture's colours and shapes mean."""
    return ["".join(element.itertext()) for element in plot.legend]


def told_of(plot: Picture) -> list[str]:
    """What a browser tells of a picture's points and lines under the mouse."""
    return [element.text or "" for element in plot.svg.iter("title")]


def series(statistic: str, first_index: int, count: int = 50) -> Record:
    """A record of a log whose steps all differ, and begin with a number."""
    series_s = tuple(4.5 + number / 1000 for number in range(count))
    steps = [TimedStep(first_index + place, seconds) for place, seconds in enumerate(series_s)]
    judged = apply(parse_statistic(statistic), steps)
    return varied(SLOW, statistic=statistic, series_s=series_s, measured={"step_time_s": judged})


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
    judged = replace(SLOW.jobs.last, judged=5.0)
    several = varied(SLOW, repeats=(replace(judged, judged=7.0),), job=judged, measured={"step_time_s": 6.0})
    assert window_of(several) == (4, 4)
    assert window_of(varied(several, job=SLOW.jobs.last)) is None


def test_the_steps_of_a_job() -> None:
    plot = drawn(steps_plot(SLOW))
    assert plot.alt == (
        "Each of 5 steps (s), from 5 to 40 s; the first 1 are warm-up; last is taken over lines 5 to 5; it is 5 s"
    )
    assert legend(plot) == ["step time", "warm-up", "steps that are judged (last)", "last 5 s"]
    assert told_of(plot)[:3] == ["last 5 s", "step 1: 40 s", "step 2: 5 s"]  # the line is below the judged step
    assert steps_plot(varied(SLOW, series_s=(5.0,))) is None
    assert steps_plot(replace(SLOW, timing=replace(SLOW.timing, series_s=(5.0, float("nan"))))) is None
    assert steps_plot(varied(SLOW, series_s=(5.0, 1e300))) is None


def test_of_very_many_steps_the_extremes_are_drawn() -> None:
    spiky = tuple(9.0 if number == 31_416 else 5.0 + number % 7 / 1000 for number in range(100_000))
    plot = drawn(steps_plot(varied(SLOW, series_s=spiky, warm_up_steps=0)))
    assert len(ET.tostring(plot.svg)) < 12_000
    (curve,) = plot.svg.iter("polyline")
    heights = [float(place.partition(",")[2]) for place in (curve.get("points") or "").split()]
    assert min(heights) < 60 < max(heights)


def runs_of_slow(directory: Path, *before: Record) -> ReportedRow:
    return report_of(SLOW, before=before, directory=directory).rows[0]


def test_the_runs_of_a_row(tmp_path: Path) -> None:
    before = [row(SLOW.row.id, number) for number in range(CURRENT_RUN - 1)]
    before += [row(SLOW.row.id, CURRENT_RUN - 1, 5.2, outcome="inconclusive")]
    plot = drawn(history_plot(runs_of_slow(tmp_path, *before)))
    assert (
        plot.alt == "Step time of 46 runs (s), lower is better, the newest 5 s; documented 4.5 s; limit 4.737 s; "
        "1 regressed; 1 inconclusive"
    )
    assert legend(plot) == [
        *("passed", "regressed", "inconclusive"),
        *("runs of the reference", "documented 4.5 s", "limit 4.737 s"),
    ]
    assert len(list(plot.svg.iter("polygon"))) == 2
    assert told_of(plot)[-1] == f"5 s, {minute_of(CURRENT_RUN)}, job 481265, regressed"


def test_a_run_leads_to_the_rows_page_in_it(tmp_path: Path) -> None:
    found = runs_of_slow(tmp_path, row(SLOW.row.id, CURRENT_RUN - 2), row(SLOW.row.id, CURRENT_RUN - 1))
    plot = drawn(history_plot(found, {found.past.runs[1].run_id: "../runs/x/rows/y.html"}))
    (link,) = plot.svg.iter("a")
    assert link.get("href") == "../runs/x/rows/y.html"
    assert link.get("aria-label") == link.findtext(".//title")


def test_a_run_with_an_error_is_a_cross_on_the_edge(tmp_path: Path) -> None:
    before = [row(BROKEN.row.id, number) for number in range(CURRENT_RUN - 2)]
    before += [failed(BROKEN.row.id, "job 7 ended NODE_FAIL", CURRENT_RUN - 1)]
    run = report_of(BROKEN, before=before, directory=tmp_path)
    plot = drawn(history_plot(run.rows[0]))
    assert [told for told in told_of(plot) if told.startswith("error")] == [
        f"error, {minute_of(CURRENT_RUN - 1)}",
        f"error: job 481265 failed with exit code 1: NCCL error, job 481265, {minute_of(CURRENT_RUN)}",
    ]
    assert "error" in legend(plot)
    assert plot.alt.endswith("; 2 runs with an error")
    places = [float((mark.get("x") or "").rstrip("%")) for mark in plot.svg.findall("svg[@class='error']")]
    assert places == [96.8, 99.0]  # the row does not seem to end the day before


def test_a_run_that_is_not_believed_is_shown_beside_the_line(tmp_path: Path) -> None:
    before = [row(SLOW.row.id, number) for number in range(CURRENT_RUN - 4, CURRENT_RUN)]
    too_good = {"outcome": "inconclusive", "reason": Reason.TOO_GOOD.value}
    current_run = varied(SLOW, measured={"step_time_s": 3.6}, series_s=(3.6,) * 5, **too_good)
    run = report_of(current_run, before=before, directory=tmp_path)
    plot = drawn(history_plot(run.rows[0]))
    assert wording("runs of a plot", runs=5) + ", the newest 3.6 s;" in plot.alt
    assert plot.alt.endswith("; 1 inconclusive")
    assert told_of(plot)[-1] == f"3.6 s, {minute_of(CURRENT_RUN)}, job 481265, inconclusive: too good to be true"
    (curve,) = plot.svg.iter("polyline")
    assert len((curve.get("points") or "").split()) == 4
    assert run.rows[0].past.judged == run.rows[0].past.measured[:-1]  # it says nothing of the row


def test_one_outlier_leaves_the_other_runs_their_axis(tmp_path: Path) -> None:
    before = [row(SLOW.row.id, number, 4.5 + number % 5 / 100) for number in range(CURRENT_RUN - 30, CURRENT_RUN)]
    before[7] = row(SLOW.row.id, CURRENT_RUN - 23, 4500.0, outcome="regressed")
    plot = drawn(history_plot(runs_of_slow(tmp_path, *before)))
    assert plot.title == "Step time of 31 runs (s), lower is better; beyond the picture: 4500 s"
    (curve,) = plot.svg.iter("polyline")
    heights = [float(place.partition(",")[2]) for place in (curve.get("points") or "").split()]
    assert heights[7] == TOP
    assert max(heights[:7]) - min(heights[:7]) > 5  # 0.8 % is to be seen
    limit, documented = (
        float(next(one.get("y1", "") for one in plot.svg.iter("line") if one.get("class") == kind))
        for kind in ("limit", "documented")
    )
    assert documented - limit > 20


def test_one_run_is_no_picture(tmp_path: Path) -> None:
    assert history_plot(runs_of_slow(tmp_path)) is None


def test_the_first_suspect_run_is_marked(tmp_path: Path) -> None:
    drift = [
        row(SLOW.row.id, number, (4.5 if number < 32 else 4.62) * (1 + number % 5 / 1000))
        for number in range(CURRENT_RUN)
    ]
    found = runs_of_slow(tmp_path, *drift)
    plot = drawn(history_plot(found))
    assert f"slower since about {minute_of(32)}" in legend(plot)
    assert plot.alt.endswith(f"; 1 regressed; slower since about {minute_of(32)}")


def test_the_newest_200_runs_are_drawn(tmp_path: Path) -> None:
    plot = drawn(
        history_plot(runs_of_slow(tmp_path, *(row(SLOW.row.id, number) for number in range(-300, CURRENT_RUN))))
    )
    assert "200 runs" in plot.alt
    assert "runs of the reference" not in legend(plot)  # they were before


# -- axes ------------------------------------------------------------------------------------------


def test_what_an_axis_is_made_for() -> None:
    runs = [4.5, 4.51, 4.49] * 10
    assert in_view([*runs, 4500.0], (4.737,), 0.27) == (min(runs), 4.737)
    assert in_view([*runs, 5.0], (4.737,), 0.27) == (min(runs), 5.0)
    assert in_view([*runs, 0.01], (4.737,), 0.27) == (min(runs), 4.737)
    assert in_view([4.5, 4500.0], (4.5, 4.737), 0.27) == (4.5, 4.737)
    assert in_view([4.5, 4500.0], (), 0.27) == (4.5, 4500.0)
    steps = [4.5] * 10 + [45.0] * 10  # a row that has another level since
    assert in_view(steps, (4.737,), 0.27) == (4.5, 45.0)


def test_what_is_written_on_an_axis_has_room() -> None:
    x = Scale(0, 100, 0, 100)
    assert [(text.text, text.get("class")) for text in ticks(x, [0, 1, 10, 20, 50, 99])] == [
        *(("0", "x"), ("10", "x roomy"), ("20", "x"), ("50", "x"), ("99", "x last")),
    ]
    days = [(1, "2026-10-20"), (25.5, "2026-10-27"), (50, "2026-11-03"), (74.5, "2026-11-11"), (99, "2026-11-18")]
    assert [text.get("class") for text in named_ticks(days, wide=2)] == ["x", "x roomy", "x", "x roomy", "x last"]


def test_a_point_is_text_whatever_it_is_of() -> None:
    drawn = point(1.5, 20.4, "<b>\u202e 5 s", "regressed", "down")
    assert drawn.attrib == {"x": "1.5%", "y": "20", "class": "regressed"}
    assert drawn.findtext("title") == "<b> 5 s"


def test_a_picture_with_links_is_no_image() -> None:
    svg = ET.Element("svg")
    assert [element.get("role") for element in figure("Jobs", svg, "jobs of a night").iter("svg")] == ["img"]
    svg.append(point(1, 1, "5 s", link="x.html"))
    shown = figure("Jobs", svg, "jobs of a night")
    assert shown[-1].get("role") == "group"
    assert shown[-1].get("aria-label") == "jobs of a night"


def test_each_sign_of_an_outcome_is_its_own_in_pictures_and_texts() -> None:
    of_outcomes = {one.shape for one in attention.ATTENTIONS if one.shape}
    assert (attention.REGRESSED.shape, attention.IMPROVED.shape) == ("down", "up")
    assert of_outcomes.isdisjoint(shape for _, shape in CURVES)


def test_the_judged_run_is_on_top_of_all_others(tmp_path: Path) -> None:
    before = [row(SLOW.row.id, CURRENT_RUN - 2), failed(SLOW.row.id, "job 7 ended NODE_FAIL", CURRENT_RUN - 1)]
    plot = drawn(history_plot(runs_of_slow(tmp_path, *before)))
    assert told_of(plot)[-1].startswith("5 s, ")
