"""Alarms have one identity over runs, and who acknowledges one is not called for it again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_gsw.common.text import minute
from pytest_gsw.history.alarms import (
    Alarm,
    IncidentPeriod,
    Kind,
    Occurrence,
    State,
    acknowledge,
    acknowledgements,
    alarms,
    drifts,
    identity,
    incident_periods_of,
    last_reported,
    regressions,
    slow_nodes,
)
from pytest_gsw.history.cluster_series import ClusterSeries
from pytest_gsw.history.comparison import acknowledged_text, advice_line, cells, explaining, line_of, suspect_text
from pytest_gsw.history.model import ExperimentKey, Point
from pytest_gsw.history.node_search import SlowNode
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.history.since import Period, periods
from pytest_gsw.history.store import Event
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import Verdict
from tests.unit.history.runs import ROW, period
from tests.unit.history.test_drift import DAY_S, FIRST_S, run
from tests.unit.history.test_row_history import restless


def periods_in(
    runs: Mapping[ExperimentKey, Sequence[Point]],
    excluded: Collection[str] = (),
    slow_before: Sequence[SlowNode] | None = None,
) -> tuple[IncidentPeriod, ...]:
    return incident_periods_of("eos", ClusterSeries(runs, excluded), slow_before)


def seen(number: int, loss: float = 0.1) -> Occurrence:
    return Occurrence(f"night-{number:03}", FIRST_S + DAY_S * number, -math.log1p(-loss))


def only(one: IncidentPeriod, *events: Event, now_s: float = FIRST_S) -> Alarm:
    (found,) = alarms([one], acknowledgements(events), now_s)
    return found


def known(one: IncidentPeriod, until_s: float = math.inf, number: int = 7) -> Event:
    event = acknowledge(only(one), why="a switch", owner="ops", until_s=until_s, time_s=FIRST_S)
    return replace(event, id=number)


def test_new_then_still_then_mended() -> None:
    first = period(seen(40))
    later = period(seen(40), seen(41), seen(42))
    recovered = replace(later, fixed_s=seen(44).time_s, is_newest=False)
    assert [only(one).state for one in (first, later, recovered)] == [State.NEW, State.ONGOING, State.FIXED]
    assert [only(one).pages for one in (first, later, recovered)] == [True, True, False]
    assert len({only(one).id for one in (first, later, recovered)}) == 1
    assert only(period(seen(40), is_newest=False)).state is State.ONGOING


@pytest.mark.parametrize("changes", [{"kind": Kind.DRIFT}, {"cluster": "selene"}, {"subject": "gpt3"}])
def test_what_is_of_something_else_is_another_alarm(changes: dict[str, object]) -> None:
    assert identity(period(seen(40), **changes)) != identity(period(seen(40)))


def test_worse_is_told_once_by_more_than_noise() -> None:
    runs = [seen(40), seen(41, 0.11), seen(42, 0.2), seen(43, 0.21)]
    assert [only(period(*runs[:count])).state for count in (1, 2, 3, 4)] == [
        State.NEW,
        State.ONGOING,
        State.WORSE,
        State.ONGOING,
    ]
    assert only(period(*runs[:3], sd=0.05)).state is State.ONGOING
    assert last_reported(period(*(seen(40 + number, 0.1 + number * 0.005) for number in range(30)))) > 0


def test_acknowledged_it_pages_no_more_until_its_day_is_over() -> None:
    first, later = period(seen(40)), period(seen(40), seen(41))
    until_s = FIRST_S + 50 * DAY_S
    event = known(first, until_s)
    assert not only(later, event).pages
    assert only(later, event).state is State.ONGOING
    assert only(later, event).is_active
    assert only(later, event, now_s=until_s).pages


def test_acknowledged_and_worse_it_pages_until_that_is_acknowledged() -> None:
    worse = period(seen(40), seen(41, 0.3))
    later = period(seen(40), seen(41, 0.3), seen(42, 0.3))
    assert only(worse, known(period(seen(40)))).pages
    assert only(later, known(period(seen(40)))).pages  # nobody has said that they know
    assert not only(later, known(period(seen(40))), known(worse)).pages


def test_what_comes_back_and_what_is_of_something_else_is_not_acknowledged() -> None:
    event = known(period(seen(40), seen(41)))
    again = period(seen(50), token="0123 night-050")  # noqa: S106 - no password
    assert only(again, event).pages
    assert only(again, event).acknowledged is None
    event = known(period(seen(40)))
    assert only(period(seen(40), kind=Kind.DRIFT), event).pages
    assert only(period(seen(40), cluster="selene"), event).pages


def test_an_acknowledgement_stays_where_the_beginning_turns_out_to_be_another() -> None:
    event = known(period(seen(40), seen(41), seen(42)))
    moved = period(seen(41), seen(42), seen(43), token="0123 night-041")  # noqa: S106 - no password
    assert only(moved, event).id == event.subject
    assert not only(moved, event).pages


def test_it_is_of_the_same_nodes_when_one_of_them_is_told_apart() -> None:
    several = period(seen(40), kind=Kind.NODE, subject="one of n1, n2", things=frozenset({"n1", "n2"}), token="0")  # noqa: S106
    one = replace(several, subject="n2", things=frozenset({"n2"}))
    other = replace(several, subject="n3", things=frozenset({"n3"}))
    assert not only(one, known(several)).pages
    assert only(one, known(several)).id == only(several).id
    assert only(other, known(several)).pages


@pytest.mark.parametrize("body", [{}, {"alarm": "noise"}, {"alarm": "drift", "things": 3}])
def test_what_cannot_be_read_acknowledges_nothing(body: dict[str, object]) -> None:
    event = known(period(seen(40)))
    assert only(period(seen(40)), replace(event, body={**(event.body if body else {}), **body})).pages


def test_those_that_page_come_first_and_mended_ones_last() -> None:
    drift = period(seen(40, 0.03), kind=Kind.DRIFT)
    recovered = period(seen(20), token="0123 night-020", fixed_s=seen(30).time_s)  # noqa: S106 - no password
    incident = period(seen(40, 0.06), kind=Kind.INCIDENT, subject="eos", things=frozenset({"eos"}))
    found = alarms([recovered, period(seen(40)), drift, incident], acknowledgements([known(period(seen(40)))]), FIRST_S)
    assert [(one.period.kind, one.is_active) for one in found] == [
        (Kind.INCIDENT, True),
        (Kind.DRIFT, True),
        (Kind.REGRESSION, True),
        (Kind.REGRESSION, False),
    ]


def test_texts() -> None:
    one = period(seen(40), seen(41))
    until_s = FIRST_S + 60 * DAY_S
    alarm = only(one, known(one, until_s))
    assert alarm.change == pytest.approx(-0.1)
    assert cells(alarm)[1:6] == ("regression", "ongoing", ROW, "eos", "-10.0 %")
    assert acknowledged_text(alarm).endswith(": a switch")
    assert acknowledged_text(alarm).startswith("ops until 2026-")
    assert acknowledged_text(only(one, known(one, until_s), now_s=until_s)).endswith("a switch (pages again)")
    assert line_of(only(one)).startswith(f"{alarm.id}  ongoing regression of {ROW}: -10.0 % vs usual since 2026-")
    once = only(replace(one, good_runs=1, ends_after=2, is_newest=False))
    assert cells(once)[2] == "ongoing (1 of 2 passes)"
    assert line_of(once).startswith(
        f"{alarm.id}  ongoing (1 of 2 passes) regression of {ROW}: -10.0 % vs usual since 2026-"
    )
    over = only(replace(one, good_runs=0, fixed_s=seen(43).time_s))
    assert cells(over)[2] == f"fixed {minute(seen(43).time_s)}"
    assert line_of(over) == f"{over.id}  regression of {ROW}: {cells(over)[2]}"
    assert acknowledged_text(only(one)) == ""


def test_a_row_that_was_never_fast_enough_is_told_how_to_accept_that() -> None:
    seen_runs = [seen(number) for number in range(3)]
    always = period(*seen_runs, usual=None, is_always=True)
    assert only(always).change is None
    never = f"{ROW} was never within its tolerance on eos; if that is how it is"
    assert advice_line(only(always)) == f"{never}, 5 runs are needed for the figure that it may have there"
    six = period(*[seen(number) for number in range(6)], usual=None, is_always=True)
    runs = " ".join(seen(number).run_id for number in range(1, 6))
    assert advice_line(only(six)) == f"{never}: pytest-gsw baseline propose '--row={ROW}' --cluster=eos {runs}"
    on_demo = replace(six, cluster="demo")
    assert advice_line(only(on_demo)) == ""
    assert advice_line(only(period(*seen_runs[:2], usual=None, is_always=True))) == ""
    assert advice_line(only(period(*seen_runs))) == ""


SLOW_JOBS = tuple(run(number, nodes="n[1-4]") for number in range(41))
SLOW = SlowNode(("n2",), -0.098, SLOW_JOBS, (), recovered=False)
NOW_S = SLOW_JOBS[-1].time_s + 86400


def verdict(*throughputs: float, limit: float | None = None) -> Verdict:
    times_s = tuple(1 / one for one in throughputs)
    median_s = sorted(times_s)[len(times_s) // 2]
    return Verdict(Outcome.REGRESSED, median_s, 1.0, 0.05, jobs=times_s, limit=limit)


@pytest.mark.parametrize(
    ("throughputs", "nodes", "explained"),
    [
        ((0.9,), ("n[1-8]",), True),
        ((0.9,), ("n[3-8]",), False),  # it ran elsewhere
        ((0.8,), ("n[1-8]",), False),  # it lost more than the node costs
        ((0.9, 0.89, 0.9), ("n[1-8]", "n2", "n[2-3]"), True),
        ((0.9, 0.89, 0.9), ("n[1-8]", "n9", "n[3-4]"), False),  # as slow without it
        ((0.9, 1.0, 0.9), ("n[1-8]", "n9", "n[2-3]"), True),
    ],
)
def test_what_a_slow_node_explains(throughputs: tuple[float, ...], nodes: tuple[str, ...], explained: bool) -> None:
    found = explaining([SLOW], verdict(*throughputs), [(one, NOW_S) for one in nodes])
    assert found == (SLOW if explained else None)


def test_by_its_limit_its_nodes_and_its_own_jobs_a_verdict_is_explained() -> None:
    assert explaining([SLOW], verdict(0.83, limit=0.1), [("n2", NOW_S)]) is SLOW
    assert explaining([SLOW], verdict(0.83), [("n2", NOW_S)]) is None
    other = replace(SLOW, nodes=("n30",))
    assert explaining([other, SLOW], verdict(0.9), [("n[1-8]", NOW_S)]) is SLOW
    assert explaining([SLOW], verdict(0.9), [("n2", SLOW_JOBS[0].time_s - 1)]) is None
    assert explaining([SLOW], verdict(0.9, 0.9), [("n2", NOW_S)]) is None
    bare = Verdict(Outcome.REGRESSED, 1 / 0.9, 1.0, 0.05)
    assert explaining([SLOW], bare, [("n2", NOW_S)]) is SLOW


def test_in_words() -> None:
    assert suspect_text(SLOW) == "node n2 (-9.8 %, 41 jobs)"
    assert suspect_text(replace(SLOW, nodes=("n2", "n3", "n4"), slow_jobs=SLOW_JOBS[:1])) == (
        "one of n[2-4] (-9.8 %, 1 job)"
    )


# -- by a row's points -----------------------------------------------------------------------------

KEY = ExperimentKey("llama2_70b_fp8[H100x64]", "eos", "0123")


def slow(number: int, seconds: float = 1.12, **changes: object) -> Point:
    return run(number, seconds, outcome="regressed", **changes)


@pytest.mark.parametrize(
    ("wrong", "good_runs", "found"),
    [
        ("", 1, ()),
        ("...", 1, ()),
        ("..xx", 1, (Period((2, 3), None),)),
        ("x.x", 1, (Period((0,), 1), Period((2,), None))),
        ("x.x..", 2, (Period((0, 2), 4),)),
        ("?x?..", 2, (Period((1, 2), 4),)),
        ("x.?.x", 2, (Period((0, 2), 3), Period((4,), None))),
        ("???", 2, ()),
        ("x.", 2, (Period((0,), None, good=1),)),
        ("x.x", 2, (Period((0, 2), None),)),
        ("x..x.?", 3, (Period((0, 3, 5), None, good=1),)),
    ],
)
def test_episodes(wrong: str, good_runs: int, found: tuple[Period, ...]) -> None:
    assert periods([{"x": True, ".": False, "?": None}[one] for one in wrong], good_runs) == found


def of(runs: Sequence[Point]) -> tuple[IncidentPeriod, ...]:
    return tuple(regressions(KEY, RowHistory(tuple(runs))))


def test_a_regression_has_one_identity_on_all_its_runs() -> None:
    runs = [*restless(40), *(slow(number) for number in range(40, 46))]
    found = [of(runs[:count]) for count in range(41, 47)]
    assert [len(one) for one in found] == [1] * 6
    assert len({identity(one) for (one,) in found}) == 1
    states = [alarms(one, (), 0.0)[0].state for one in found]
    assert states == [State.NEW, *[State.ONGOING] * 5]
    (last,) = found[-1]
    assert alarms([last], (), 0.0)[0].change == pytest.approx(-0.107, abs=0.02)


def test_a_regression_that_comes_back_within_a_week_goes_on() -> None:
    runs = [*restless(40), slow(40), *restless(8, begin=41), slow(49)]
    (recovered,) = of(runs[:43])
    (back,) = of(runs)
    assert (recovered.fixed_s, back.fixed_s) == (runs[42].time_s, None)
    assert identity(recovered) == identity(back)
    assert [one.run_id for one in back.runs] == ["night-040", "night-049"]


def test_a_regression_that_is_mended_and_comes_back_is_another() -> None:
    runs = [*restless(40), slow(40), *restless(9, begin=41), slow(50)]
    recovered, back = of(runs)
    assert recovered.fixed_s == runs[42].time_s
    assert back.fixed_s is None
    assert identity(recovered) != identity(back)
    assert back.begin_s > recovered.runs[-1].time_s


def test_one_good_run_mends_nothing() -> None:
    (one,) = of([*restless(40), slow(40), *restless(1, begin=41)])
    assert (one.fixed_s, one.is_newest, one.good_runs, one.ends_after) == (None, False, 1, 2)


def test_a_run_has_the_median_of_its_jobs_and_runs_that_say_nothing_do_not_count() -> None:
    jobs = [slow(40, seconds, job_id=f"{seconds}") for seconds in (1.3, 1.12, 1.11)]
    (one,) = of([*restless(40), *jobs, slow(41, 2.0, reason="canary")])
    assert [seen.run_id for seen in one.runs] == ["night-040"]
    assert one.runs[0].level == pytest.approx(math.log(1.12))
    assert one.is_newest


def test_a_cluster_that_was_never_fast_enough() -> None:
    (one,) = of([slow(number) for number in range(5)])
    assert one.is_always
    assert one.usual is None
    (one,) = of([slow(0), run(1), slow(2)])
    assert not one.is_always


def creep(count: int, begin: int = 45, seed: int = 0) -> list[Point]:
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    return [
        run(number, math.exp(rng.gauss(0, 0.01) + 0.002 * max(0, number - begin)), definition="0123")
        for number in range(count)
    ]


def of_drift(runs: Sequence[Point]) -> tuple[IncidentPeriod, ...]:
    return tuple(drifts(KEY, RowHistory(tuple(runs))))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(5))
def test_a_creep_has_one_identity_although_its_beginning_is_found_more_sharply(seed: int) -> None:
    runs = creep(93, seed=seed)
    found = [of_drift(runs[:count]) for count in range(40, 94)]
    periods = [one[-1] for one in found if one]
    assert len(periods) > 20
    assert len({identity(one) for one in periods}) == 1
    assert len({alarms([one], (), 0.0)[0].since.time_s for one in periods}) > 1
    assert alarms([periods[0]], (), 0.0)[0].state is State.NEW
    assert {alarms([one], (), 0.0)[0].state for one in periods[1:]} <= {State.ONGOING, State.WORSE}


def test_a_drift_that_is_mended_and_comes_back_is_another() -> None:
    rng = random.Random(3)  # noqa: S311 - noise, not cryptography
    levels = [0.0] * 40 + [0.05] * 25 + [0.0] * 40 + [0.05] * 25
    runs = [run(number, math.exp(level + rng.gauss(0, 0.01))) for number, level in enumerate(levels)]
    recovered, back = of_drift(runs)
    assert recovered.fixed_s is not None
    assert back.fixed_s is None
    assert recovered.fixed_s <= back.begin_s
    assert identity(recovered) != identity(back)


def of_row(*levels: tuple[int, float], sigma: float = 0.01, seed: int = 3) -> dict[ExperimentKey, list[Point]]:
    """Runs of a row at one level after another, as logarithms; it regresses beyond the tolerance."""
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    losses = [level for count, level in levels for _ in range(count)]
    make = [slow if level > 0.05 else run for level in losses]
    values = [math.exp(level + rng.gauss(0, sigma)) for level in losses]
    return {KEY: [make[number](number, value, definition="0123") for number, value in enumerate(values)]}


def by_kind(runs: Mapping[ExperimentKey, Sequence[Point]], *events: Event) -> dict[Kind, Alarm]:
    return {one.period.kind: one for one in alarms(periods_in(runs), acknowledgements(events), 0.0)}


@pytest.mark.parametrize("slow_runs", [9, 25])
def test_a_drift_is_part_of_the_regression_that_it_began_with(slow_runs: int) -> None:
    found = by_kind(of_row((45, 0.0), (slow_runs, 0.11)))
    regression, drift = found[Kind.REGRESSION], found[Kind.DRIFT]
    assert (drift.part_of, drift.pages, regression.part_of, regression.pages) == (regression.id, False, "", True)


@pytest.mark.parametrize("good_runs", [2, 3, 5, 8])
def test_a_drift_ends_with_the_regression_that_it_began_with(good_runs: int) -> None:
    found = by_kind(of_row((45, 0.0), (15, 0.11), (good_runs, 0.0)))
    assert {kind: one.state for kind, one in found.items()} == dict.fromkeys((Kind.REGRESSION, Kind.DRIFT), State.FIXED)


@pytest.mark.parametrize("good_runs", [2, 3, 5, 8, 15])
def test_a_drift_that_goes_on_after_the_fix_of_its_regression_pages(good_runs: int) -> None:
    drift = by_kind(of_row((45, 0.0), (15, 0.11), (good_runs, 0.04)))[Kind.DRIFT]
    assert (drift.pages, drift.part_of) == (True, "")


def test_a_drift_is_no_part_of_a_younger_regression() -> None:
    found = by_kind(of_row((45, 0.0), (25, 0.03), (3, 0.15)))
    assert {kind: (one.pages, one.part_of) for kind, one in found.items()} == {
        Kind.REGRESSION: (True, ""),
        Kind.DRIFT: (True, ""),
    }


def test_a_regression_within_the_noise_of_an_older_drift_is_part_of_it() -> None:
    found = by_kind(of_row((45, 0.0), (25, 0.04), (1, 0.06), (1, 0.04)))
    regression, drift = found[Kind.REGRESSION], found[Kind.DRIFT]
    assert (regression.part_of, regression.pages, drift.pages) == (drift.id, False, True)


@pytest.mark.parametrize("left", [1.0, 1.03])
@pytest.mark.parametrize("runs_since", [3, 5, 9])
def test_a_drift_of_the_cluster_ends_with_the_incident_that_it_began_with(runs_since: int, left: float) -> None:
    levels = [1.0] * 45 + [1.06] * 15 + [left] * runs_since
    drift = by_kind(of_cluster(len(levels), lambda number: levels[number]))[Kind.DRIFT]
    assert drift.is_active == (left > 1)


def rows_from(
    begins: Mapping[int, int],
    runs: int = 60,
    images: Mapping[int, int] | None = None,
    fixed: Mapping[int, int] | None = None,
    passed: Mapping[int, Mapping[int, float]] | None = None,
) -> dict[ExperimentKey, list[Point]]:
    """Runs of twelve rows, some of which regress from a run on; in some runs they pass, and some change their image."""
    rng = random.Random(3)  # noqa: S311 - noise, not cryptography
    found: dict[ExperimentKey, list[Point]] = {}
    for row in range(12):
        points = []
        for number in range(runs):
            is_slow = begins.get(row, runs) <= number < (fixed or {}).get(row, runs)
            by_chance = (passed or {}).get(row, {}).get(number)
            loss = 0.09 * is_slow if by_chance is None else by_chance
            make = slow if is_slow and by_chance is None else run
            image = "new" if number >= (images or {}).get(row, runs) else "old"
            points.append(make(number, math.exp(rng.gauss(0, 0.01) + loss), definition="0123", image=image))
        found[replace(KEY, row=f"row{row}")] = points
    return found


def rows_alarms(runs: Mapping[ExperimentKey, Sequence[Point]], *events: Event) -> tuple[Alarm, ...]:
    return alarms(periods_in(runs), acknowledgements(events), 0.0)


def paging(runs: Mapping[ExperimentKey, Sequence[Point]], *events: Event) -> dict[str, set[str]]:
    """The subjects of the alarms that page, with those of their parts."""
    found = rows_alarms(runs, *events)
    parts = {one.id: {of.period.subject for of in found if of.part_of == one.id} for one in found}
    return {one.period.subject: parts[one.id] - {one.period.subject} for one in found if one.pages}


@pytest.mark.parametrize(
    ("begins", "images", "pages"),
    [
        ({1: 45, 4: 45, 7: 45}, {}, {"row1": {"row4", "row7"}}),
        ({1: 45, 4: 46}, {}, {"row1": set(), "row4": set()}),
        ({1: 45, 4: 45, 7: 46, 8: 46}, {}, {"row1": {"row4"}, "row7": {"row8"}}),
        ({1: 45, 4: 45, 7: 45}, {1: 45, 4: 45}, {"row1": {"row4"}, "row7": set()}),
        ({1: 45, 4: 45}, {1: 45, 4: 45, 8: 45}, {"row1": {"row4"}}),
    ],
)
@pytest.mark.parametrize("runs", [47, 60])
def test_rows_that_began_in_one_run_page_once(
    begins: Mapping[int, int], images: Mapping[int, int], pages: Mapping[str, set[str]], runs: int
) -> None:
    assert paging(rows_from(begins, runs, images)) == pages


@pytest.mark.parametrize(("loss", "pages"), [(0.05, {"row1": {"row4"}}), (0.0, {"row1": set(), "row4": set()})])
def test_a_row_that_passed_by_chance_in_the_first_run_began_with_it(loss: float, pages: Mapping[str, set[str]]) -> None:
    runs = rows_from({1: 45, 4: 45}, 50, passed={4: {45: loss}})
    assert paging(runs) == pages
    late = next(
        one for one in rows_alarms({key: points[:47] for key, points in runs.items()}) if "4" in one.period.subject
    )
    assert late.state is State.NEW


def test_when_the_first_row_is_fixed_the_others_page() -> None:
    runs = rows_from({1: 45, 4: 45, 7: 45}, fixed={1: 50})
    assert paging(runs) == {"row4": {"row7"}}
    at_once = {key: points[:52] for key, points in runs.items()}
    assert paging(at_once) == {"row4": {"row7"}}


def test_a_new_row_is_no_part_of_an_alarm_that_was_just_fixed() -> None:
    assert paging(rows_from({1: 45, 4: 47}, 48, fixed={1: 46})) == {"row4": set()}


def test_a_row_that_is_raised_after_the_acknowledgement_pages() -> None:
    runs = rows_from({1: 45, 4: 45, 7: 45}, passed={7: {45: 0.07, 46: 0.07}})
    seen_by_owner = {key: points[:47] for key, points in runs.items()}
    (first,) = [one for one in rows_alarms(seen_by_owner) if one.pages]
    event = replace(acknowledge(first, why="a switch", owner="ops", until_s=2e10, time_s=FIRST_S), id=1)
    assert paging(seen_by_owner, event) == {}
    assert paging(runs) == {"row1": {"row4", "row7"}}
    assert paging(runs, event) == {"row7": set()}


@pytest.mark.parametrize(("loss", "is_part"), [(0.0, True), (0.025, False)])
def test_an_incident_that_slow_rows_explain_is_part_of_theirs(loss: float, is_part: bool) -> None:
    """The median of all rows is 2 % slower in the newest run; that of the others is so, or is not."""
    runs = rows_from(dict.fromkeys((1, 4, 7, 10), 45), runs=50)
    for row in (0, 2, 3, 5, 6, 8, 9, 11):
        points = runs[replace(KEY, row=f"row{row}")]
        points[-1] = replace(points[-1], judged=math.exp(0.02 if row < 4 else loss))
    found = by_kind(runs)
    assert found[Kind.INCIDENT].pages != is_part
    assert found[Kind.INCIDENT].part_of == (rows_alarms(runs)[0].id if is_part else "")


LIVES = {
    "regress": [(45, 0.0), (12, 0.11), (14, 0.0)],
    "goes on": [(45, 0.0), (12, 0.11), (14, 0.04)],
    "beside": [(45, 0.0), (20, 0.03), (8, 0.12), (12, 0.03)],
    "again": [(45, 0.0), *[(1, 0.11), (4, 0.0)] * 5],
}


@pytest.mark.parametrize("is_acknowledged", [False, True])
@pytest.mark.parametrize("life", LIVES)
def test_on_each_night_an_active_alarm_pages_or_is_acknowledged(life: str, is_acknowledged: bool) -> None:
    (points,) = of_row(*LIVES[life], sigma=0.015).values()
    events: list[Event] = []
    for count in range(45, len(points) + 1):
        found = alarms(periods_in({KEY: points[:count]}), acknowledgements(events), 0.0)
        active = [one for one in found if one.is_active and one.acknowledged is None]
        assert any(one.pages for one in found) or not active
        if is_acknowledged:
            told = [acknowledge(one, why="x", owner="y", until_s=2e10, time_s=1.0) for one in found if one.pages]
            events += (replace(one, id=len(events) + number) for number, one in enumerate(told, 1))


def suspect(*nodes: str, first: int = 30, recovered: bool = False) -> SlowNode:
    slow_jobs = tuple(run(number) for number in range(first, first + 4))
    return SlowNode(nodes, -0.1, slow_jobs, (run(first + 6),) if recovered else (), recovered)


def test_a_node_is_new_where_it_was_not_named_before() -> None:
    (new,) = slow_nodes("eos", [suspect("n1")], [])
    (still,) = slow_nodes("eos", [suspect("n1")], [suspect("n1", "n2")])
    assert [alarms([one], (), 0.0)[0].state for one in (new, still)] == [State.NEW, State.ONGOING]
    assert identity(new) == identity(still)
    assert alarms([new], (), 0.0)[0].change == pytest.approx(-0.1)


def test_a_node_that_is_mended_and_comes_back_is_another() -> None:
    recovered, back = slow_nodes("eos", [suspect("n1", first=50), suspect("n1", first=30, recovered=True)], [])
    assert recovered.fixed_s == run(36).time_s
    assert identity(recovered) != identity(back)
    assert back.begin_s == run(50).time_s


def test_all_that_is_wrong_on_a_cluster() -> None:
    runs = {
        KEY: [*restless(40), *(slow(number) for number in range(40, 46))],
        replace(KEY, row="other"): restless(46),
    }
    found = periods_in(runs)
    assert [(one.kind, one.subject) for one in found] == [(Kind.REGRESSION, KEY.row)]
    assert periods_in(runs, excluded=[f"night-{number:03}" for number in range(40, 46)]) == ()
    assert periods_in({}) == ()


def test_what_was_mended_long_ago_or_is_run_no_more_is_not_told() -> None:
    runs = [*restless(40), slow(40), *restless(4, begin=41)]
    assert len(periods_in({KEY: runs})) == 1
    assert periods_in({KEY: [*runs, *restless(10, begin=45)]}) == ()
    old = [replace(one, definition="before") for one in (*restless(40), slow(40))]
    new = [replace(one, definition="since") for one in restless(3, begin=42)]
    assert periods_in({KEY: old, replace(KEY, experiment="4567"): new}) == ()


def on_nodes(count: int, slow_node: str = "n1", *, is_pinned: bool = False) -> dict[ExperimentKey, list[Point]]:
    """Runs of rows that run on a few nodes in turns, one of which is slow from the thirtieth run on.

    One row mostly runs on that node, where it is pinned.
    """
    rng = random.Random(1)  # noqa: S311 - noise, not cryptography
    runs: dict[ExperimentKey, list[Point]] = {}
    for number in range(count):
        for row in range(9):
            nodes = [f"n{node}" for node in rng.sample(range(24), 4)]
            nodes = [slow_node, *nodes[1:]] if is_pinned and row == 0 and number % 8 else nodes
            loss = 0.1 if slow_node in nodes and number >= 30 else 0.0
            one = run(number, math.exp(rng.gauss(0, 0.01) + loss), definition="0123", nodes=",".join(nodes))
            job = replace(one, time_s=one.time_s + row, job_id=f"{number}-{row}")
            runs.setdefault(replace(KEY, row=f"row{row}"), []).append(job)
    return runs


def test_a_regression_that_a_slow_node_explains_is_part_of_the_node_s_alarm() -> None:
    runs = on_nodes(60)
    key = replace(KEY, row="row0")
    newest = replace(runs[key][-1], outcome="regressed", judged=1.1, nodes="n1,n30")
    other = replace(newest, judged=1.25)
    of_others = replace(newest, nodes="n30,n31")
    for point, is_part in ((newest, True), (other, False), (of_others, False)):
        found = alarms(periods_in({**runs, key: [*runs[key][:-1], point]}), (), 0.0)
        node = next(one for one in found if one.period.kind is Kind.NODE)
        (row,) = [one for one in found if one.period.kind is Kind.REGRESSION]
        assert (row.part_of, row.pages) == ((node.id, False) if is_part else ("", True))
        assert node.pages
        said = acknowledgements([replace(acknowledge(node, why="x", owner="y", until_s=2e10, time_s=1.0), id=1)])
        found = alarms([one.period for one in found], said, 0.0)
        (row,) = [one for one in found if one.period.kind is Kind.REGRESSION]
        assert (row.acknowledged is not None, row.pages) == (is_part, not is_part)


def test_nodes_that_are_known_to_be_slow_are_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = on_nodes(45)
    asked: list[object] = []
    read = ClusterSeries.nodes_of
    monkeypatch.setattr(ClusterSeries, "nodes_of", lambda *args: asked.append(args) or read(*args))
    (new,) = [one for one in periods_in(runs, slow_before=()) if one.kind is Kind.NODE]
    assert (new.subject, new.is_new, len(asked)) == ("n1", True, 1)
    (still,) = [one for one in periods_in(runs, slow_before=[suspect("n1")]) if one.kind is Kind.NODE]
    assert (still.is_new, len(asked)) == (False, 2)
    (found,) = [one for one in periods_in(runs) if one.kind is Kind.NODE]
    assert (found.is_new, len(asked)) == (False, 4)


def test_what_a_slow_node_costs_is_no_drift_of_rows() -> None:
    found = periods_in(on_nodes(90, is_pinned=True))
    assert [(one.kind, one.subject) for one in found] == [(Kind.NODE, "n1")]


@pytest.mark.parametrize(
    ("days", "is_away", "states"),
    [
        (1, False, [State.NEW]),
        (3, True, [State.ONGOING]),
        (29, True, [State.ONGOING]),
        (30, True, [State.GONE]),
        (38, True, []),
    ],
)
def test_a_row_that_is_run_no_more(days: int, is_away: bool, states: list[State]) -> None:
    runs = {KEY: [*restless(40), slow(40)], replace(KEY, row="other"): restless(41 + days)}
    found = alarms(periods_in(runs), (), 0.0)
    assert [one.state for one in found] == states
    for one in found:
        assert one.period.is_away == is_away
        assert one.period.last_s == run(40).time_s
        assert one.is_active == one.pages == (states != [State.GONE])


def test_a_row_that_is_run_again_and_is_still_slow_has_the_alarm_that_it_had() -> None:
    runs = {KEY: [*restless(40), slow(40)], replace(KEY, row="other"): restless(75)}
    (gone,) = alarms(periods_in(runs), (), 0.0)
    (back,) = alarms(periods_in({**runs, KEY: [*runs[KEY], slow(75)]}), (), 0.0)
    assert (gone.state, back.state) == (State.GONE, State.ONGOING)
    assert gone.id == back.id


def test_a_slow_node_that_runs_no_job_any_more() -> None:
    runs = on_nodes(45)
    more = on_nodes(80, slow_node="n24")  # nobody is
    away = {
        key: [*points, *(one for one in more[key] if one.time_s > points[-1].time_s and "n1," not in f"{one.nodes},")]
        for key, points in runs.items()
    }
    (one,) = [one for one in periods_in(away) if one.kind is Kind.NODE]
    assert one.last_s < run(45).time_s + 9
    assert one.gone_s == one.last_s + 30 * 86400


def of_cluster(runs: int, slower: Callable[[int], float]) -> dict[ExperimentKey, list[Point]]:
    """Runs of ten rows with 1 % of noise that are slower together."""
    rng = random.Random(3)  # noqa: S311 - noise, not cryptography
    return {
        replace(KEY, row=f"row{row}"): [
            replace(
                run(number, math.exp(rng.gauss(0, 0.01)) * slower(number), definition="0123"),
                environment={"driver": "560.28" if slower(number) > 1 else "550.54"},
            )
            for number in range(runs)
        ]
        for row in range(10)
    }


def test_an_incident_has_one_identity_and_its_rows_have_none() -> None:
    runs = of_cluster(60, lambda number: 1.06 if number >= 45 else 1.0)
    found = [periods_in({key: points[:count] for key, points in runs.items()}) for count in (46, 47, 60)]
    incident, creep = alarms(found[-1], (), 0.0)
    assert (incident.pages, creep.pages, creep.part_of) == (True, False, incident.id)
    assert [[(one.kind, one.subject) for one in periods] for periods in found] == [
        [(Kind.INCIDENT, "cluster eos")],
        [(Kind.INCIDENT, "cluster eos")],
        [(Kind.INCIDENT, "cluster eos"), (Kind.DRIFT, "cluster eos")],
    ]
    assert len({identity(periods[0]) for periods in found}) == 1
    (new, _) = (alarms(periods[:1], (), 0.0)[0] for periods in found[:2])
    assert (new.state, new.pages) == (State.NEW, True)
    assert new.change == pytest.approx(1 / 1.06 - 1, abs=0.01)
    assert new.since.changes == {"driver": ("550.54", "560.28")}


def test_an_incident_that_comes_each_monday_is_one_that_goes_on() -> None:
    runs = of_cluster(63, lambda number: 1.06 if number % 7 == 6 and number > 30 else 1.0)
    (incident,) = [one for one in periods_in(runs) if one.kind is Kind.INCIDENT]
    assert [one.run_id for one in incident.runs] == [f"night-0{number}" for number in (34, 41, 48, 55, 62)]
    first = {key: points[:35] for key, points in runs.items()}
    (new,) = alarms(periods_in(first), (), 0.0)
    said = acknowledgements([replace(acknowledge(new, why="x", owner="y", until_s=2e10, time_s=1.0), id=1)])
    for count, state in ((35, State.NEW), (36, State.FIXED), (42, State.ONGOING), (63, State.ONGOING)):
        (one,) = alarms(periods_in({key: points[:count] for key, points in runs.items()}), said, 0.0)
        assert (one.id, one.state, one.pages) == (new.id, state, False)


def test_an_incident_ends_with_one_run_without_it_and_a_later_one_is_another() -> None:
    runs = of_cluster(53, lambda number: 1.06 if number in {40, 42, 52} else 1.0)
    (recovered,) = periods_in({key: points[:46] for key, points in runs.items()})
    (back,) = periods_in(runs)
    assert [one.run_id for one in recovered.runs] == ["night-040", "night-042"]
    assert recovered.fixed_s == run(43).time_s
    assert back.fixed_s is None
    assert identity(recovered) != identity(back)


def test_a_creep_of_the_whole_cluster_is_one_alarm() -> None:
    runs = of_cluster(80, lambda number: 1.01 ** (max(0, number - 40) / 7))
    found = [one for one in periods_in(runs) if one.fixed_s is None]
    assert {(one.kind, one.subject) for one in found} <= {
        (Kind.DRIFT, "cluster eos"),
        (Kind.INCIDENT, "cluster eos"),
    }
    assert any(one.kind is Kind.DRIFT for one in found)
