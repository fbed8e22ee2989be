"""The page of a run whose session goes on, in a real browser: it has the open rows, and is read again by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.jobs.journal import Journal
from pytest_gsw.jobs.run_lock import NAME as OWNER
from pytest_gsw.results.record import write_record
from pytest_gsw.results.run_progress import OpenRow, RunProgress, State, write_progress
from tests.messages import wording
from tests.unit.jobs.owners import leave_owner
from tests.unit.results.records import SLOW, varied

from .accessibility import TAB, violations
from .chromium import PHONE, Chromium
from .conftest import write_report
from .server import Served

NOW_S = 1795212000.0
ROWS = [f"site/tiny.yaml::tiny_1b_bf16[H100x8-r{number}]" for number in range(4)]


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """A run with one row of four judged, whose session goes on."""
    run = tmp_path / ".gsw" / "runs" / "20261118-220000-abcdef"
    journal = Journal(run)
    journal.session("eos", ROWS)
    journal.close()
    write_record(run, varied(SLOW, node_id=ROWS[0], row=ROWS[0].partition("::")[2], recorded_s=NOW_S))
    rows = (
        OpenRow(ROWS[1], State.RUNNING, 8, "481", since_s=NOW_S - 60, steps=12, of=50, left_s=240.0),
        OpenRow(ROWS[2], State.PENDING, 8, "482", "Priority", NOW_S - 60, NOW_S + 600),
        OpenRow(ROWS[3], State.QUEUED, 8),
    )
    write_progress(run, RunProgress(NOW_S, NOW_S - 90, rows=rows, finished=(ROWS[0],)))
    leave_owner(run)
    return run


def test_the_page_of_a_running_session_reads_itself_again(chromium: Chromium, running: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    write_report(running, report)
    index = report / "index.html"
    with Served(report) as served, chromium.tab(served.url, **TAB) as tab:
        page = tab.goto("index.html")
        text = page.inner_text("main")
        assert wording("report goes on") + ", as of" in text
        assert "1 of 4 done, 1 running (step 12 of 50), 1 pending (Priority; expected start" in text
        lines = [
            line.inner_text().split("\t") for line in page.locator("section:has(> h2#open) tbody tr, #open tr").all()
        ]
        assert [line[:2] for line in lines if line[0] != "row"] == [
            ["tiny_1b_bf16[H100x8-r1]", "running"],
            ["tiny_1b_bf16[H100x8-r2]", "pending"],
            ["tiny_1b_bf16[H100x8-r3]", "not submitted yet"],
        ]
        # A page that shows what goes on may be read again by itself: that exception of the guidelines axe-core lacks.
        assert [one for one in violations(tab) if not one.startswith("meta-refresh ")] == []
        index.write_text(index.read_text().replace('content="60"', 'content="1"'))
        tab.goto("index.html")
        (running / OWNER).unlink()
        write_report(running, report)
        page.get_by_text("the session ended before this row was judged").first.wait_for()
        assert not page.locator("meta[http-equiv=refresh]").count()
        assert tab.complaints == []


def test_the_open_rows_fit_a_phone(chromium: Chromium, running: Path, tmp_path: Path) -> None:
    write_report(running, tmp_path / "report")
    with Served(tmp_path / "report") as served, chromium.tab(served.url, **PHONE) as tab:
        page = tab.goto("index.html")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
