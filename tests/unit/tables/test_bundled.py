"""The tables that come with pytest-gsw, against their documents and against the documents' own formulas."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_gsw.performance import figures as flops
from pytest_gsw.performance.figures import figures, peak_flops
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table, load_tables, table_files
from pytest_gsw.tables.model import Baseline

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
    assert Counter("/".join(row.location.path.parts[-2:]) for row in ROWS) == {
        "deepspeed/gpt2.yaml": 46,
        "huggingface/gpt2.yaml": 13,
        "maxtext/llama2_70b.yaml": 12,
        "megatron/gpt2.yaml": 33,
        "nemo/grok1_314b.yaml": 18,
        "nemo/llama3.1_405b.yaml": 12,
        "paxml/gpt3_175b.yaml": 5,
    }
    assert Counter(row.framework for row in ROWS) == {
        "deepspeed": 46,
        "huggingface": 13,
        "maxtext": 12,
        "megatron": 33,
        "nemo": 30,
        "paxml": 5,
    }


def test_ids_are_unique() -> None:
    assert len({row.id for row in ALL_ROWS}) == len(ALL_ROWS)


def test_rows_of_a_file_stand_below_its_framework() -> None:
    assert all(row.location.path.parent.name == row.framework for row in ALL_ROWS)


def test_the_six_rows_of_llama2_70b_fp8() -> None:
    rows = [row for row in ROWS if row.name == "llama2_70b_fp8"]
    assert [
        (
            row.gpus,
            row.global_batch_size,
            row.parallelism.fsdp,
            row.documented.step_time_s,
            row.documented.tokens_per_s,
            row.documented.days_to_train_1t_tokens,
        )
        for row in rows
    ] == [
        (64, 128, 64, 4.324, 121250.69, 95.46),
        (128, 256, 128, 4.556, 230152.77, 50.29),
        (256, 512, 256, 4.959, 422898.16, 27.37),
        (512, 1024, 128, 5.043, 831708.11, 13.92),
        (1024, 2048, 128, 5.062, 1657172.66, 6.98),
        (2048, 4096, 128, 4.93, 3403086.41, 3.40),
    ]
    assert {
        (row.sequence_length, row.micro_batch_size, row.tolerance, row.statistic, row.min_steps, row.documented.mfu)
        for row in rows
    } == {(4096, 2, 0.05, "last", 45, None)}


@pytest.mark.parametrize(
    ("row_id", "line", "batch", "step_time_s", "tokens_per_s", "mfu", "days"),
    [
        ("gpt3_175b_fp8[H100x128]", 49, 256, 7.47, 70185.8, 0.2976, 164.9),
        ("gpt3_175b_fp8[H100x2048]", 49, 4096, 8.02, 1045961.09, 0.2772, 11.07),
        (LLAMA2("bf16", 64), 25, 128, 6.999, 74908.99, 0.5259, 154.51),
        (LLAMA2("bf16", 2048), 25, 4096, 7.066, 2374358.34, 0.5209, 4.87),
        (LLAMA3("bf16", 96), 58, 126, 8.75, 117965, 0.5617, None),
        (LLAMA3("bf16", 576), 58, 252, 17.20, 120022, 0.5578, 96.43),
        (LLAMA3("fp8", 32), 69, 126, 5.80, 178118, 0.4477, None),
        (LLAMA3("fp8", 2304), 69, 1008, 12.35, 668626, 0.3887, 17.31),
        (GROK("bf16", 8), 66, 1024, 24.00, 174762, 0.454, None),
        (GROK("bf16", 2048), 66, 4096, 21.29, 1576065, 0.4056, 7.34),
        (GROK("fp8", 1024), 73, 2048, 17.01, 981295, 0.2524, 11.73),
    ],
)
def test_figures_copied_from_the_recipes_documents(
    row_id: str, line: int, batch: int, step_time_s: float, tokens_per_s: float, mfu: float, days: float | None
) -> None:
    row = BY_ID[row_id]
    assert row.source.line == line
    assert row.global_batch_size == batch
    assert row.documented.step_time_s == step_time_s
    assert row.documented.tokens_per_s == tokens_per_s
    assert row.documented.mfu == mfu
    assert row.documented.days_to_train_1t_tokens == days


@pytest.mark.parametrize(
    ("row_id", "line", "step_time_s", "tflops_per_gpu"),
    [
        (GPT2("7.5b", "V100-16GBx16-max"), 73, 0.661, 23.2),
        (GPT2("206b", "V100-32GBx256-max"), 88, 6.736, 3.9),
        (GPT2("39b", "V100-32GBx32-pp8-gas512-mbs6"), 111, 478, 64.2),
        (GPT2("52b", "V100-32GBx64-ds3d-off"), 186, 126, 54.1),
        (GPT2("52b", "V100-32GBx64-ds3d-gas1024-mbs4-gbs4096"), 183, 544, 50.1),
        (GPT2("52b", "V100-32GBx64-zero-id8"), 418, 178, 45.5),
        (GPT2("97b", "V100-32GBx64-hf-max"), 468, 222, 14.3),
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


def test_the_times_of_saving_a_checkpoint() -> None:
    rows = [row for row in ROWS if row.metric == "checkpoint_save_time"]
    assert [(row.size, row.gpus, row.judged_s, row.source.line) for row in rows] == [
        ("25b", 32, 17.96068, 287),
        ("52b", 64, 19.29814, 289),
        ("52b", 128, 19.22838, 290),
        ("52b", 256, 19.65280, 291),
        ("97b", 128, 19.41709, 293),
        ("97b", 256, 11.52599, 294),
        ("181b", 256, 19.49531, 296),
    ]


def test_the_rows_that_run_out_of_memory() -> None:
    assert {row.id: row.source.line for row in ROWS if row.expected_failure} == {
        GPT2("52b", "V100-32GBx64-zero-id11"): 421,
        GPT2("52b", "V100-32GBx64-hf-zero2-offload"): 487,
    }


def test_every_other_row_has_the_figure_that_it_is_judged_by() -> None:
    assert [row.id for row in ROWS if row.judged_s is None] == [row.id for row in ROWS if row.expected_failure]


def test_proxies_are_the_rows_below_the_full_models_gpus() -> None:
    proxies = {row.id for row in ROWS if row.proxy}
    assert proxies == {
        *(LLAMA3(dtype, gpus) for dtype in ("bf16", "fp8") for gpus in (32, 96, 192)),
        *(GROK(dtype, gpus) for dtype in ("bf16", "fp8") for gpus in (8, 16, 32, 64, 128, 256)),
    }
    assert len(proxies) == 18


def test_tolerances_are_the_documents() -> None:
    assert {(row.model, row.tolerance) for row in ROWS} == {
        ("gpt2", 0.4),
        ("gpt3", 0.05),
        ("grok1", 0.05),
        ("llama2", 0.05),
        ("llama3.1", 0.05),
    }


def test_how_many_steps_a_log_must_hold() -> None:
    assert Counter((row.framework, row.metric, row.min_steps) for row in ROWS) == {
        ("deepspeed", "checkpoint_save_time", 1): 7,
        ("deepspeed", "step_time", 2): 39,
        ("huggingface", "step_time", 1): 13,
        ("maxtext", "step_time", 45): 12,
        ("megatron", "step_time", 2): 33,
        ("nemo", "step_time", 45): 30,
        ("paxml", "step_time", 18): 5,
    }


#: What the formula gives where the document's figure is more than one unit of its last digit away.
OTHER_TOKENS_PER_S = {
    GROK("bf16", 16): 193197,
    GROK("bf16", 64): 391625,
    GROK("bf16", 128): 404660,
    GROK("bf16", 256): 402718,
    GROK("bf16", 512): 399267,
    GROK("fp8", 8): 212801,
    GROK("fp8", 32): 482104,
    GROK("fp8", 64): 478529,
    GROK("fp8", 256): 500812,
    GROK("fp8", 1024): 986315,
    LLAMA3("fp8", 32): 177964,
    LLAMA3("fp8", 96): 180769,
    LLAMA3("fp8", 192): 187671,
}
OTHER_MFU = {
    GROK("fp8", 1024): 0.2537,
    LLAMA3("bf16", 32): 0.5866,
    LLAMA3("bf16", 96): 0.5620,
    LLAMA3("bf16", 192): 0.5728,
    LLAMA3("bf16", 576): 0.5581,
    LLAMA3("bf16", 1152): 0.5479,
    LLAMA3("bf16", 2304): 0.5448,
    LLAMA3("fp8", 32): 0.4473,
    LLAMA3("fp8", 96): 0.4304,
    LLAMA3("fp8", 192): 0.4406,
    LLAMA3("fp8", 576): 0.4268,
    LLAMA3("fp8", 1152): 0.4242,
    LLAMA3("fp8", 2304): 0.3884,
}
OTHER_TFLOPS_PER_GPU = {
    GPT2("52b", "V100-32GBx64-ds3d-gas256-mbs4-gbs1024"): 49.75,
    GPT2("52b", "V100-32GBx64-zero1-bucket5e8"): 49.75,
    GPT2("52b", "V100-32GBx64-zero-id13"): 43.14,
    GPT2("25b", "V100-32GBx16-hf-max"): 14.12,
}


@pytest.mark.parametrize(
    ("figure", "stated", "others"),
    [
        ("tokens_per_s", 47, OTHER_TOKENS_PER_S),
        ("mfu", 41, OTHER_MFU),
        ("days_to_train_1t_tokens", 29, {}),
        ("tflops_per_gpu", 83, OTHER_TFLOPS_PER_GPU),
    ],
)
def test_the_formulas_give_the_documents_figures(figure: str, stated: int, others: dict[str, float]) -> None:
    rows = [row for row in ROWS if getattr(row.documented, figure) is not None]
    assert len(rows) == stated
    away = {}
    for row in rows:
        documented = getattr(row.documented, figure)
        computed = getattr(computed_figures(row), figure)
        if abs(documented - computed) >= unit_of_last_digit(row, figure):
            away[row.id] = computed
    assert away == pytest.approx(others, rel=5e-4)


def computed_figures(row: Baseline) -> Any:
    return figures(row, row.documented.step_time_s, peak_flops(row.accelerator, row.dtype))


@cache
def written() -> dict[str, dict[str, str]]:
    """The figures of each row as they are written, with their trailing zeros."""
    texts = {}
    for path in table_files(bundled_baselines()):
        tables = yaml.load(path.read_text(), Loader=yaml.BaseLoader)["tables"]  # noqa: S506 - it makes texts of everything
        rows = [row for table in tables for row in table["rows"]]
        texts.update({row.id: text for row, text in zip(load_table(path), rows, strict=True)})
    return texts


def unit_of_last_digit(row: Baseline, figure: str) -> float:
    text = written()[row.id][figure]
    exponent = Decimal(text.removesuffix("%")).as_tuple().exponent
    assert isinstance(exponent, int)
    return float(10.0 ** (exponent - 2 if text.endswith("%") else exponent))


def test_pinned_model_flops_are_the_formulas() -> None:
    pinned = [row for row in ROWS if row.model_flops_per_sample is not None]
    assert len(pinned) == 139 - 7
    for row in pinned:
        computed = model_flops(row)
        if row.proxy or row.model == "gpt2":
            assert row.model_flops_per_sample == pytest.approx(computed, rel=1e-14), row.id
        else:
            assert f"{row.model_flops_per_sample:.2e}" == f"{computed:.2e}", row.id


@cache
def architectures() -> dict[str, dict[str, Any]]:
    """The architecture of each file, which rows do not carry."""
    files = table_files(bundled_baselines())
    return {str(path): yaml.safe_load(path.read_text())["architecture"] for path in files}


def model_flops(row: Baseline) -> float:
    architecture = dict(architectures()[str(row.location.path)])
    formula = architecture.pop("formula")
    if formula == "gpt2":
        assert row.parameters_in_billions is not None
        return flops.gpt2(sequence_length=row.sequence_length, parameters=float(row.parameters_in_billions) * 1e9)
    if row.layers is not None:
        architecture["layers"] = row.layers
    return float(getattr(flops, formula)(sequence_length=row.sequence_length, **architecture))


def test_batch_and_parallelism_of_the_full_models_fill_their_gpus() -> None:
    for row in ROWS:
        p = row.parallelism
        if row.model == "llama3.1":
            assert row.global_batch_size == product(row.micro_batch_size, row.gradient_accumulation_steps, row.gpus) / (
                product(p.tp, p.pp, p.cp)
            )
        if row.model == "grok1":
            assert row.gpus == product(p.tp, p.pp, p.cp, p.ep, p.dp)
        if row.model == "llama2":
            assert row.global_batch_size == product(row.gpus, row.micro_batch_size)


def product(*factors: int | None) -> int:
    assert None not in factors
    return prod(factor for factor in factors if factor is not None)


# ---- What this project has measured itself ---------------------------------------------------------


def test_the_figures_of_smoke_gpt_are_those_of_its_document() -> None:
    rows = [row for row in ALL_ROWS if row.source.document == OWN]
    assert [row.id for row in rows] == ["smoke_gpt_20m_fp32[CPUx1]", "smoke_gpt_20m_fp32[CPUx2]"]
    lines = (Path(__file__).parents[3] / "docs" / OWN).read_text().splitlines()
    for row in rows:
        assert row.documented.mfu is not None
        assert row.calibration_flops is not None
        stated = f"| `{row.id}` | 7 | {row.judged_s:.3f} | {row.documented.mfu:.2%} | {row.calibration_flops / 1e9:g} |"
        assert lines[row.source.line - 1].replace(" %", "%").startswith(stated)


def test_the_figures_of_smoke_gpt_follow_from_each_other() -> None:
    for row in (row for row in ALL_ROWS if row.source.document == OWN):
        assert row.model_flops_per_sample == model_flops(row)
        found = figures(row, row.documented.step_time_s, row.calibration_flops)
        assert found.mfu == pytest.approx(row.documented.mfu, rel=5e-4)  # four digits of the step time
