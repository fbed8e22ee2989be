"""Which rows are a case's figures, and what such a figure is on another number of GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.nvidia.evidence import Case
from pytest_gsw.nvidia.suite import figures_of
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline, transferred

HEAD = """\
framework: megatron-bridge
document: site.md
releases: ["26.04"]
recipe: {directory: scripts, steps: 50}
sequence_length: 4096
statistic: mean[35:44]
"""


def rows(tmp_path: Path, *listed: str, head: str = HEAD) -> tuple[Baseline, ...]:
    path = tmp_path / f"table{len(list(tmp_path.iterdir()))}.yaml"
    model, *rest = listed
    shared = "accelerator: GB200, gpus_per_node: 4, global_batch_size: 256, step_time_s: 6.0, line: 3"
    lines = [f"      - {{{shared}, {row}}}" if "accelerator" not in row else f"      - {{{row}}}" for row in rest]
    path.write_text(f"{model}\n{head}tables:\n  - rows:\n" + "\n".join(lines) + "\n")
    return load_table(path)


def ids(found: tuple[Baseline, ...]) -> list[str]:
    return [row.id for row in found]


QWEN = Case("gb200", "qwen3_235b", "bf16")


def test_a_figure_at_the_scale_is_taken_and_no_other(tmp_path: Path) -> None:
    known = rows(tmp_path, "model: qwen3\nsize: 235b", "gpus: 512, dtype: bf16", "gpus: 256, dtype: bf16")
    found = figures_of(QWEN, 512, known)
    assert ids(found.there) == ["qwen3_235b_bf16[GB200x512]"]
    assert found.elsewhere == ()


def test_without_one_the_nearest_scale_is_named(tmp_path: Path) -> None:
    known = rows(tmp_path, "model: qwen3\nsize: 235b", *(f"gpus: {n}, dtype: bf16" for n in (64, 256, 2048)))
    found = figures_of(QWEN, 512, known)
    assert found.there == ()
    assert ids(found.elsewhere) == ["qwen3_235b_bf16[GB200x256]"]


def test_without_any_nothing_is(tmp_path: Path) -> None:
    known = rows(tmp_path, "model: qwen3\nsize: 30b", "gpus: 512, dtype: bf16")
    assert figures_of(QWEN, 512, known) == (QWEN, (), ())


@pytest.mark.parametrize(
    "more", ["proxy: true", "case: 26.04-sft", "case: peft", "case: strong-scaling", "canary: true"]
)
def test_another_task_than_a_full_models_training_is_no_figure(tmp_path: Path, more: str) -> None:
    known = rows(tmp_path, "model: qwen3\nsize: 235b", f"gpus: 512, dtype: bf16, {more}")
    assert figures_of(QWEN, 512, known) == (QWEN, (), ())


@pytest.mark.parametrize(
    ("workload", "accelerator", "model", "dtype"),
    [
        # The recipes train these with MXFP8, but on H100.
        ("qwen3_235b", "gb200", "model: qwen3\nsize: 235b", "mxfp8"),
        ("qwen3_235b", "h100", "model: qwen3\nsize: 235b", "fp8"),
        ("deepseek-v3_671b", "gb200", "model: deepseek_v3", "mxfp8"),
        ("kimi-k2_1t", "gb300", "model: kimi_k2", "mxfp8"),
        ("nemotron_3_120b", "b200", "model: nemotron3_super", "mxfp8"),
        ("llama3.1_70b", "b300", "model: llama3\nsize: 70b", "mxfp8"),
        # And these with a scale for each tensor.
        ("llama3.1_70b", "gb200", "model: llama3\nsize: 70b", "fp8"),
        ("llama3.1_405b", "b200", "model: llama3.1\nsize: 405b", "fp8"),
    ],
)  # fmt: skip
def test_fp8_is_what_the_recipe_makes_of_it(
    tmp_path: Path, workload: str, accelerator: str, model: str, dtype: str
) -> None:
    shared = f"gpus: 512, gpus_per_node: 4, global_batch_size: 256, step_time_s: 6.0, line: 3, accelerator: {accelerator.upper()}"
    precise = 'attributes: {precision: "FP8-MX"}' if dtype == "mxfp8" else 'attributes: {precision: "FP8-CS"}'
    other = 'attributes: {precision: "FP8-CS"}' if dtype == "mxfp8" else 'attributes: {precision: "FP8-MX"}'
    known = rows(
        tmp_path,
        model,
        f"{shared}, dtype: {dtype}, case: named",
        f"{shared}, dtype: fp8, case: stated, {precise}",
        f"{shared}, dtype: fp8, case: other, {other}",
    )
    found = figures_of(Case(accelerator, workload, "fp8"), 512, known)
    assert [row.id.partition("-")[2] for row in found.there] == ["named]", "stated]"]


def test_fp8_of_a_table_that_says_no_more_is_what_its_recipe_makes_of_it(tmp_path: Path) -> None:
    known = rows(tmp_path, "model: qwen3\nsize: 235b", "gpus: 512, dtype: fp8")
    assert ids(figures_of(Case("gb200", "qwen3_235b", "fp8"), 512, known).there) == ["qwen3_235b_fp8[GB200x512]"]
    known = rows(tmp_path, "model: llama3.1\nsize: 405b", "gpus: 512, dtype: mxfp8")
    assert figures_of(Case("gb200", "llama3.1_405b", "fp8"), 512, known).there == ()


def test_a_workload_is_found_by_the_name_of_the_table_that_has_it(tmp_path: Path) -> None:
    """``llama3_70b`` of NeMo's tables is the fine-tuning of another release."""
    llama = Case("gb200", "llama3.1_70b", "nvfp4")
    of_nemo = HEAD.replace("megatron-bridge", "nemo")
    row = "gpus: 512, dtype: nvfp4"
    assert figures_of(llama, 512, rows(tmp_path, "model: llama3\nsize: 70b", row)).there
    assert not figures_of(llama, 512, rows(tmp_path, "model: llama3\nsize: 70b", row, head=of_nemo)).there
    assert figures_of(llama, 512, rows(tmp_path, "model: llama3.1\nsize: 70b", row, head=of_nemo)).there


def test_per_gpu_the_batch_grows_and_the_step_stays(tmp_path: Path) -> None:
    (row,) = rows(
        tmp_path,
        "model: qwen3\nsize: 235b",
        'gpus: 64, dtype: bf16, case: "26.04", tp: 2, pp: 4, dp: 8, tokens_per_s_per_gpu: 2730, days_to_train_1t_tokens: 66',
    )
    moved = transferred(row, 512)
    assert moved is not None
    assert (moved.id, moved.gpus, moved.nodes) == ("qwen3_235b_bf16[GB200x512-26.04-of-64]", 512, 128)
    assert moved.global_batch_size == 8 * 256
    assert moved.documented.step_time_s == row.documented.step_time_s
    assert moved.documented.tokens_per_s == 2730 * 512
    assert moved.documented.days_to_train_1t_tokens == 66 / 8
    assert (moved.parallelism.tp, moved.parallelism.pp, moved.parallelism.dp) == (2, 4, None)
    assert moved.source.in_words.startswith('"qwen3_235b_bf16[GB200x64-26.04], transferred per GPU from 64 GPUs"')


def test_what_cannot_be_divided_is_not_transferred(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "model: qwen3\nsize: 235b", "gpus: 96, dtype: bf16")
    assert transferred(row, 512) is None  # a batch of 1365.33
    assert transferred(replace(row, global_batch_size=None), 192) is None
    assert transferred(row, 6) is None  # one node and a half
    assert transferred(row, 48) is not None
