"""``pytest-gsw alarms``, and what sessions and exports make of an alarm that somebody has acknowledged."""

from __future__ import annotations

import json
import shlex
import shutil
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pytest_gsw.cli import main
from pytest_gsw.common.text import minute
from tests.integration.conftest import Gsw
from tests.integration.runs import remember
from tests.messages import wording

ROW = "tiny_1b_bf16[H100x8]"
#: As fnmatch takes it.
SHOWN = ROW.replace("[", "[[]")
#: The first run, long enough ago.
BEGIN_S = time.time() - 86400 * 60
HISTORY = ".gsw/history.sqlite"
UNTIL = "2999-12-31"
ACKNOWLEDGED = ("--why=a switch", "--owner=ops", f"--until={UNTIL}")


def runs(table: Path, slow: Sequence[int], count: int = 45, **changes: Any) -> None:
    """Runs of a row with 1 % of noise, some of which regressed by 10 %; it may be asked again for more of them."""
    random = Random(7)  # noqa: S311 - noise, not cryptography
    seconds = [(1 + random.gauss(0, 0.01)) / (0.9 if number in slow else 1.0) for number in range(count)]
    outcomes = {True: {"outcome": "regressed"}, False: {"outcome": "passed"}}
    place = table.parent.parent / HISTORY
    remember(place, table, seconds, BEGIN_S, of_run=lambda number: outcomes[number in slow], **changes)


def listed(table: Path, gsw: Gsw, status: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gsw("alarms", f"--baselines={table}", "--json", status=status).out)
    return found


def junit_alarm(file: str) -> str:
    """What the only row of a JUnit file says of its alarms."""
    (row,) = ET.parse(file).getroot().findall(".//testcase")  # noqa: S314 - our own
    found = {one.get("name"): one.get("value") for one in row.findall("properties/property")}
    return found["gsw_alarm"] or ""


def test_a_regression_is_listed(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, (43, 44))
    lines = gsw("alarms", "--cluster=eos", f"--baselines={table}", status=1).out.splitlines()
    assert lines[2].split()[1:5] == ["regression", "ongoing", ROW, "eos"]
    (one,) = listed(table, gsw)
    following = f"next: pytest-gsw alarms acknowledge {one['id']} --why=TEXT --owner=NAME --until=DATE"
    assert lines[3:] == ["1 alarm, 1 to look at", following]
    assert (one["raised"]["run_id"], one["last"]["run_id"], one["runs"]) == ("night-043", "night-044", 2)
    assert one["throughput_change"] == pytest.approx(-0.1, abs=0.04)
    assert one["acknowledged"] is None


def test_an_acknowledged_alarm_keeps_its_name_and_pages_no_more(
    pytester: pytest.Pytester, table: Path, gsw: Gsw
) -> None:
    runs(table, (43, 44))
    (before,) = listed(table, gsw)
    assert gsw("alarms", "acknowledge", before["id"][:4], *ACKNOWLEDGED, f"--baselines={table}").out == (
        wording("acknowledged", alarm=f"{HISTORY}: {before['id']}", until=UNTIL)
        + wording("reopen", alarm=f"{before['id']} --why=TEXT")
        + "\n"
    )
    (known,) = listed(table, gsw)  # which does not turn green
    assert (known["id"], known["state"], known["pages"]) == (before["id"], "ongoing", False)
    assert known["acknowledged"]["text"] == f"ops until {UNTIL}: a switch"
    runs(table, (43, 44, 45, 46), 47)
    (later,) = listed(table, gsw)
    assert (later["id"], later["pages"], later["runs"]) == (before["id"], False, 4)
    gsw("alarms", "reopen", before["id"], "--why=another switch", f"--baselines={table}")
    (after,) = listed(table, gsw)
    assert (after["pages"], after["acknowledged"]) == (True, None)


def test_a_mended_alarm_is_none(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, (42,))
    (recovered,) = listed(table, gsw, 0)
    assert recovered["state"] == "fixed"
    assert gsw("alarms", "acknowledge", recovered["id"], *ACKNOWLEDGED, f"--baselines={table}", status=2).err == (
        "pytest-gsw alarms: "
        + wording("not active", alarm=recovered["id"], why=f"fixed {minute(recovered['fixed_s'])}")
        + "\n"
    )


#: What a command says that cannot do what it is asked for.
WRONG = {
    ("acknowledge", "zzzz", *ACKNOWLEDGED): "there is no alarm 'zzzz'\nnext: pytest-gsw alarms",
    ("acknowledge", "ID", *ACKNOWLEDGED[:2], "--until=2001-01-01"): "--until: 2001-01-01 has passed",
    ("reopen", "ID", "--why=x"): "alarm ID is not acknowledged",
}


def test_what_is_wrong_is_said(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, (44,))
    (one,) = listed(table, gsw)
    for arguments, said in WRONG.items():
        given = [one["id"] if argument == "ID" else argument for argument in arguments]
        assert (
            gsw("alarms", *given, f"--baselines={table}", status=2).err.replace(one["id"], "ID")
            == f"pytest-gsw alarms: {said}\n"
        )


