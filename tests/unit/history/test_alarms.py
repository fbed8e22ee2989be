"""Alarms have one identity over runs, and who acknowledges one is not called for it again."""

from __future__ import annotations

import math
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
    identity,
    last_told,
)
from pytest_gsw.history.comparison import acknowledged_text, advice_line, cells, explaining, line_of, suspect_text
from pytest_gsw.history.row_history import SlowNode
from pytest_gsw.history.store import Event
from pytest_gsw.stats.verdict import Outcome, Verdict
from tests.unit.history.test_drift import DAY_S, FIRST_S, run

ROW = "llama2_70b_fp8[H100x64]"


def seen(number: int, loss: float = 0.1) -> Occurrence:
    return Occurrence(f"night-{number:03}", FIRST_S + DAY_S * number, -math.log1p(-loss))


def spell(*runs: Occurrence, **changes: object) -> IncidentPeriod:
    given: dict[str, object] = {
        "kind": Kind.REGRESSION,
        "cluster": "eos",
        "subject": ROW,
        "things": frozenset({f"{ROW} 0123"}),
        "token": "0123 night-040",
        "runs": runs,
        "begin_s": runs[0].time_s,
        "sd": 0.01,
        "is_newest": True,
        "last_s": 0.0,
        "usual": 0.0,
    }
    return IncidentPeriod(**{**given, **changes})  # type: ignore[arg-type]


def only(one: IncidentPeriod, *events: Event, now_s: float = FIRST_S) -> Alarm:
    (found,) = alarms([one], acknowledgements(events), now_s)
    return found


def known(one: IncidentPeriod, until_s: float = math.inf, number: int = 7) -> Event:
    event = acknowledge(only(one), why="a switch", owner="ops", until_s=until_s, time_s=FIRST_S)
    return replace(event, id=number)


def test_new_then_still_then_mended() -> None:
    first = spell(seen(40))
    later = spell(seen(40), seen(41), seen(42))
    mended = replace(later, mended_s=seen(44).time_s, is_newest=False)
    assert [only(one).state for one in (first, later, mended)] == [State.NEW, State.STILL, State.MENDED]
    assert [only(one).pages for one in (first, later, mended)] == [True, True, False]
    assert len({only(one).id for one in (first, later, mended)}) == 1


def test_a_run_that_was_good_is_not_the_alarm_s_newest() -> None:
    assert only(spell(seen(40), is_newest=False)).state is State.STILL


def test_what_comes_back_is_another_alarm() -> None:
    assert identity(spell(seen(40))) != identity(spell(seen(50), token="0123 night-050"))  # noqa: S106 - no password


@pytest.mark.parametrize("changes", [{"kind": Kind.DRIFT}, {"cluster": "selene"}, {"subject": "gpt3"}])
def test_what_is_of_something_else_is_another_alarm(changes: dict[str, object]) -> None:
    assert identity(spell(seen(40), **changes)) != identity(spell(seen(40)))


def test_worse_is_told_once_by_more_than_noise() -> None:
    runs = [seen(40), seen(41, 0.11), seen(42, 0.2), seen(43, 0.21)]
    assert [only(spell(*runs[:count])).state for count in (1, 2, 3, 4)] == [
        State.NEW,
        State.STILL,
        State.WORSE,
        State.STILL,
    ]
    assert only(spell(*runs[:3], sd=0.05)).state is State.STILL


def test_what_becomes_slowly_worse_is_held_against_what_was_told() -> None:
    assert last_told(spell(*(seen(40 + number, 0.1 + number * 0.005) for number in range(30)))) > 0


def test_acknowledged_it_pages_no_more_until_its_day_is_over() -> None:
    first, later = spell(seen(40)), spell(seen(40), seen(41))
    until_s = FIRST_S + 50 * DAY_S
    event = known(first, until_s)
    assert not only(later, event).pages
    assert only(later, event).state is State.STILL
    assert only(later, event).stands
    assert only(later, event, now_s=until_s).pages


def test_acknowledged_and_worse_it_pages_until_that_is_acknowledged() -> None:
    worse = spell(seen(40), seen(41, 0.3))
    later = spell(seen(40), seen(41, 0.3), seen(42, 0.3))
    assert only(worse, known(spell(seen(40)))).pages
    assert only(later, known(spell(seen(40)))).pages  # nobody has said that they know
    assert not only(later, known(spell(seen(40))), known(worse)).pages


def test_what_comes_back_is_not_acknowledged() -> None:
    event = known(spell(seen(40), seen(41)))
    again = spell(seen(50), token="0123 night-050")  # noqa: S106 - no password
    assert only(again, event).pages
    assert only(again, event).acknowledged is None


def test_an_acknowledgement_stays_where_the_beginning_turns_out_to_be_another() -> None:
    event = known(spell(seen(40), seen(41), seen(42)))
    moved = spell(seen(41), seen(42), seen(43), token="0123 night-041")  # noqa: S106 - no password
    assert only(moved, event).id == event.subject
    assert not only(moved, event).pages


def test_it_is_of_the_same_nodes_when_one_of_them_is_told_apart() -> None:
    several = spell(seen(40), kind=Kind.NODE, subject="one of n1, n2", things=frozenset({"n1", "n2"}), token="0")  # noqa: S106
    one = replace(several, subject="n2", things=frozenset({"n2"}))
    other = replace(several, subject="n3", things=frozenset({"n3"}))
    assert not only(one, known(several)).pages
    assert only(one, known(several)).id == only(several).id
    assert only(other, known(several)).pages


def test_of_another_kind_or_cluster_nothing_is_acknowledged() -> None:
    event = known(spell(seen(40)))
    assert only(spell(seen(40), kind=Kind.DRIFT), event).pages
    assert only(spell(seen(40), cluster="selene"), event).pages


