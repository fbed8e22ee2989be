"""What is too good to be true is in no proposal and in no series, until somebody accepts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.cli import main
from tests.integration.runs import write_runs

ROW = "tiny_1b_bf16[H100x8]"
#: Half of the documented second, and a tenth of it in one job.
FAST = (0.49, 0.5, 0.5, 0.51, 0.5)
TOO_GOOD = {"outcome": "inconclusive", "reason": "too good to be true", "max_gain": 0.25}
WHY = "is too good to be true; --max-gain=PERCENT counts such runs, once it is clear why they are so fast"
STEP = "completed step: {step}, seconds: {seconds}, TFLOP/s/device: 1.5, Tokens/s/device: 6.5, loss: 9.021\n"


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


def test_one_run_that_nobody_believes_is_none_of_the_five(
    table: Path, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_runs(pytester.path / ".gsw", table)
    write_runs(pytester.path / ".gsw", table, (0.1,), **TOO_GOOD)  # in place of the first
    status, out, err = propose(capsys, *runs)
    assert (status, out) == (1, "")
    assert "4 jobs, at least 5 needed (--min-jobs)" in err
    assert WHY in err


@pytest.mark.parametrize("given", ["0%", "-5%", "nan", "inf", "fast"])
def test_a_gain_that_is_none(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["baseline", "propose", ".", f"--max-gain={given}"])
    assert ended.value.code == 2
    assert "--max-gain" in capsys.readouterr().err


def history(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["history", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def write_log(job_id: int, seconds: str) -> None:
    path = Path(f"stage/results/24.11/bf16/1b/8/log-maxtext_tiny_1b_8_{job_id}.out")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(STEP.format(step=step, seconds=seconds) for step in range(20)))


def test_an_imported_log_that_nobody_believes_is_marked_and_is_no_proposal(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for job_id, seconds in enumerate(("1.01", "1.02", "1.01", "0.10"), start=1):
        write_log(job_id, seconds)
    status, out, _ = history(capsys, ROW, "--from-logs=.", "--cluster=eos", f"--baselines={table}")
    assert (status, out) == (0, ".gsw/history.sqlite: 4 records of 4 runs added\n")
    _, out, _ = history(capsys, "*x8]", "--json")
    (series,) = json.loads(out)
    points: list[dict[str, Any]] = sorted(series["points"], key=lambda point: point["judged_s"])
    assert [(point["judged_s"], point["outcome"], point["reason"]) for point in points[:2]] == [
        (0.1, "inconclusive", "too good to be true"),
        (1.01, "passed", ""),
    ]


def test_one_that_the_table_believes_is_imported_as_a_gain(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(table.read_text().replace("gpus: 8, step", "gpus: 8, max_gain: 2000%, step"))
    write_log(1, "0.10")
    history(capsys, ROW, "--from-logs=.", "--cluster=eos", f"--baselines={table}")
    _, out, _ = history(capsys, "*x8]", "--json")
    (series,) = json.loads(out)
    assert [(point["outcome"], point["reason"]) for point in series["points"]] == [("improved", "")]
