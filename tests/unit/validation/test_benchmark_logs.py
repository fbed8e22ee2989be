"""What a benchmark's log states is held against its row: good outputs pass, those of another set-up do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import FileError, RunError
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.stats.verdict import verdict_of
from pytest_gsw.tables.load import load_table
from tests.messages import wording
from tests.unit.validation.benchmark_logs import (
    GOOD_NCCL,
    GOOD_SERVING,
    OPEN_MODELS,
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
    return verdict_of(row, found, row.criterion.tolerance).outcome.value, found


@pytest.mark.parametrize("name", GOOD)
def test_a_good_log_passes(tmp_path: Path, name: str) -> None:
    log, table = GOOD[name]
    assert outcome(tmp_path, log.text(), table)[0] == "passed"


@pytest.mark.parametrize("name", OTHER)
def test_a_run_of_another_set_up_does_not_pass(tmp_path: Path, name: str) -> None:
    log, table = OTHER[name]
    assert outcome(tmp_path, log.text(), table)[0] not in {"passed", "improved"}


@pytest.mark.parametrize("model", OPEN_MODELS)
def test_a_model_that_may_be_the_row_s_is_inconclusive(tmp_path: Path, model: str) -> None:
    found, measurement = outcome(tmp_path, Serving(model).text(), OPEN_MODELS[model])
    assert found == "inconclusive"
    assert measurement is not None
    assert measurement.doubt is not None
    assert measurement.doubt.endswith(wording("not the same"))


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ("{max_input_tok: 128}", "'attributes.max_input_tok' is no known setting of serving, which has "),
        ("{ouput_len: 128}", "'attributes.ouput_len' is no known setting of serving, which has "),
        ("{n_prompts: 128}", "'attributes.n_prompts' is no known setting of serving, which has "),
        ("{input_length: '{gpus}'}", "'attributes.input_length' is '{gpus}', wanted a number, or on or off"),
        ("{input_length: '16,32'}", "'attributes.input_length' is '16,32', wanted a number, or on or off"),
        ("{ISL: 1ktok}", "'attributes.ISL' is '1ktok', wanted a number, or on or off"),
        ("{output_tokens_per_s: '1996', instance: p5, request_throughput: 3 req/s, OSL: 1k tokens}", None),
    ],
)
def test_settings_that_cannot_be_compared_are_faults_of_the_table(
    tmp_path: Path, attributes: str, problem: str | None
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(serving_table(more=f"attributes: {attributes}\n"))
    if problem is None:
        assert load_table(path)
        return
    with pytest.raises(FileError) as caught:
        load_table(path)
    (fault,) = caught.value.faults
    assert fault.problem.startswith(problem)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_log_does_not_pass(tmp_path: Path, name: str) -> None:
    assert outcome(tmp_path, *DAMAGED[name])[0] not in {"passed", "improved"}