@pytest.mark.parametrize(("verb", "lacks"), [("acknowledge", "--why, --owner, --until"), ("reopen", "--why")])
def test_what_a_decision_lacks_is_listed(verb: str, lacks: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["alarms", verb, "x"])
    assert f"alarms {verb}: " + wording("missing arguments", names=lacks) + "\n" in capsys.readouterr().err


def test_a_row_that_was_never_fast_enough(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    runs(table, range(5), 5)
    told = f"{ROW} was never within its tolerance on eos; if that is how it is: "
    line = gsw("alarms", f"--baselines={table}", status=1).out.splitlines()[3]
    assert line.startswith(f"{told}pytest-gsw baseline propose '--row={ROW}' --cluster=eos ")
    program, *proposed = shlex.split(line.removeprefix(told))
    assert program == "pytest-gsw"
    assert "accepted" in gsw(*proposed, f"--baselines={table}").out


def test_a_session_tells_alarms_and_is_not_green_by_an_acknowledgement(
    pytester: pytest.Pytester, table: Path, gsw: Gsw
) -> None:
    # Simulated runs, as the demo's are.
    runs(table, (43, 44), cluster="demo", simulated=True)
    session = ("--gsw-cluster=demo", f"--gsw-baselines={table}", "-k", "x8 and H100", "--gsw-demo=*=slow:12%")
    result = pytester.runpytest(*session, "--junitxml=j.xml")
    result.stdout.fnmatch_lines(
        ["*= alarms =*", "*  " + wording("ongoing", row=SHOWN, change="*", since="*", runs="3 runs")]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (one,) = listed(table, gsw)
    assert junit_alarm("j.xml") in result.stdout.str()
    gsw("alarms", "acknowledge", one["id"], *ACKNOWLEDGED, f"--baselines={table}")
    result = pytester.runpytest(*session, "--gsw-report=report", "--junitxml=j.xml")
    text = f"ops until {UNTIL}: a switch"
    result.stdout.fnmatch_lines(
        [f"{one['id']}  " + wording("ongoing", row=SHOWN, change="*", since="*", runs=f"4 runs; {text}")]
    )
    assert junit_alarm("j.xml") in result.stdout.str()
    assert text in junit_alarm("j.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = pytester.path / "report"
    (sample,) = [line for line in (report / "gsw.prom").read_text().splitlines() if line.startswith("gsw_alarm_pages{")]
    assert sample == (f'gsw_alarm_pages{{alarm="{one["id"]}",kind="regression",row="{ROW}",cluster="demo"}} 0.0')
    assert f"`{text}`" in (report / "summary.md").read_text()
    assert text in (report / "index.html").read_text()


def test_an_alarm_of_the_history_is_listed_after_a_replay_without_a_cluster(
    pytester: pytest.Pytester, table: Path, gsw: Gsw
) -> None:
    asked = (f"--gsw-baselines={table}", "-k", "x8 and H100")
    pytester.runpytest(*asked, "--gsw-cluster=demo", "--gsw-history=none").assert_outcomes(passed=1, deselected=2)
    (run,) = pytester.path.glob(".gsw/runs/*")
    (run / "stage").rename(pytester.path / "logs")
    shutil.rmtree(run)
    runs(table, (44,))
    pytester.runpytest(*asked, "--gsw-replay=logs").assert_outcomes(passed=1, deselected=2)
    lines = [line.split(maxsplit=1) for line in gsw().out.splitlines()]
    (alarm,) = [text for name, text in lines if name == "alarm"]
    assert f"  new regression of {ROW}: " in alarm
    assert lines[-1] == ["next", "pytest-gsw alarms"]


def test_a_first_run_s_regression_is_said_by_its_row_alone(pytester: pytest.Pytester, table: Path) -> None:
    session = ("--gsw-cluster=demo", f"--gsw-baselines={table}", "-k", "x8 and H100", "--gsw-demo=*=slow:12%")
    result = pytester.runpytest(*session)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*= alarms =*")


@pytest.mark.parametrize(("slow", "jobs"), [((43, 44), 1), ((43,), 3)])
def test_no_jobs_confirm_what_the_run_before_has_shown(
    pytester: pytest.Pytester, table: Path, slow: Sequence[int], jobs: int
) -> None:
    runs(table, slow, cluster="demo", simulated=True)
    session = ("--gsw-cluster=demo", f"--gsw-baselines={table}", "-k", "x8 and H100", "--gsw-demo=*=slow:12%")
    result = pytester.runpytest(*session, "--gsw-confirm=4")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    path = max(pytester.path.glob(".gsw/runs/*/records/*.json"), key=lambda one: one.stat().st_mtime_ns)
    record = json.loads(path.read_text())
    assert (record["outcome"], len(record["repeats"]) + 1) == ("regressed", jobs)
