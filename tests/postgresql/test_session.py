"""Sessions and commands on a real PostgreSQL server, as users run them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_gsw.cli import main
from pytest_gsw.history import postgresql
from pytest_gsw.history.database import WaitBudget
from pytest_gsw.history.location import open_history
from pytest_gsw.session import plan_and_submit, session_history
from tests.messages import wording
from tests.unit.history.runs import points_of

from .server import PASSWORD, PostgresqlServer
from .silent import SilentServer, SlowServer

ROWS = ("-k", "llama2_70b_fp8 and (H100x64 or H100x128)")


@pytest.fixture(autouse=True)
def _quick_demo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pytester.path)
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0")
    monkeypatch.setenv("GSW_DEMO_SEED", "20")
    monkeypatch.setenv("GSW_PYTHON", sys.executable)
    monkeypatch.setenv("NO_COLOR", "1")


def session(pytester: pytest.Pytester, place: str, *options: str) -> pytest.RunResult:
    return pytester.runpytest("--gsw-cluster=demo", f"--gsw-history={place}", "--junitxml=junit.xml", *ROWS, *options)


def jobs(place: str) -> list[int]:
    """How many jobs each row has."""
    with open_history(place) as history:
        return [len(points) for points in points_of(history, history.series()).values()]


def assert_no_password(directory: Path, *texts: str) -> None:
    for text in texts:
        assert PASSWORD not in text
    for path in directory.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path


def test_sessions_add_to_the_history_and_commands_read_it(
    pytester: pytest.Pytester, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [str(session(pytester, place).stdout) for _ in range(2)]
    assert jobs(place) == [2, 2]
    first, second = sorted(path.name for path in Path(".gsw/runs").iterdir())
    capsys.readouterr()
    assert main(["history", f"--history={place}", "--json"]) == 0
    assert [len(row["points"]) for row in json.loads(capsys.readouterr().out)] == [2, 2]
    assert main(["compare", first, second, f"--history={place}"]) == 0
    assert capsys.readouterr().out.endswith("2 rows: 2 within noise\n")
    assert_no_password(pytester.path, *texts)


def test_a_server_that_is_killed_while_rows_run_loses_nothing(
    pytester: pytest.Pytester, mortal: PostgresqlServer, place: str
) -> None:
    session(pytester, place)
    pytester.makeconftest(
        "import pytest\n"
        "def pytest_gsw_run_recorded(config, record):\n"
        "    config.stash[KILL]()\n"
        "KILL = pytest.StashKey()\n"
        "def pytest_configure(config):\n"
        "    import tests.postgresql.test_session as here\n"
        "    config.stash[KILL] = here.KILL[0]\n"
    )
    KILL[:] = [mortal.kill]
    result = session(pytester, place)
    result.assert_outcomes(passed=2, deselected=139)
    mortal.start()
    (pytester.path / "conftest.py").unlink()
    session(pytester, place).assert_outcomes(passed=2, deselected=139)
    assert jobs(place) == [3, 3]
    assert_no_password(pytester.path / ".gsw", str(result.stdout), str(result.stderr))


@pytest.mark.parametrize("greets", [False, True])
def test_a_session_does_not_wait_for_a_server_that_is_silent(
    pytester: pytest.Pytester, greets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(postgresql, "CONNECT_TIMEOUT_S", 1)
    once = "no answer within 1 s; not asked again in this session, which waits 60 s in all"
    with SilentServer(greets=greets) as silent:
        result = session(pytester, silent.url)
    assert silent.connections == 1
    result.assert_outcomes(passed=2, deselected=139)
    result.stdout.fnmatch_lines(
        [
            f"gsw: history unavailable, only tolerances were applied: the history * does not answer: {once}",
            wording("records waiting", records="2 records wait", spool="*"),
        ],
    )
    assert len(list(Path(".gsw/spool").rglob("*.json"))) == 2


@pytest.mark.parametrize("fault", ["locked", "slow"])
def test_a_session_waits_for_its_history_once(
    pytester: pytest.Pytester, place: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table under another's lock, and answers of which each is in time; the session's waits together have one limit."""
    session(pytester, place).assert_outcomes(passed=2, deselected=139)
    for module in (plan_and_submit, session_history):
        monkeypatch.setattr(module, "SESSION_WAIT_S", 2.0)
    ends: list[str] = []
    monkeypatch.setattr(WaitBudget, "end", lambda budget, reason: (ends.append(reason), end(budget, reason))[1])
    slow = SlowServer(place, 0.4 if fault == "slow" else 0.0)
    with open_history(place) as other, other._database.transaction(write=True), slow:
        if fault == "locked":
            other._database.execute("LOCK TABLE gsw_series IN ACCESS EXCLUSIVE MODE")
        result = session(pytester, slow.url)
    result.assert_outcomes(passed=2, deselected=139)
    result.stdout.fnmatch_lines(
        ["*; not asked again in this session, which waits 2 s in all", "gsw: 2 records wait in *"]
    )
    assert sum(reason.startswith("no answer") for reason in ends) == 1
    assert len(list(Path(".gsw/spool").rglob("*.json"))) == 2
    assert jobs(place) == [1, 1]


end = WaitBudget.end


def test_a_session_keeps_what_a_history_of_a_later_release_does_not_take(pytester: pytest.Pytester, place: str) -> None:
    session(pytester, place).assert_outcomes(passed=2, deselected=139)
    with open_history(place) as history:
        history._database.execute("UPDATE gsw_schema SET version = 7")
    result = session(pytester, place)
    result.assert_outcomes(passed=2, deselected=139)
    result.stdout.fnmatch_lines(
        ["gsw: history unavailable, *: the history * is of version 7, and this pytest-gsw reads version 2"]
    )
    assert len(list(Path(".gsw/spool").rglob("*.json"))) == 2


#: How a session that runs in this process ends the server.
KILL = [lambda: None]
