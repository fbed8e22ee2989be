"""What a benchmark's log states is held against its row: good outputs pass, those of another set-up do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import RunError
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.verdict import judge
from pytest_gsw.tables.load import load_table
from tests.unit.validation.benchmark_logs import (
    GOOD_NCCL,
    GOOD_SERVING,
    OTHER_NCCL,
    OTHER_SERVING,
    Nccl,
    Serving,
    damaged_nccl,
    damaged_serving,
    nccl_table,
    serving_table,
)
from tests.unit.validation.ended import measured

DAMAGED = {
    **{f"nccl-tests: {name}": (text, nccl_table()) for name, text in damaged_nccl()},
    **{f"serving: {name}": (text, serving_table()) for name, text in damaged_serving()},
}
GOOD: dict[str, tuple[Nccl | Serving, str]] = {
    **{f"nccl-tests: {name}": case for name, case in GOOD_NCCL.items()},
    **{f"serving: {name}": case for name, case in GOOD_SERVING.items()},
}
OTHER: dict[str, tuple[Nccl | Serving, str]] = {
    **{f"nccl-tests: {name}": case for name, case in OTHER_NCCL.items()},
    **{f"serving: {name}": case for name, case in OTHER_SERVING.items()},
}


def outcome(folder: Path, text: str, table: str) -> tuple[str, Measurement | None]:
    """How a log of a job that ended well is judged: the fact of an error, or the outcome and the measurement."""
    (folder / "own.yaml").write_text(table)
    (folder / "run.log").write_text(text)
    (row,) = load_table(folder / "own.yaml")
    try:
        found = measured(folder / "run.log", row)
    except RunError as error:
        return error.fact, None
    return judge(row, found, row.tolerance).outcome.value, found


@pytest.mark.parametrize("name", GOOD)
def test_a_good_log_passes(tmp_path: Path, name: str) -> None:
    log, table = GOOD[name]
    assert outcome(tmp_path, log.text(), table)[0] == "passed"


@pytest.mark.parametrize("name", OTHER)
def test_a_run_of_another_set_up_does_not_pass(tmp_path: Path, name: str) -> None:
    log, table = OTHER[name]
    assert outcome(tmp_path, log.text(), table)[0] not in {"passed", "improved"}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_log_does_not_pass(tmp_path: Path, name: str) -> None:
    assert outcome(tmp_path, *DAMAGED[name])[0] not in {"passed", "improved"}
