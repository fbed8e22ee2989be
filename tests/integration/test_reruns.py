"""pytest-rerunfailures would judge the same job again: rows are run once, and one line says so."""

from __future__ import annotations

from pathlib import Path

import pytest

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
