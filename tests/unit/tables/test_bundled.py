"""The tables that come with pytest-gsw, against their documents and against the documents' own formulas."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_gsw.importing import arithmetic as flops
from pytest_gsw.stats.figures import figures, peak_flops
from pytest_gsw.tables.bundled import benchmarks, bundled_baselines
from pytest_gsw.tables.load import load_tables, table_files
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.stated_rows import stated_rows

#: What was measured by this project itself; all others are copied from documents.
OWN = "smoke_gpt.md"
ALL_ROWS = load_tables([bundled_baselines()])
ROWS = tuple(row for row in ALL_ROWS if row.source.document != OWN)
BY_ID = {row.id: row for row in ROWS}
LLAMA2 = "llama2_70b_{}[H100x{}]".format
LLAMA3 = "llama3.1_405b_{}[H100x{}]".format
GROK = "grok1_314b_{}[H100x{}]".format
GPT2 = "gpt2_{}_fp16[{}]".format


def test_every_row_of_the_documents_is_there() -> None:
    assert len(ROWS) == 139
    assert Counter(row.source.document for row in ROWS) == {
        "000_cd9781b5847e9896.txt": 5,
        "001_d72875405c2646ca.txt": 12,
        "002_3c57c1fddbf54bf7.txt": 92,
        "003_74aabd83c4a30565.txt": 12,
        "004_e3558243c967e79c.txt": 18,
    }


def test_ids_are_unique() -> None:
    assert len({row.id for row in ALL_ROWS}) == len(ALL_ROWS)


@pytest.mark.parametrize(
    ("row_id", "line", "batch", "step_time_s", "tokens_per_s", "mfu", "days"),
    [
        ("gpt3_175b_fp8[H100x128]", 49, 256, 7.47, 70185.8, 0.2976, 164.9),
        (LLAMA2("fp8", 64), 31, 128, 4.324, 121250.69, None, 95.46),
        (LLAMA2("bf16", 2048), 25, 4096, 7.066, 2374358.34, 0.5209, 4.87),
        (LLAMA3("bf16", 96), 58, 126, 8.75, 117965, 0.5617, None),
        (LLAMA3("fp8", 2304), 69, 1008, 12.35, 668626, 0.3887, 17.31),
        (GROK("bf16", 8), 66, 1024, 24.00, 174762, 0.454, None),
        (GROK("fp8", 1024), 73, 2048, 17.01, 981295, 0.2524, 11.73),
    ],
)
def test_figures_of_each_document(
    row_id: str, line: int, batch: int, step_time_s: float, tokens_per_s: float, mfu: float | None, days: float | None
) -> None:
    row = BY_ID[row_id]
    assert row.source.line == line
    assert row.batch.global_batch_size == batch
    assert row.documented.step_time_s == step_time_s
    assert row.documented.tokens_per_s == tokens_per_s
    assert row.documented.mfu == mfu
    assert row.documented.days_to_train_1t_tokens == days


@pytest.mark.parametrize(
    ("row_id", "line", "step_time_s", "tflops_per_gpu"),
    [
        (GPT2("7.5b", "V100-16GBx16-max"), 73, 0.661, 23.2),
        (GPT2("39b", "V100-32GBx32-pp8-gas512-mbs6"), 111, 478, 64.2),
        (GPT2("52b", "V100-32GBx64-ds3d-gas1024-mbs4-gbs4096"), 183, 544, 50.1),
        (GPT2("52b", "V100-32GBx64-zero-id8"), 418, 178, 45.5),
        (GPT2("52b", "V100-32GBx64-hf-mbs12-offload-optimizer-run2"), 484, 175, 29.2),
    ],
)
def test_figures_copied_from_the_gpt2_document(
    row_id: str, line: int, step_time_s: float, tflops_per_gpu: float
) -> None:
    row = BY_ID[row_id]
    assert row.source.line == line
    assert row.documented.step_time_s == step_time_s
    assert row.documented.tflops_per_gpu == tflops_per_gpu


def test_rows_that_are_judged_by_no_step_time() -> None:
    # The times of saving a checkpoint.
    rows = [row for row in ROWS if row.criterion.metric == "checkpoint_save_time"]
    assert [(row.workload.size, row.gpus, row.judged, row.source.line) for row in rows] == [
        ("25b", 32, 17.96068, 287),
        ("52b", 64, 19.29814, 289),
        ("52b", 128, 19.22838, 290),
        ("52b", 256, 19.65280, 291),
        ("97b", 128, 19.41709, 293),
        ("97b", 256, 11.52599, 294),
        ("181b", 256, 19.49531, 296),
    ]
    # The rows that run out of memory.
    assert {row.id: row.source.line for row in ROWS if row.criterion.expected_failure} == {
        GPT2("52b", "V100-32GBx64-zero-id11"): 421,
        GPT2("52b", "V100-32GBx64-hf-zero2-offload"): 487,
    }
    # Every other row has the figure that it is judged by.
    assert [row.id for row in ROWS if row.judged is None] == [row.id for row in ROWS if row.criterion.expected_failure]


def test_tolerances_are_the_documents() -> None:
    assert {(row.workload.model, row.criterion.tolerance) for row in ROWS} == {
        ("gpt2", 0.4),
        ("gpt3", 0.05),
        ("grok1", 0.05),
        ("llama2", 0.05),
        ("llama3.1", 0.05),
    }


def test_how_many_steps_a_log_must_hold() -> None:
    assert Counter((row.workload.framework, row.criterion.metric, row.criterion.min_steps) for row in ROWS) == {
        ("deepspeed", "checkpoint_save_time", 1): 7,
        ("deepspeed", "step_time", 2): 39,
        ("huggingface", "step_time", 1): 13,
        ("maxtext", "step_time", 45): 12,
        ("megatron", "step_time", 2): 33,
        ("nemo", "step_time", 45): 30,
        ("paxml", "step_time", 18): 5,
    }


@pytest.mark.parametrize(
    ("figure", "stated", "digits"),
    [
        ("tokens_per_s", 47, 0.001),
        ("mfu", 41, 0.002),
        ("days_to_train_1t_tokens", 29, 0.001),
        ("tflops_per_gpu", 83, 0.03),
    ],
)
def test_the_formulas_give_the_documents_figures(figure: str, stated: int, digits: float) -> None:
    rows = {row.id: row for row in ROWS if getattr(row.documented, figure) is not None}
    assert len(rows) == stated
    acknowledged = {row.id: row.acknowledged for path in table_files(bundled_baselines()) for row in stated_rows(path)}
    for row in rows.values():
        computed = figures(row, row.documented.step_time_s, peak_flops(row.accelerator, row.workload.dtype))
        if figure not in acknowledged[row.id]:
            assert getattr(computed, figure) == pytest.approx(getattr(row.documented, figure), rel=digits), row.id


def test_pinned_model_flops_are_the_formulas() -> None:
    pinned = [row for row in ROWS if row.workload.model_flops_per_sample is not None]
    assert len(pinned) == 139 - 7
    for row in pinned:
        computed = model_flops(row)
        if row.workload.proxy or row.workload.model == "gpt2":
            assert row.workload.model_flops_per_sample == pytest.approx(computed, rel=1e-14), row.id
        else:
            assert f"{row.workload.model_flops_per_sample:.2e}" == f"{computed:.2e}", row.id


@cache
def architectures() -> dict[str, dict[str, Any]]:
    """The architecture of each file, which rows do not carry."""
    files = table_files(bundled_baselines())
    return {str(path): yaml.safe_load(path.read_text())["architecture"] for path in files}


def model_flops(row: Baseline) -> float:
    architecture = dict(architectures()[str(row.location.path)])
    formula = architecture.pop("formula")
    if formula == "gpt2":
        assert row.workload.parameters_in_billions is not None
        return flops.gpt2(
            sequence_length=row.workload.sequence_length, parameters=float(row.workload.parameters_in_billions) * 1e9
        )
    if row.workload.layers is not None:
        architecture["layers"] = row.workload.layers
    return float(getattr(flops, formula)(sequence_length=row.workload.sequence_length, **architecture))


# ---- What this project has measured itself ---------------------------------------------------------


def test_the_figures_of_smoke_gpt() -> None:
    # The figures of smoke_gpt are those of its document.
    rows = [row for row in ALL_ROWS if row.source.document == OWN]
    assert [row.id for row in rows] == ["smoke_gpt_20m_fp32[CPUx1]", "smoke_gpt_20m_fp32[CPUx2]"]
    lines = (Path(__file__).parents[3] / "docs" / OWN).read_text().splitlines()
    for row in rows:
        assert row.documented.mfu is not None
        assert row.calibration_flops is not None
        stated = f"| `{row.id}` | 7 | {row.judged:.3f} | {row.documented.mfu:.2%} | {row.calibration_flops / 1e9:g} |"
        assert lines[row.source.line - 1].replace(" %", "%").startswith(stated)
    # The figures of smoke_gpt follow from each other.
    for row in (row for row in ALL_ROWS if row.source.document == OWN):
        assert row.workload.model_flops_per_sample == model_flops(row)
        found = figures(row, row.documented.step_time_s, row.calibration_flops)
        assert found.mfu == pytest.approx(row.documented.mfu, rel=5e-4)  # four digits of the step time


# ---- Benchmarks of networks ----------------------------------------------------------------------


def test_bundled_bandwidths_are_those_of_their_ranks() -> None:
    """Documents state both bandwidths, whose ratio follows from the number of ranks (nccl-tests, PERFORMANCE.md)."""
    rows = load_tables(benchmarks())
    assert len(rows) == len({row.id for row in rows} - {row.id for row in ALL_ROWS}) == 26
    for row in rows:
        shared = (row.gpus - 1) / row.gpus
        factor = {"all_reduce": 2 * shared, "all_gather": shared, "alltoall": shared}[row.workload.model]
        assert row.documented.value == pytest.approx(float(row.attributes["algbw"]) * factor, rel=4e-4), row.id
        assert row.source.document, row.source.line
        assert row.source.release, row.id
