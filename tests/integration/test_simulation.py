"""The benchmark of decisions, in a small version: it lives through runs as sessions do."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.simulated.cluster import life_of
from benchmarks.simulated.experiments import GSW, live, measure
from benchmarks.simulated.models import MODELS
from benchmarks.simulated.tally import Share
from pytest_gsw.history.location import open_history


def test_a_history_in_memory_says_what_one_in_a_database_says(tmp_path: Path) -> None:
    life = life_of(MODELS["slow nodes 10%"], "test slow nodes 10%", rows=6, runs=36)
    with open_history(str(tmp_path / "history.sqlite")) as history:
        kept = live(life, random.Random(1), history)  # noqa: S311
        quick = live(life, random.Random(1))  # noqa: S311
        assert kept.tally == quick.tally
        for row, past in kept.session.histories.items():
            other = quick.session.histories[row]
            assert [point.judged for point in past.points] == [point.judged for point in other.points]
            assert (past.noise(), past.slow) == (other.noise(), other.slow)


def test_a_row_that_has_lost_much_fails_and_a_quiet_one_does_not() -> None:
    tally = measure(MODELS["Gaussian 1%"], "test", 4, 70, ["gsw", "gates"])
    of_rule = {rule: tally.share(("Gaussian 1%", "row -10%", rule), "fails") for rule in (GSW, "fixed 5 %")}
    assert of_rule == {GSW: Share(4 * 7, 4 * 7), "fixed 5 %": Share(4 * 7, 4 * 7)}
    assert tally.share(("Gaussian 1%", "nothing", GSW), "false night") == Share(0, 40)
