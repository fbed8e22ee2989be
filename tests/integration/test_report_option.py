"""``--gsw-report``: pages for people and files for CI, at the end of a session."""

from __future__ import annotations

import html
import shlex
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw, junit
from tests.messages import wording

SIX_ROWS = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8")
FAULTS = ("--gsw-demo=*x128]=slow:12%", "--gsw-demo=*x256]=oom")
FILES = {
    "index.html",
    "runs.html",
    "nodes.html",
    "report.css",
    "summary.md",
    "gsw.prom",
}


def test_the_report_of_a_session_and_of_its_replay(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = pytester.path / "summary.md"
    summary.write_text("before\n")
    with monkeypatch.context() as github:
        github.setenv("GITHUB_ACTIONS", "true")
        github.setenv("GITHUB_STEP_SUMMARY", str(summary))
        result = pytester.runpytest(*SIX_ROWS, *FAULTS, "--gsw-report=report")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([wording("report is there", path="report/index.html")])
    report = pytester.path / "report"
    assert {path.name for path in report.iterdir() if path.is_file()} == FILES
    assert len(list(report.glob("runs/*/rows/*.html"))) == 2
    assert (report / "workloads" / "llama2_70b.html").read_text().count("<h2 id=") == 6
    index = (report / "index.html").read_text()
    assert index.index("llama2_70b_fp8[H100x128]") < index.index("llama2_70b_fp8[H100x64]")  # the worst first
    assert 'gsw_step_time_seconds{row="llama2_70b_fp8[H100x64]"' in (report / "gsw.prom").read_text()

    result.stdout.re_match_lines([r"::error file=baselines/maxtext/llama2_70b\.yaml,line=\d+,title=regressed.*"])
    assert summary.read_text().startswith("before\n")
    assert wording("needs attention", count=2, need="rows need") in summary.read_text()

    (run,) = pytester.path.glob(".gsw/runs/*")
    pytester.runpytest(f"--gsw-replay={run}", "--gsw-report=again")
    assert {path.name for path in (pytester.path / "again").iterdir() if path.is_file()} == FILES


def test_a_report_that_cannot_be_written_fails_the_session(pytester: pytest.Pytester) -> None:
    (pytester.path / "report" / "index.html").mkdir(parents=True)
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "gpt3_175b and x128", "--gsw-report=report")
    result.assert_outcomes(passed=1, deselected=140)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([wording("cannot be written", what="gsw: the report", why="*")])


def test_a_session_that_ran_nothing_leaves_no_report(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--gsw-cluster=demo", "-k", "no_such_row", "--gsw-report=report")
    assert not (pytester.path / "report").exists()


ONE = "llama2_70b_fp8[H100x64]"
BROKEN = ("--gsw-cluster=demo", "--gsw-demo=*x64]=slow:12%;*x128]=oom", "--gsw-demo=*x256]=slow:12%")


def typed(pytester: pytest.Pytester, told: str) -> pytest.RunResult:
    """The outcome of one command of a message, as a shell takes it apart."""
    program, *arguments = shlex.split(told)
    assert program == "pytest"
    return pytester.runpytest(*arguments)


def told(result: pytest.RunResult, name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in result.outlines if line.startswith(f"{name} ")]


def test_the_commands_of_a_session_find_its_rows_as_they_were(gsw: Gsw, pytester: pytest.Pytester) -> None:
    """A session of three broken rows and a sound one."""
    rows = ("-k", "llama2_70b_fp8 and (x64 or x128 or x256 or x512)")
    broken = pytester.runpytest(*BROKEN, *rows, "--junitxml=junit.xml", "--gsw-report=report")
    broken.assert_outcomes(failed=2, errors=1, passed=1, deselected=137)
    gsw("report", "--format=junit", "last", "-o", "rebuilt.xml")
    by_session, rebuilt = (commands_in(pytester.path / name) for name in ("junit.xml", "rebuilt.xml"))
    assert by_session == rebuilt
    assert by_session == sorted(f"{name} {line}" for name in ("again", "offline") for line in told(broken, name))

    (again,) = (line for line in told(broken, "again") if line.endswith(f"{ONE}'"))
    assert again.startswith("pytest --gsw-cluster=demo '--gsw-demo=*x64]=slow:12%' ")
    typed(pytester, again).assert_outcomes(failed=1)
    (offline,) = (line for line in told(broken, "offline") if line.endswith(f"{ONE}'"))
    typed(pytester, offline).assert_outcomes(failed=1)  # a log that is judged again needs no fault

    slow, error = (line.partition(": ")[2] for line in told(broken, "next:"))
    assert slow in html.unescape((pytester.path / "report" / "index.html").read_text())
    assert f"`{error}`" in (pytester.path / "report" / "summary.md").read_text()
    typed(pytester, error).assert_outcomes(errors=1)
    typed(pytester, slow).assert_outcomes(failed=2)


def test_a_row_of_another_release_is_run_again_by_that_release(pytester: pytest.Pytester) -> None:
    options = ("--gsw-cluster=demo", "--gsw-release=25.02", "--gsw-demo=*=slow:12%", "-k", "grok1 and fp8 and x512")
    result = pytester.runpytest(*options)
    result.assert_outcomes(failed=1)
    (again,) = told(result, "again")
    typed(pytester, again).assert_outcomes(failed=1)


def commands_in(path: Path) -> list[str]:
    texts = [element.text or "" for case in junit(path).values() for element in case]
    found = [line.split(maxsplit=1) for text in texts for line in text.splitlines()]
    return sorted(" ".join(words) for words in found if words and words[0] in {"again", "offline"})
