"""What is too good to be true is in no proposal and in no series, until somebody accepts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.cli import main
from tests.integration.runs import write_runs

ROW = "tiny_1b_bf16[H100x8]"
#: Half of the documented second, and a tenth of it in one job.
FAST = (0.49, 0.5, 0.5, 0.51, 0.5)
TOO_GOOD = {"outcome": "inconclusive", "reason": "too good to be true", "max_gain": 0.25}
WHY = "is too good to be true; --max-gain=PERCENT counts such runs, once it is clear why they are so fast"


@pytest.fixture(autouse=True)
def _here(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pytester.path)


def propose(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["baseline", "propose", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_runs_that_nobody_believes_are_proposed_only_up_to_a_gain(
    table: Path, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_runs(pytester.path / ".gsw", table, FAST, **TOO_GOOD)
    status, out, err = propose(capsys, *runs)
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == "pytest-gsw baseline: nothing can be proposed"
    assert f"{WHY} (5 runs)" in err
    # 1 s / 0.49 s is a gain of 104 %.
    assert propose(capsys, *runs, "--max-gain=99%")[:2] == (1, "")
    status, out, err = propose(capsys, *runs, "--max-gain=105%")
    assert (status, err) == (0, "")
    assert out.startswith(
        f"# {ROW} on eos: 0.5 s beside the documented 1 s (50.0 % shorter); median of 5 jobs from 0.49 to 0.51 s"
    )
