"""Which runs of a row count, and what follows from them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.history.alarms import State, alarms_of, regressions
from pytest_gsw.history.cluster_series import ClusterSeries, histories_of_records, newest_histories, series_of_cluster
from pytest_gsw.history.location import open_history
from pytest_gsw.history.model import ExperimentKey, Point
from pytest_gsw.history.node_search import KnownGoodNodes, SlowNode
from pytest_gsw.history.row_history import ClusterHistory, RowHistory
from pytest_gsw.history.since import Period
from pytest_gsw.history.store import Event
from pytest_gsw.results.record import AmongTiles, Record
from pytest_gsw.stats.cluster_effect import decide_adjusted
from pytest_gsw.stats.decision import Outcome, decide
from pytest_gsw.stats.noise import REFERENCE_JOBS, Noise, prior_for
from pytest_gsw.stats.sweep_finding import SweepFinding
from pytest_gsw.tables.model import Accepted
from tests.unit.history.runs import DAY_S, FIRST_S, KEY, job
from tests.unit.history.runs import run_record as record
from tests.unit.history.test_drift import drivers, run


def restless(count: int, level_s: float = 1.0, begin: int = 0, sigma: float = 0.02) -> list[Point]:
    rng = random.Random(5)  # noqa: S311 - noise, not cryptography
    return [run(begin + number, level_s * (1 + rng.gauss(0, sigma))) for number in range(count)]


def sigma_of(points: list[Point], **changes: object) -> float:
    noise = replace(RowHistory(tuple(points)), **changes).noise()  # type: ignore[arg-type]
    assert noise is not None
    return noise.sigma


def test_a_row_without_runs_has_no_noise_and_one_with_few_what_its_tolerance_says() -> None:
    assert RowHistory().noise(0.02) is None
    assert RowHistory((run(0),)).noise(0.02) == prior_for(0.02)


def test_a_loss_does_not_widen_its_own_interval() -> None:
    # 45 good runs, then two at -10 % with three jobs each.
    good = restless(45)
    slow = [run(n, 1.11, job_id=f"{n}-{job}", outcome="regressed") for n in (45, 46) for job in range(3)]
    assert sigma_of([*good, *slow]) == sigma_of(good)
    # All runs failed, because the row's document is of a faster cluster.
    runs = [replace(one, outcome="regressed") for one in restless(20)]
    assert RowHistory(tuple(runs)).noise() == RowHistory(tuple(restless(20))).noise()


def test_an_accepted_figure_keeps_the_noise() -> None:
    # 20 runs of three jobs each, slower than the document, whose last three runs were accepted.
    runs = [replace(one, job_id=f"{one.job_id}-{job}", outcome="regressed") for one in restless(20) for job in range(3)]
    ids = ", ".join(one.job_id for one in runs[-9:])
    figure = Accepted("eos", 1.0, jobs=9, spread=0.01, job_ids=ids, date="2026-09-20", definition="3f2a9c1d0e4b")
    past = RowHistory(tuple(runs), figure)
    assert len(past.counted) == 3
    found = past.noise()
    assert found is not None
    assert found.jobs == 20
    assert found.sigma == pytest.approx(0.02, rel=0.3)


def test_an_import_of_older_runs_does_not_move_a_complete_reference() -> None:
    kept = [replace(one, added_s=100.0 + n) for n, one in enumerate(restless(40, begin=50))]
    older = [replace(one, added_s=1000.0) for one in restless(50, level_s=0.9)]
    past = RowHistory((*older, *kept))
    assert past.reference == tuple(kept[:REFERENCE_JOBS])
    assert past.counted == tuple(kept)
    assert past.runs == (*older, *kept)  # they are shown all the same
    assert past.noise() == RowHistory(tuple(kept)).noise()
    kept = [replace(one, added_s=100.0 + n) for n, one in enumerate(restless(10, begin=50))]
    older = [replace(one, added_s=1000.0) for one in restless(50)]
    assert RowHistory((*older, *kept)).reference == tuple(older[:REFERENCE_JOBS])
    runs = restless(50)
    assert RowHistory(tuple(runs)).counted == tuple(runs)


def test_current_run_comes_last_and_excluded_runs_do_not_count() -> None:
    kept = restless(40)
    current_run = run(41, 1.5)
    assert RowHistory(tuple(kept)).including_run([current_run]).counted == (*kept, current_run)
    assert RowHistory((*kept, current_run)).without(current_run.run_id).points == tuple(kept)
    assert RowHistory(tuple(kept)).without("", kept[3].time_s).points == tuple(kept[:4])
    runs = restless(12)
    past = RowHistory(tuple(runs), excluded={runs[3].run_id})
    assert past.runs == past.counted == (*runs[:3], *runs[4:])
    assert past.points == tuple(runs)


def with_slow_node(points: list[Point], *numbers: int) -> tuple[RowHistory, SlowNode]:
    """A past of which these jobs ran on n2, which is slow, and took 10 % longer."""
    ran = [
        replace(one, nodes="n[1-2]", judged=one.judged * 1.1) if number in numbers else one
        for number, one in enumerate(points)
    ]
    suspect = SlowNode(("n2",), -0.09, tuple(ran[number] for number in numbers), (), recovered=False)
    return RowHistory(tuple(ran), slow=[suspect]), suspect


def test_jobs_with_a_slow_node_are_neither_drift_nor_noise_of_their_row() -> None:
    past, _ = with_slow_node(restless(50), *range(38, 50))
    assert replace(past, slow=()).drifting is not None
    assert past.drifting is None
    assert past.counted == past.points[:38]
    assert past.runs == past.points  # they are shown all the same
    points = restless(25)
    past, _ = with_slow_node(points, *range(3, 25, 2))
    assert past.noise() == RowHistory((*points[:3], *points[4::2])).noise() != replace(past, slow=()).noise()


def test_a_row_is_slow_since_the_first_run_that_a_slow_node_does_not_explain() -> None:
    past, suspect = with_slow_node(restless(20), 4, 8, 11)
    runs = [replace(one, environment={"driver": "560" if n > 9 else "550"}) for n, one in enumerate(past.points)]
    slow = [replace(one, judged=one.judged * 1.08) if n in {11, 13, 14} else one for n, one in enumerate(runs)]
    wrong = [replace(one, outcome="regressed") if n in {4, 8, 11, 13, 14} else one for n, one in enumerate(slow)]
    since = RowHistory(tuple(wrong[:15]), slow=[suspect]).since
    assert since is not None
    # n2 alone explains the first two, and not the third.
    assert (since.time_s, since.runs) == (wrong[11].begin_s, 3)
    without = RowHistory(tuple(wrong[:9]), slow=[suspect]).since
    assert without is not None
    assert without.time_s == wrong[8].begin_s


def test_the_first_job_of_a_run_that_ran_without_a_slow_node_is_the_run() -> None:
    past, _ = with_slow_node(restless(12), 11)
    other = replace(past.points[11], job_id="77", nodes="n[3-4]", judged=1.0)
    assert replace(past, points=(*past.points, other)).counted == (*past.points[:11], other)


def test_a_slow_node_says_nothing_against_the_jobs_before_it_and_those_of_others() -> None:
    past, suspect = with_slow_node(restless(12), 8, 9)
    ran = [suspect.ran_in("n[1-2]", one.time_s) for one in past.points]
    assert ran == [False] * 8 + [True] * 4
    assert not suspect.ran_in("n[3-20]", past.points[8].time_s)
    recovered = replace(suspect, recovered=True)
    assert [recovered.ran_in("n2", one.time_s) for one in past.points] == [False] * 8 + [True] * 2 + [False] * 2
    several = replace(suspect, nodes=("n2", "n3"))
    assert [several.ran_in(nodes, past.points[8].time_s) for nodes in ("n2", "n[2-3]")] == [False, True]


def test_current_run_with_a_slow_node_says_nothing_of_its_row() -> None:
    past, _ = with_slow_node(restless(12), 11)
    current_run = run(13, 1.2, nodes="n[2-5]")
    assert past.including_run([current_run]).counted == past.points[:11]
    assert past.including_run([replace(current_run, nodes="n[3-6]")]).counted[-1].time_s == current_run.time_s


def test_a_line_is_of_an_experiment_and_of_its_definition() -> None:
    old, new, other = run(0, definition="old"), run(1, definition="new"), run(2, definition="other")
    runs = {
        ExperimentKey("row", "eos", "old"): (old,),
        ExperimentKey("row", "eos", "one"): (new,),
        ExperimentKey("row", "eos", "two"): (other,),
    }
    lines = ClusterSeries(runs)
    assert lines.past("row", "new", "one").points == (new,)
    assert lines.past("row", "old", "one").points == (old, new)  # whose series says of no experiment
    assert lines.past("row", "newer", "two").points == (other,)
    assert lines.past("row", "new", "").points == (new,)
    assert lines.past("row", "newer", "") == lines.past("none", "new", "one") == RowHistory()


def test_a_new_image_goes_on_with_the_runs_of_the_old_one(tmp_path: Path) -> None:
    kept = [record(number, 5 + number % 3 / 50, experiment="aaaaaaaaaaaa") for number in range(12)]
    renewed = record(12, 5.1, experiment="aaaaaaaaaaaa", definition="ffffffffffff", image="new")
    with open_history(tmp_path / "h.sqlite") as history:
        history.add(kept)
        (past,) = histories_of_records(history, [renewed]).values()
        assert len(past.points) == 12
        assert past.noise() != Noise(0.0165, 0)
        history.add([renewed])
        assert {
            key.definition: len(past.points) for key, past in newest_histories(history, history.series()).items()
        } == {"ffffffffffff": 13}
        history.decide(Event("exclude", kept[0].run.id, "eos", 1.0, {"why": "a switch was down"}))
        assert len(histories_of_records(history, kept)[KEY].runs) == 12
    assert histories_of_records(history, []) == {}


def test_the_jobs_of_a_newest_run_that_failed() -> None:
    slow = [run(12, 1.1 + job / 100, job_id=f"{job}", outcome="regressed") for job in range(3)]
    assert RowHistory((*restless(12), *slow)).previous_failed == (1.1, 1.11, 1.12)
    assert RowHistory((*restless(12), *slow, run(13))).previous_failed == ()
    assert RowHistory((*restless(12), *slow), excluded={slow[0].run_id}).previous_failed == ()
    assert RowHistory().previous_failed == ()


def compared(values: str) -> list[tuple[str, int, int]]:
    """Of each event of these drivers what changed, and how many runs are compared: before, since."""
    return [
        ("".join(one.named["driver"]), one.runs_before, one.runs_since)
        for one in RowHistory(tuple(drivers(values))).changes
    ]


def test_a_setting_that_is_taken_back_keeps_what_it_cost() -> None:
    runs = [replace(one, judged=1.1 if number == 4 else 1.0) for number, one in enumerate(drivers("AAAABAAAA"))]
    on, off = RowHistory(tuple(runs)).changes
    assert (on.named, on.runs_before, on.runs_since) == ({"driver": ("A", "B")}, 4, 1)
    assert (off.named, off.runs_before, off.runs_since) == ({"driver": ("B", "A")}, 1, 4)
    assert (on.ratio, off.ratio) == (pytest.approx(1 / 1.1), pytest.approx(1.1))


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ("AAABBAAAABA", [("AB", 3, 2), ("BA", 2, 4), ("AB", 4, 1), ("BA", 1, 1)]),
        # Runs with another value are neither since nor before, though they are no event of their own.
        ("AAABCAAAD", [("AB", 3, 1), ("AD", 3, 1)]),
        ("AAABABABAAAC", [("AB", 3, 1), ("BA", 1, 1), ("AC", 3, 1)]),
        # A run that does not know it may have it.
        ("AAAB?BBC", [("AB", 3, 4)]),
    ],
)
def test_runs_are_compared_that_had_the_values_of_an_event(values: str, counts: list[tuple[str, int, int]]) -> None:
    assert compared(values) == counts


ROWS = [f"row{number}" for number in range(10)]


def cluster(
    runs: int, slower: Callable[[int], float] = lambda _: 1.0, rows: int = 10, slow: int = 10
) -> ClusterHistory:
    """Rows of one to ten seconds, with 1 % of noise; so many of them are slower in some runs."""
    rng = random.Random(3)  # noqa: S311 - noise, not cryptography
    histories = {}
    for number, row in enumerate(ROWS[:rows]):
        points = []
        for n in range(runs):
            factor = slower(n) if number < slow else 1.0
            driver = {"driver": "560.28" if factor > 1 else "550.54"}
            seconds = (number + 1) * math.exp(rng.gauss(0, 0.01)) * factor
            points.append(replace(run(n, seconds), environment=driver, added_s=float(n)))
        histories[row] = RowHistory(tuple(points))
    return ClusterHistory(histories)


def test_a_quiet_cluster_has_no_incident_and_no_drift() -> None:
    quiet = cluster(60)

    assert quiet.before.noise is not None
    assert quiet.before.noise.jobs == 30
    assert quiet.since is None
    assert quiet.drifting is None


def test_an_incident_is_told_with_its_first_run_and_what_changed_under_most_rows() -> None:
    slow = cluster(40, lambda n: 1.06 if n >= 37 else 1.0)

    assert slow.since is not None
    assert (slow.since.time_s, slow.since.runs) == (slow.runs[37].begin_s, 3)
    assert (slow.since.changes, slow.since.changed_then) == ({"driver": ("550.54", "560.28")}, True)
    effect = slow.before.effect(39)
    assert effect is not None
    assert effect.value == pytest.approx(math.log(1.06), abs=0.01)


def test_what_changed_under_few_rows_is_not_what_changed() -> None:
    slow = cluster(40, lambda n: 1.06 if n >= 37 else 1.0, slow=4)

    assert slow.since is None
    assert slow.onset(Period((37, 38, 39), None)).changes == {}


# -- a row that was called regressed never widens its own noise or level ---------------------------

#: Good runs, and those that are slower by a tenth or, in capitals, by a fifth.
PATTERNS = [
    "....sssss..s",
    ".s" * 10,
    "sss......s",
    "..ss" * 5,
    "........sssss..s",
    "....ssssssssss..s",
    "s" + "..s" * 6,
    "." * 10 + "sss.." * 3 + "s",
    "." * 10 + "s.." * 8 + "s",
    "." * 30 + "sssss..s",
    ".....SSss..S..s",
]
LOSSES = {".": 1.0, "s": 0.9, "S": 0.8}


def lived(pattern: str, rows: int, slow: Collection[int], sigma: float = 0.008) -> tuple[list[str], list[RowHistory]]:
    """How the first row was judged on each run with --gsw-confirm=4, ``incident`` where the cluster is; the pasts."""
    rng = random.Random(pattern)  # noqa: S311 - noise, not cryptography
    points: list[list[Point]] = [[] for _ in range(rows)]
    said = []
    for number, kind in enumerate(pattern):
        jobs = [
            [math.exp(rng.gauss(0, sigma)) / (LOSSES[kind] if row in slow else 1.0) for _ in range(5)]
            for row in range(rows)
        ]
        histories = [RowHistory(tuple(one)) for one in points]
        together = ClusterHistory({f"{row}": past for row, past in enumerate(histories)})
        current_run = together.current_run({f"{row}": jobs[row][0] for row in range(rows)})
        for row, past in enumerate(histories):
            beside = current_run.effect_on(f"{row}", 0.05)
            count, outcome, reason = 0, Outcome.INCONCLUSIVE, ""
            more = 1
            while more:
                count += more
                if beside is None:
                    noise = past.noise(0.05) or Noise(0.0, 0)
                    decision = decide(jobs[row][:count], 1.0, 0.05, noise, confirm=4)
                    outcome, more = decision.outcome, decision.more
                else:
                    joint = decide_adjusted(jobs[row][:count], 1.0, 0.05, beside, confirm=4)
                    outcome, more, reason = joint.outcome, joint.more, "incident" if joint.is_part else ""
            points[row] += [
                run(number, job_s, job_id=f"{number}-{row}-{job}", outcome=outcome.value, reason=reason)
                for job, job_s in enumerate(jobs[row][:count])
            ]
            if row == 0:
                said.append(reason or outcome.value)
    return said, [RowHistory(tuple(one)) for one in points]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_row_that_was_slow_before_regresses_again(pattern: str) -> None:
    said, (past,) = lived(pattern, 1, {0})
    assert said == ["passed" if kind == "." else "regressed" for kind in pattern]
    noise = past.noise(0.05)
    assert noise is not None
    assert noise.sigma < 0.017


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_regresses_again_beside_others_that_are_sound(pattern: str) -> None:
    said, _ = lived(pattern, 9, {0})
    assert said == ["passed" if kind == "." else "regressed" for kind in pattern]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_cluster_that_was_slow_before_is_found_again(pattern: str) -> None:
    said, histories = lived(pattern, 9, range(9))
    for kind, one in zip(pattern, said, strict=True):
        assert one in ({"passed"} if kind == "." else {"regressed", "incident"})
    before = ClusterHistory({f"{row}": past for row, past in enumerate(histories)}).before
    assert before.noise is None or before.noise.sigma < 0.01


def test_the_old_alarm_is_back() -> None:
    _, (past,) = lived("....sssss..s", 1, {0})
    (alarm,) = regressions(ExperimentKey("row", "eos", "0123"), past)
    assert [seen.run_id for seen in alarm.runs] == [f"night-{number:03}" for number in (4, 5, 6, 7, 8, 11)]
    assert alarm.fixed_s is None


def tile_record(number: int, node: str, *findings: SweepFinding, search: int = 0, outcome: str = "passed") -> Record:
    """What a sweep left of one node, with further jobs of its search."""
    jobs = tuple(job(number, 5.5, id=f"{number}.{one}", nodes=node) for one in range(search))
    of_tile = {"row": f"{KEY.row}@{node}", "node_id": f"t.yaml::{KEY.row}@{node}", "tile": node, "search": jobs}
    made = record(
        number, 5.5 if findings else 5.0, outcome=outcome, job=job(number, id=f"{number}{node}", nodes=node), **of_tile
    )
    return replace(made, among_tiles=AmongTiles(0.0, findings))


def slow_node(name: str, change: float = -0.1, **changes: str) -> SweepFinding:
    found = SweepFinding("slow", name, "", change, change - 0.02, change + 0.02, 3)
    return replace(found, **changes)  # type: ignore[arg-type]


def test_a_node_that_a_search_names_is_slow_until_a_sweep_passes_it(tmp_path: Path) -> None:
    def state() -> list[tuple[str, float, int, int, bool]]:
        found = series_of_cluster(history, "eos").slow
        return [(one.name, one.change, len(one.slow_jobs), len(one.fast_jobs), one.recovered) for one in found]

    with open_history(tmp_path / "h.sqlite") as history:
        history.add([tile_record(0, "n1", slow_node("n1"), search=3, outcome="regressed"), tile_record(0, "n2")])
        assert state() == [("n1", -0.1, 4, 0, False)]
        assert series_of_cluster(history, "eos").nodes.sound == KnownGoodNodes((), ("n2",))
        # One that only warns is known as well; one that is not decided changes nothing.
        history.add([tile_record(1, "n1", slow_node("n1", -0.04), search=2)])
        history.add([tile_record(2, "n1", slow_node("n1", kind="not decided"), outcome="inconclusive")])
        assert state() == [("n1", -0.04, 7, 0, False)]
        history.add([tile_record(3, "n1"), tile_record(3, "n2")])
        assert state() == [("n1", -0.04, 7, 1, True)]
        history.add([tile_record(4, "n1", slow_node("n1"), search=3, outcome="regressed")])
        assert state() == [("n1", -0.1, 4, 0, False), ("n1", -0.04, 7, 1, True)]
        lines = series_of_cluster(history, "eos")
        assert [one.recovered for one in lines.until(FIRST_S + 1.5 * DAY_S).slow] == [False]
        now, fixed = (one for one in alarms_of(history, "eos", lines, now_s=FIRST_S + 5 * DAY_S))
        assert (now.period.subject, now.state, now.pages, fixed.state) == ("n1", State.NEW, True, State.FIXED)
        assert now.id != fixed.id
        # Points of tiles are no runs of their row.
        assert lines.past(KEY.row, KEY.definition, "").runs == ()


def test_nodes_that_are_slow_together_are_one_alarm(tmp_path: Path) -> None:
    switch = slow_node("n[1-2]", kind="between", switch="s1")
    with open_history(tmp_path / "h.sqlite") as history:
        history.add([tile_record(0, name, switch, outcome="regressed") for name in ("n1", "n2")])
        (found,) = series_of_cluster(history, "eos").slow
        assert (found.name, found.below, len(found.slow_jobs)) == ("switch s1", "n[1-2]", 2)
