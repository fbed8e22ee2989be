"""A session that is watched from other processes while it goes on, in its own terminal, and after it was killed."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from pytest_gsw.results.manifest import is_owned
from tests.defaults import set_defaults
from tests.integration.conftest import Gsw, tiny_table
from tests.messages import wording

OPTIONS = ("--gsw-cluster=demo", "--gsw-baselines=night", "-p", "no:cacheprovider")
#: Shows the newest run on all screens.
SCREENS = """
import contextlib
from pathlib import Path

from pytest_gsw.cli import main

for name, words in {
    "overview": "", "rows": "rows --run last", "json": "rows --run last --json", "index": "report last -o page",
    "markdown": "report last --format=markdown", "prom": "report last --format=openmetrics",
    "junit": "report last --format=junit",
}.items():
    with Path(f"{name}.seen").open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        main(words.split())
"""
#: Looks at its own run from another process, once one of its rows has been judged.
LOOKS = """
import os, shutil, signal, subprocess, sys

import pytest_gsw.session.progress

pytest_gsw.session.progress.FILE_S = pytest_gsw.session.progress.PAGES_S = 0.0
seen = []

def pytest_gsw_run_recorded(record):
    seen.append(record)
    if len(seen) == 1:
        subprocess.run([sys.executable, "screens.py"])
        shutil.copy("page/index.html", "page.seen")
