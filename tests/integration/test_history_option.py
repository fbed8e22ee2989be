"""``--gsw-history``: what earlier runs measured decides with, and no record is lost when it is away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.location import open_history
from tests.integration.conftest import junit, properties, records, unwrapped
from tests.integration.runs import record as record_of
from tests.messages import wording
from tests.unit.history.runs import stored_points
from tests.unit.results.records import varied

NAME = "tiny_1b_bf16[H100x8]"
SESSION = ("--gsw-cluster=demo", "-k", "x8 and H100", "--junitxml=junit.xml")
#: A standard deviation of about 3 %.
RESTLESS = (0.97, 1.03, 0.99, 1.04, 1.0, 0.96, 1.02, 0.98, 1.05, 1.01)


def runs(table: Path, seconds: Sequence[float], history: Path | None = None, **changes: Any) -> None:
    """Put one run for each of these times into the history, each with a job of its own."""
    simulated = {"cluster": "demo", "simulated": True, **changes}
    records = [varied(record_of(table, n, each), **simulated) for n, each in enumerate(seconds)]
    place = history or table.parent.parent / ".gsw" / "history.sqlite"
    place.parent.mkdir(exist_ok=True)
    with open_history(place) as opened:
        assert opened.add(records) == len(records)


def run(pytester: pytest.Pytester, table: Path, *options: str) -> pytest.RunResult:
    return pytester.runpytest(*SESSION, f"--gsw-baselines={table}", *options)


def test_every_record_goes_to_a_file_beside_the_runs(pytester: pytest.Pytester, table: Path) -> None:
    for _ in range(2):
        run(pytester, table).assert_outcomes(passed=1, deselected=2)
    # A replay is in the history already.
    first = min(pytester.path.glob(".gsw/runs/*"))
    pytester.runpytest(f"--gsw-replay={first}", f"--gsw-baselines={table}").assert_outcomes(passed=1)
    with open_history(pytester.path / ".gsw" / "history.sqlite") as history:
        (series,) = history.series()
        points = stored_points(history, series)
        runs = history.runs()
    assert (series.row, series.cluster, len(points), len(runs)) == (NAME, "demo", 2, 2)
    assert [*(pytester.path / ".gsw" / "spool").rglob("*.json")] == []


def test_a_loss_within_the_noise_of_the_row_is_inconclusive_and_says_so(pytester: pytest.Pytester, table: Path) -> None:
    run(pytester, table, "--gsw-demo=*=slow:7%", "--gsw-history=none").assert_outcomes(failed=1, deselected=2)
    runs(table, RESTLESS)
    result = run(pytester, table, "--gsw-demo=*=slow:7%", "-rs")
    result.assert_outcomes(skipped=1, deselected=2)
    assert result.ret == 6  # neither green nor red
    found = records(pytester.path)[-1]
    assert (found["outcome"], found["verdict"]["given_reason"], found["verdict"]["noise"]["jobs"]) == (
        "inconclusive",
        "within noise",
        10,
    )
    assert 0.025 < found["verdict"]["noise"]["sigma"] < 0.04
    assert 0.1 < found["verdict"]["limit"] < 0.18
    percent, sigma = found["verdict"]["limit"] * 100, found["verdict"]["noise"]["sigma"] * 100
    because = f"because its jobs differ by {sigma:.2g} % (standard deviation of 10)"
    assert found["fact"].endswith(f"(allowed 5 %; a regression beyond {percent:.3g} %, {because})")
    pytest.LineMatcher(unwrapped(result.outlines)).fnmatch_lines(
        ["=* inconclusive =*", f"{NAME.replace('[', '[[]')}  within noise: {found['fact']}"]
    )
    case = junit(pytester.path / "junit.xml")[NAME]
    seen = properties(case)
    assert (seen["gsw_outcome"], seen["gsw_reason"], seen["gsw_sigma_jobs"]) == ("inconclusive", "within noise", "10")
    assert float(seen["gsw_limit"]) == pytest.approx(found["verdict"]["limit"], abs=1e-6)
    (element,) = [e for e in case if e.tag != "properties"]
    assert (element.tag, element.attrib["message"][:25]) == ("skipped", "inconclusive: throughput ")


def test_a_loss_within_the_noise_is_confirmed(pytester: pytest.Pytester, table: Path) -> None:
    runs(table, RESTLESS)
    run(pytester, table, "--gsw-demo=*=slow-once:7%", "--gsw-confirm=4").assert_outcomes(passed=1, deselected=2)
    assert 1 <= len(records(pytester.path)[-1]["repeats"]) <= 2


def test_a_history_that_is_away_keeps_its_records_waiting(pytester: pytest.Pytester, table: Path) -> None:
    place = pytester.path / "away" / "history.sqlite"
    place.parent.write_text("no directory")
    result = run(pytester, table, f"--gsw-history={place}")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.re_match_lines(
        [r"gsw: .*away/history\.sqlite.*", wording("records waiting", records="1 record waits", spool="\\.gsw/spool")]
    )
    place.parent.unlink()
    run(pytester, table, f"--gsw-history={place}").assert_outcomes(passed=1, deselected=2)
    with open_history(place) as history:
        assert len(history.runs()) == 2


def test_a_replay_judges_by_the_jobs_that_the_row_could_have_had(pytester: pytest.Pytester, table: Path) -> None:
    # Three of five jobs had run when the row had regressed: the limit was that of five.
    runs(table, [1.0 + 0.026 * step for step in (-1.2, 0.4, 0.9, -0.5, 0.1, 1.3, -0.8, -0.2, 0.6, -0.6)] * 3)
    result = run(pytester, table, "--gsw-confirm=4", "--gsw-demo=*=slow:5.9%")
    first = records(pytester.path)[-1]
    directory = max(pytester.path.glob(".gsw/runs/*"), key=lambda one: one.stat().st_mtime_ns)
    pytester.runpytest(f"--gsw-replay={directory}", f"--gsw-baselines={table}")
    again = records(pytester.path)[-1]
    assert again["run_id"] != first["run_id"]
    assert (again["outcome"], again["fact"], again["verdict"]["limit"]) == (
        first["outcome"],
        first["fact"],
        first["verdict"]["limit"],
    )
    assert (first["first_jobs"], first["confirm_jobs"], result.ret) == (
        1,
        4,
        1 if first["outcome"] == "regressed" else 0,
    )


def test_a_session_that_is_resumed_does_not_count_its_own_jobs(pytester: pytest.Pytester, table: Path) -> None:
    runs(table, RESTLESS[:7])
    run(pytester, table)
    assert records(pytester.path)[-1]["verdict"]["noise"]["jobs"] == 0  # seven runs tell no noise yet
    pytester.runpytest("--gsw-resume=last", f"--gsw-baselines={table}", "-k", "x8 and H100")
    assert records(pytester.path)[-1]["verdict"]["noise"]["jobs"] == 0
