"""pytest's own options mean for rows what they mean for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.defaults import set_defaults

ROWS = ("--gsw-cluster=demo", "-k", "gpt3_175b and not x128 and not x2048")
BROKEN = (*ROWS, "--gsw-demo=*x256]=slow:10%", "--gsw-demo=*x512]=fail")


def test_lf_runs_what_failed(pytester: pytest.Pytester) -> None:
    pytester.runpytest(*BROKEN).assert_outcomes(passed=1, failed=1, errors=1, deselected=138)
    pytester.runpytest("--gsw-cluster=demo", "--lf").assert_outcomes(passed=2, deselected=139)


def test_sw_stops_at_the_first_failure_and_goes_on_from_it(pytester: pytest.Pytester) -> None:
    set_defaults(pytester.path, max_jobs=1)  # the largest row first, so that the order is known
    pytester.runpytest(*BROKEN, "--sw").assert_outcomes(passed=1, errors=1, deselected=138)
    assert pytester.runpytest(*ROWS, "--sw").parseoutcomes()["passed"] == 2


def test_quiet_is_quiet_and_pytests_own_junit_report_may_be_left_out(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "gpt3_175b and (x128 or x256)", "-q", "-p", "no:junitxml")
    assert result.ret == pytest.ExitCode.OK
    lines = [line for line in result.outlines if line.strip()]
    assert (lines[0][:3], len(lines)) == (".. ", 2)


def test_a_plan_without_a_terminal(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "gpt3_175b and x128", "-p", "no:terminal", "--gsw-plan")
    assert any(line.startswith("1 row, 128 GPUs on 16 nodes") for line in result.outlines)


def test_a_session_that_waits_says_where_it_stands(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.session.progress.HEARTBEAT_S", 0.2)
    arguments = ("--gsw-cluster=demo", "-k", "gpt3_175b and H100x128", "--gsw-demo=*=stall")
    set_defaults(pytester.path, timeout=0.02)
    result = pytester.runpytest(*arguments)
    result.stdout.re_match_lines([r"gsw: (at least .* left, |about .* left, )?1 running(, | \().*0 of 1 done"])
    assert "1 running" not in pytester.runpytest(*arguments, "-q").stdout.str()


@pytest.mark.parametrize(
    ("selection", "count"),
    [(("-m", "gsw(framework='nemo', dtype='fp8') and not proxy"), 6), (("-k", "405b and not fp8"), 6)],
)
def test_rows_are_selected_by_their_facts(pytester: pytest.Pytester, selection: tuple[str, str], count: int) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", "--strict-markers", *selection)
    assert len([line for line in result.outlines if "::" in line]) == count


def test_collected_rows_are_no_garbage(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import gc\n\n\ndef pytest_unconfigure():\n    print('frozen', gc.get_freeze_count() > 1000)\n"
    )
    pytester.makepyfile("def test_one():\n    pass\n")
    rows = ("--gsw-cluster=demo", "--collect-only", "-q", "-k", "x128 or test_one")
    assert "frozen True" in pytester.runpytest_subprocess(*rows).outlines
    # Of another test, pytest may want to collect what it leaves.
    assert "frozen False" in pytester.runpytest_subprocess(*rows, ".").outlines


SLOW = ("--gsw-cluster=demo", "--gsw-demo=*=slow:30%", "--gsw-baselines=site", "-k", "x16 or test_one", ".")
LINE = (
    "gsw: pytest-rerunfailures runs no row again, which would judge the same job once more; "
    "--gsw-confirm=N runs further jobs of a row that is too slow"
)


@pytest.fixture(autouse=True)
def _a_test_that_fails_at_first(pytester: pytest.Pytester, table: Path) -> None:
    pytest.importorskip("pytest_rerunfailures")
    pytester.makepyfile(
        test_one="""
        from pathlib import Path

        def test_one():
            seen = Path("seen")
            first = not seen.exists()
            seen.touch()
            assert not first
        """
    )


@pytest.mark.parametrize("option", ["--reruns=2", "--force-reruns=2"])
def test_rows_are_not_run_again(pytester: pytest.Pytester, option: str) -> None:
    result = pytester.runpytest(*SLOW, option)
    result.assert_outcomes(passed=1, failed=1, deselected=2)
    assert result.parseoutcomes()["rerun"] == 1  # the test's
    assert result.outlines.count(LINE) == 1
    assert len(list(pytester.path.glob(".gsw/runs/*/batch/*.out"))) == 1


def test_nor_are_rows_that_a_conftest_calls_flaky(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_itemcollected(item):
            item.add_marker(pytest.mark.flaky(reruns=3))
        """
    )
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-demo=*=slow:30%", "-k", "gpt3_175b and x128")
    result.assert_outcomes(failed=1, deselected=140)
    assert "rerun" not in result.parseoutcomes()
    assert result.outlines.count(LINE) == 1