"""
#: The same session, killed with one of its rows judged.
DIES = LOOKS + "        os.kill(os.getpid(), signal.SIGKILL)\n"


def words(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


@pytest.fixture
def night(pytester: pytest.Pytester) -> Path:
    """Four rows, of which the cluster has room for two at once."""
    path = pytester.path / "night"
    path.mkdir()
    rows = (f"gpus: {8 * number}, step_time_s: {8 / number:.3f}, line: {number}" for number in range(1, 5))
    (path / "tiny.yaml").write_text(tiny_table(*rows))
    (pytester.path / "screens.py").write_text(SCREENS)
    set_defaults(pytester.path, max_jobs=2)
    return pytester.path


def test_no_screen_calls_an_open_row_an_error(night: Path, pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.makeconftest(LOOKS)
    pytester.runpytest_subprocess(*OPTIONS, "--gsw-demo=*x8]=slow:12%").assert_outcomes(passed=3, failed=1)

    seen = {path.stem: path.read_text() for path in night.glob("*.seen")}
    state = r"1 of 4 done(, \d (running( \(step \d+ of \d+\))?|pending|not judged yet|not submitted yet))+"
    judged = r"1 (passed|regressed)"
    assert re.search(rf"^rows +{state}: {judged}$", seen["overview"], re.MULTILINE), seen["overview"]
    assert "next       pytest-gsw rows --run last\n" in re.sub("next +", "next       ", seen["overview"])
    assert re.search(rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d: {state}: {judged}$", seen["rows"], re.MULTILINE), seen[
        "rows"
    ]
    assert re.search(rf"^page/index.html: {state}: {judged}$", seen["index"], re.MULTILINE), seen["index"]
    assert re.search(rf"{state}: {judged}, ", seen["markdown"]), seen["markdown"]
    assert re.search(r"^### pytest-gsw: .* attention so far$", seen["markdown"], re.MULTILINE)
    assert re.search(wording("report goes on") + f", as of \\S+ \\S+: {state}[, ]", words(seen["page"])), words(
        seen["page"]
    )
    assert re.search(r"of 1 row so far|All well: 1 row so far", words(seen["page"]))
    assert '<meta http-equiv="refresh" content="60">' in seen["page"]
    for name in ("overview", "rows", "json", "page", "index", "markdown"):
        assert "error" not in seen[name].lower().replace("errors by", ""), seen[name]
    assert "pytest --gsw-resume" not in "".join(seen.values())

    listed = {one["row"]: one["state"] for one in json.loads(seen["json"])}
    assert len(listed) == 4
    assert sum(one in {"passed", "regressed"} for one in listed.values()) == 1
    assert seen["prom"].count('outcome="passed"') == 1
    assert 'outcome="error"} 1' not in seen["prom"]
    # A test case that is skipped would be green.
    assert seen["junit"].count(">" + wording("not judged yet", why=wording("report goes on") + "</error>")) == 3

    # Once it has ended, no row is open.
    assert "rows  4 rows: 3 passed, 1 regressed\n" in re.sub("rows +", "rows  ", gsw().out)
    assert gsw("rows", "--run", "last").out.endswith("\n\n3 passed, 1 regressed\n")
    gsw("report", "last", "-o", "page")
    assert "refresh" not in Path("page/index.html").read_text()


def test_the_session_writes_its_pages_while_it_goes_on(night: Path, pytester: pytest.Pytester) -> None:
    report = night / "report"
    report.mkdir()
    (report / "runs.html").write_text("the runs before")
    copies = 'shutil.copy("report/index.html", "page.seen"), shutil.copy("report/runs.html", "runs.seen")'
    pytester.makeconftest(LOOKS.replace('shutil.copy("page/index.html", "page.seen")', copies))
    pytester.runpytest_subprocess(*OPTIONS, "--gsw-report=report").assert_outcomes(passed=4)
    index = (night / "page.seen").read_text()
    assert re.search(r"its session goes on, as of \S+ \S+: [01] of 4 done, ", words(index))
    assert '<meta http-equiv="refresh" content="60">' in index
    # The runs of the history are left to the end of the session.
    assert (night / "runs.seen").read_text() == "the runs before"
    assert "refresh" not in (report / "index.html").read_text()
    assert "All runs" in (report / "runs.html").read_text()


def test_a_killed_session_does_not_go_on(night: Path, pytester: pytest.Pytester, gsw: Gsw) -> None:
    pytester.makeconftest(DIES)
    pytester.runpytest_subprocess(*OPTIONS)
    (run,) = Path(".gsw", "runs").iterdir()
    assert "1 of 4 done" in Path("overview.seen").read_text()
    assert (run / "live.json").is_file()
    Path("conftest.py").unlink()
    while is_owned(run):  # until the kernel has removed the process
        time.sleep(0.05)

    overview = gsw().out
    assert re.search(r"^rows +4 rows: 1 passed, 3 errors$", overview, re.MULTILINE), overview
    assert f"next   pytest --gsw-resume={run.name}\n" in overview
    assert gsw("rows", "--run", "last").out.count(f"pytest --gsw-resume={run.name} goes on with it\n") == 3
    gsw("report", "last", "-o", "out")
    assert "refresh" not in Path("out/index.html").read_text()
    assert "goes on" not in gsw("report", "last", "--format=markdown").out.replace("goes on with it", "")

    # The session that resumes it goes on, with none of the progress of the one before.
    pytester.makeconftest(LOOKS)
    pytester.runpytest_subprocess("--gsw-resume=last").assert_outcomes(passed=4)
    assert "error" not in Path("overview.seen").read_text()


def test_the_table_of_states_is_shown_on_request(night: Path, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import os, signal

        def pytest_gsw_job_state_changed(status):
            if status.state.value == "RUNNING":
                os.kill(os.getpid(), signal.SIGUSR1)
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS, "-q")
    result.assert_outcomes(passed=4)
    result.stdout.re_match_lines(
        [
            r"row +state +for +step +left +job +why",
            r"tiny_1b_bf16\[H100x\d+\] +(running|pending|not judged yet) .*",
            r"tiny_1b_bf16\[H100x\d+\] +not submitted yet",
            r"gsw: .*not submitted yet, \d of 4 done",
        ]
    )


def test_a_handler_of_another_plugin_stays_and_the_line_is_written_without_a_terminal(
    night: Path, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
        import os, signal

        import pytest_gsw.session.progress

        pytest_gsw.session.progress.HEARTBEAT_S = 0.0
        called = []
        signal.signal(signal.SIGUSR1, lambda *_: called.append(1))

        def pytest_gsw_job_state_changed(status):
            os.kill(os.getpid(), signal.SIGUSR1)

        def pytest_sessionfinish():
            assert called
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS, "-k", "x8")
    result.assert_outcomes(passed=1, deselected=3)
    result.stdout.no_fnmatch_line("row *state *")
    result.stdout.re_match_lines([r"gsw: 1 (running|pending|not judged yet)( \(step \d+ of \d+\))?, 0 of 1 done"])


def test_the_state_of_a_run_that_is_not_there(pytester: pytest.Pytester, gsw: Gsw) -> None:
    told = gsw("rows", "--run", "last", status=2).err
    assert told.startswith("pytest-gsw rows: " + wording("no run", directory=""))