@pytest.mark.parametrize("body", [{}, {"alarm": "noise"}, {"alarm": "drift", "things": 3}])
def test_what_cannot_be_read_acknowledges_nothing(body: dict[str, object]) -> None:
    event = known(spell(seen(40)))
    assert only(spell(seen(40)), replace(event, body={**(event.body if body else {}), **body})).pages


def test_those_that_page_come_first_and_mended_ones_last() -> None:
    drift = spell(seen(40, 0.03), kind=Kind.DRIFT)
    mended = spell(seen(20), token="0123 night-020", mended_s=seen(30).time_s)  # noqa: S106 - no password
    incident = spell(seen(40, 0.06), kind=Kind.INCIDENT, subject="eos", things=frozenset({"eos"}))
    found = alarms([mended, spell(seen(40)), drift, incident], acknowledgements([known(spell(seen(40)))]), FIRST_S)
    assert [(one.spell.kind, one.stands) for one in found] == [
        (Kind.INCIDENT, True),
        (Kind.DRIFT, True),
        (Kind.REGRESSION, True),
        (Kind.REGRESSION, False),
    ]


def test_texts() -> None:
    one = spell(seen(40), seen(41))
    until_s = FIRST_S + 60 * DAY_S
    alarm = only(one, known(one, until_s))
    assert alarm.change == pytest.approx(-0.1)
    assert cells(alarm)[1:6] == ("regression", "still", ROW, "eos", "-10.0 %")
    assert acknowledged_text(alarm).endswith(": a switch")
    assert acknowledged_text(alarm).startswith("ops until 2026-")
    assert acknowledged_text(only(one, known(one, until_s), now_s=until_s)).endswith("a switch (pages again)")
    assert line_of(only(one)).startswith(f"{alarm.id}  still regression of {ROW}: -10.0 % since 2026-")
    once = only(replace(one, good_runs=1, ends_after=2, is_newest=False))
    assert cells(once)[2] == "still (1 of 2 passes)"
    assert line_of(once).startswith(f"{alarm.id}  still (1 of 2 passes) regression of {ROW}: -10.0 % since 2026-")
    incident = only(replace(one, kind=Kind.INCIDENT, good_runs=1, ends_after=3, is_newest=False))
    assert cells(incident)[2] == "still (1 of 3 runs without it)"
    over = only(replace(one, good_runs=0, mended_s=seen(43).time_s))
    assert cells(over)[2] == f"over since {minute(seen(43).time_s)}"
    assert line_of(over) == f"{over.id}  regression of {ROW}: {cells(over)[2]}"
    assert acknowledged_text(only(one)) == ""


def test_a_row_that_was_never_fast_enough_is_told_how_to_accept_that() -> None:
    seen_runs = [seen(number) for number in range(3)]
    always = spell(*seen_runs, usual=None, is_always=True)
    assert only(always).change is None
    never = f"{ROW} was never within its tolerance on eos; if that is how it is"
    assert advice_line(only(always)) == f"{never}, 5 runs are needed for the figure that it may have there"
    six = spell(*[seen(number) for number in range(6)], usual=None, is_always=True)
    runs = " ".join(seen(number).run_id for number in range(1, 6))
    assert advice_line(only(six)) == f"{never}: pytest-gsw baseline propose '--row={ROW}' --cluster=eos {runs}"
    on_demo = replace(six, cluster="demo")
    assert advice_line(only(on_demo)) == ""
    assert advice_line(only(spell(*seen_runs[:2], usual=None, is_always=True))) == ""
    assert advice_line(only(spell(*seen_runs))) == ""


ACCUSING = tuple(run(number, nodes="n[1-4]") for number in range(41))
SLOW = SlowNode(("n2",), -0.098, ACCUSING, (), mended=False)
NOW_S = ACCUSING[-1].time_s + 86400


def verdict(*throughputs: float, limit: float | None = None) -> Verdict:
    times_s = tuple(1 / one for one in throughputs)
    median_s = sorted(times_s)[len(times_s) // 2]
    return Verdict(Outcome.REGRESSED, median_s, 1.0, 0.05, jobs_s=times_s, limit=limit)


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


def test_the_limit_counts_where_it_is_wider_than_the_tolerance() -> None:
    assert explaining([SLOW], verdict(0.83, limit=0.1), [("n2", NOW_S)]) is SLOW
    assert explaining([SLOW], verdict(0.83), [("n2", NOW_S)]) is None


def test_the_node_that_explains_is_told_and_not_the_other() -> None:
    other = replace(SLOW, nodes=("n30",))
    assert explaining([other, SLOW], verdict(0.9), [("n[1-8]", NOW_S)]) is SLOW


def test_a_job_before_the_node_was_slow_is_not_explained() -> None:
    assert explaining([SLOW], verdict(0.9), [("n2", ACCUSING[0].time_s - 1)]) is None


def test_a_verdict_of_other_jobs_is_not_explained() -> None:
    assert explaining([SLOW], verdict(0.9, 0.9), [("n2", NOW_S)]) is None
    bare = Verdict(Outcome.REGRESSED, 1 / 0.9, 1.0, 0.05)
    assert explaining([SLOW], bare, [("n2", NOW_S)]) is SLOW


def test_in_words() -> None:
    assert suspect_text(SLOW) == "node n2 (-9.8 %, 41 jobs)"
    assert suspect_text(replace(SLOW, nodes=("n2", "n3", "n4"), accusing=ACCUSING[:1])) == (
        "one of n[2-4] (-9.8 %, 1 job)"
    )
