"""``--gsw-report``: pages for people and files for CI, at the end of a session."""

from __future__ import annotations

import pytest

SIX_ROWS = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8")
FAULTS = ("--gsw-demo=*x128]=slow:12%", "--gsw-demo=*x256]=oom")
FILES = {
    "index.html",
    "runs.html",
    "jobs.html",
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
    result.stdout.fnmatch_lines(["gsw: the report is report/index.html"])
    report = pytester.path / "report"
    assert {path.name for path in report.iterdir() if path.is_file()} == FILES
    assert len(list((report / "rows").glob("*.html"))) == 6
    index = (report / "index.html").read_text()
    assert index.index("llama2_70b_fp8[H100x128]") < index.index("llama2_70b_fp8[H100x64]")  # the worst first
    assert 'gsw_step_time_seconds{row="llama2_70b_fp8[H100x64]"' in (report / "gsw.prom").read_text()

    result.stdout.re_match_lines([r"::error file=baselines/maxtext/llama2_70b\.yaml,line=\d+,title=regressed.*"])
    assert summary.read_text().startswith("before\n")
    assert "### pytest-gsw: 2 rows need attention" in summary.read_text()

    (run,) = pytester.path.glob(".gsw/runs/*")
    pytester.runpytest(f"--gsw-replay={run}", "--gsw-report=again")
    # Without a cluster there are no runs to list.
    assert {path.name for path in (pytester.path / "again").iterdir() if path.is_file()} == FILES - {"runs.html"}


def test_a_report_that_cannot_be_written_fails_the_session(pytester: pytest.Pytester) -> None:
    (pytester.path / "report").write_text("")
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "gpt3_175b and x128", "--gsw-report=report")
    result.assert_outcomes(passed=1, deselected=140)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gsw: the report cannot be written: *"])


def test_a_session_that_ran_nothing_leaves_no_report(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--gsw-cluster=demo", "-k", "no_such_row", "--gsw-report=report")
    assert not (pytester.path / "report").exists()
