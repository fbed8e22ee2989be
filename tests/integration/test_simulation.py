"""The benchmark of decisions, in a small version: it lives through nights as sessions do."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.simulated.cluster import Change, Life, life_of
from benchmarks.simulated.experiments import GSW, live, measure
from benchmarks.simulated.models import MODELS
from benchmarks.simulated.session import Judged, Memory, Session, record_of
from benchmarks.simulated.tally import Share, Tally, wilson
from pytest_gsw.history import open_history
from pytest_gsw.history.together import Beside, Together
from pytest_gsw.performance.drift import warned_nights

ROOT = Path(__file__).resolve().parents[2]
ROWS = 8


def small(model: str, nights: int = 45, rows: int = ROWS) -> Life:
    return life_of(MODELS[model], f"test {model}", rows, nights)


@pytest.mark.parametrize("model", ["Gaussian 3%", "slow nodes 10%"])
def test_a_history_in_memory_says_what_one_in_a_database_says(model: str, tmp_path: Path) -> None:
    life = small(model)
    with open_history(str(tmp_path / "history.sqlite")) as history:
        kept = live(life, random.Random(1), history)  # noqa: S311
        quick = live(life, random.Random(1))  # noqa: S311
        assert kept.tally == quick.tally
        for row, past in kept.session.pasts.items():
            assert [point.judged_s for point in past.points] == [
                point.judged_s for point in quick.session.pasts[row].points
            ]
            assert past.noise() == quick.session.pasts[row].noise()
            assert past.slow == quick.session.pasts[row].slow


def test_what_is_known_of_rows_is_frozen_with_their_reference() -> None:
    life = replace(small("shared night 3%"), change=Change("step", 0.1), at=35, row=0)
    once, each = (Session(Memory(), ROWS) for _ in range(2))
    judged: dict[int, Judged] = {}
    for night in range(life.nights):
        each.look()
        if once.is_young(night):
            once.look()
        of_both = [session.night(life, night, before=judged) for session in (once, each)]
        assert of_both[0] == of_both[1]
        for row, one in judged.items():
            assert once.failed_s(row, night - 1, one) == each.pasts[f"row{row}"].failed_before_s
        judged = of_both[0]
        for session, judged in zip((once, each), of_both, strict=True):
            session.keep([record_of(row, night, one) for row, one in judged.items()])


def test_warnings_are_those_of_each_night() -> None:
    life = replace(small("Gaussian 2%", nights=75), change=Change("step", 0.06), at=45, row=0)
    pasts = live(life, random.Random(1)).session.pasts  # noqa: S311
    nights = pasts["row0"].counted
    warned = warned_nights(pasts["row0"].own_s)
    assert warned
    for number in range(39, len(nights), 4):
        until = {row: past.without("", nights[number].time_s + 3600) for row, past in pasts.items()}
        then = replace(until["row0"], beside=Beside(Together(until)))
        assert (then.drifting is not None) == (number in warned)


def test_a_row_that_has_lost_much_fails_and_a_quiet_one_does_not() -> None:
    tally = measure(MODELS["Gaussian 1%"], "test", ROWS, 100, ["gsw", "gates"])
    of_rule = {rule: tally.share(("Gaussian 1%", "row -10%", rule), "fails") for rule in (GSW, "fixed 5 %")}
    assert of_rule == {GSW: Share(ROWS * 7, ROWS * 7), "fixed 5 %": Share(ROWS * 7, ROWS * 7)}
    assert tally.share(("Gaussian 1%", "nothing", GSW), "false night") == Share(0, 70)


@pytest.mark.parametrize("model", [*MODELS])
def test_all_noise_is_about_its_level_and_of_its_size(model: str) -> None:
    life = small(model, nights=200)
    logs = sorted(value for row in life.noise for night in row for value in night)
    low, middle, high = (logs[int(share * len(logs))] for share in (0.16, 0.5, 0.84))
    sigma = MODELS[model].sigma + MODELS[model].night_sd
    assert abs(middle) < sigma / 2
    assert 0.4 * sigma < (high - low) / 2 < 1.3 * sigma


def test_a_change_comes_when_it_is_said_to() -> None:
    assert Change("step", 0.05).slower(0) == Change("step", 0.05).slower(99) == pytest.approx(0.0513, abs=1e-4)
    drift = Change("drift", 0.01, is_weekly=True)
    assert drift.slower(6) == pytest.approx(0.01005, abs=1e-5)
    assert drift.slower(13) == pytest.approx(0.0201, abs=1e-4)


def test_wilsons_interval() -> None:
    assert wilson(0, 100) == pytest.approx((0.0, 0.0370), abs=1e-4)
    assert wilson(10, 100) == pytest.approx((0.0552, 0.1744), abs=1e-4)


def test_figures_add_up_and_are_the_same_from_json() -> None:
    tally = measure(MODELS["Gaussian 2%"], "test", ROWS, 45, ["gates"])
    twice = Tally()
    twice.add(tally)
    twice.add(Tally.of_plain(json.loads(json.dumps(tally.plain()))))
    assert {key: (one.hits, one.of) for key, one in twice.shares.items()} == {
        key: (2 * one.hits, 2 * one.of) for key, one in tally.shares.items()
    }


def test_it_runs_from_the_command_line_and_fills_in_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- targets: begin -->\nold\n<!-- targets: end -->\n\nThe end.\n")
    size = ("--rows=8", "--nights=61", "--clusters=1", "--processes=1", "--models", "Gaussian 2%", "shared night 2%")
    to = ("-o", str(tmp_path / "figures.json"), "--images", str(tmp_path), "--page", str(page))
    command = [sys.executable, str(ROOT / "benchmarks/decisions.py"), *size, *to]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "| Gaussian 2%" in done.stdout
    assert page.read_text().startswith("# Page\n\n<!-- targets: begin -->\n| noise ")
    assert page.read_text().endswith("<!-- targets: end -->\n\nThe end.\n")
    assert all(image.read_text().startswith("<svg") for image in tmp_path.glob("*.svg"))
    again = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/decisions.py"), "--figures", str(tmp_path / "figures.json")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert again.stdout == done.stdout
