"""The benchmark of decisions, in a small version: it lives through runs as sessions do."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.simulated.cluster import Life, life_of
from benchmarks.simulated.experiments import GSW, live, measure
from benchmarks.simulated.models import MODELS
from benchmarks.simulated.tally import Share
from pytest_gsw.history import open_history

ROWS = 8


def small(model: str, runs: int = 45, rows: int = ROWS) -> Life:
    return life_of(MODELS[model], f"test {model}", rows, runs)


@pytest.mark.parametrize("model", ["Gaussian 3%", "slow nodes 10%"])
def test_a_history_in_memory_says_what_one_in_a_database_says(model: str, tmp_path: Path) -> None:
    life = small(model)
    with open_history(str(tmp_path / "history.sqlite")) as history:
        kept = live(life, random.Random(1), history)  # noqa: S311
        quick = live(life, random.Random(1))  # noqa: S311
        assert kept.tally == quick.tally
        for row, past in kept.session.histories.items():
            assert [point.judged_s for point in past.points] == [
                point.judged_s for point in quick.session.histories[row].points
            ]
            assert past.noise() == quick.session.histories[row].noise()
            assert past.slow == quick.session.histories[row].slow


def test_a_row_that_has_lost_much_fails_and_a_quiet_one_does_not() -> None:
    tally = measure(MODELS["Gaussian 1%"], "test", ROWS, 100, ["gsw", "gates"])
    of_rule = {rule: tally.share(("Gaussian 1%", "row -10%", rule), "fails") for rule in (GSW, "fixed 5 %")}
    assert of_rule == {GSW: Share(ROWS * 7, ROWS * 7), "fixed 5 %": Share(ROWS * 7, ROWS * 7)}
    assert tally.share(("Gaussian 1%", "nothing", GSW), "false night") == Share(0, 70)
