"""Megatron-Bridge's verification cards; the one here is made up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pytest_gsw.cli import main
from pytest_gsw.documents.importing import import_card
from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.tables.load import load_tables, read_tables

CARD = """\
title: qwen3_8b
verification_environment: {base_container: "nvcr.io/nvidia/pytorch:26.04-py3", bridge_commit: 0a1b}
items:
  hf_to_megatron_cpu: {status: verified, command: convert}
  pretrain:
    H100:
      status: verified
      precision: bf16
      command: >
        ./train.sh --nodes 2 --gpus-per-node 8
        --seq_length 4096 --max_steps 100
      metrics: {last_10_steps_step_time_ms_avg: 25070.320, last_10_steps_tokens_per_second_per_gpu_avg: 10456.348}
      expected_result: At DP16, GBS/MBS 1024/1, exactly 100 steps.
    GB200: {status: unverified, metrics: {last_10_steps_step_time_ms_avg: 1}}
  pretrain_performance:
    GB300:
      status: verified
      precision: fp8_mx
      bridge_commit: ffff
      command: ./train.sh --nodes 32 --gpus-per-node 4 --max_steps 50
      metrics:
        last_10_steps_step_time_ms_avg: 8134.600
        last_10_steps_model_tflops_per_gpu_avg: 731.400
        last_10_steps_tokens_per_second_per_gpu_avg: 8056.450
      expected_result: PP=1, GBS/MBS 2048/1.
"""


def card(directory: Path, text: str = CARD) -> Path:
    path = directory / "qwen3-8b" / "card.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_each_task_on_each_accelerator_is_a_row(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["import", "--cards", str(card(tmp_path)), "-o", str(out)]) == 0
    (tuned,) = load_tables([out / "tuned"])
    assert (tuned.id, tuned.documented.step_time_s, tuned.documented.tflops_per_gpu, tuned.statistic) == (
        "qwen3_8b_mxfp8[GB300x128-pretrain-performance]",
        8.1346,
        731.4,
        "mean[-10:]",
    )
    assert (tuned.gpus_per_node, tuned.sequence_length, tuned.global_batch_size) == (4, 4096, 2048)  # by the throughput
    container = "nvcr.io/nvidia/pytorch:26.04-py3"
    assert (tuned.recipe.steps, tuned.recipe.image, tuned.source.document) == (50, None, "qwen3-8b/card.yaml")
    assert tuned.attributes == {"container": container, "commit": "ffff"}
    (functional,) = load_tables([out / "functional"])
    assert (functional.id, functional.documented.step_time_s) == ("qwen3_8b_bf16[H100x16-pretrain]", 25.07032)
    assert (functional.sequence_length, functional.global_batch_size, functional.recipe.steps) == (4096, 1024, 100)
    assert functional.attributes == {"container": container, "commit": "0a1b"}
    text = (out / "functional" / "megatron-bridge" / "qwen3_8b.yaml").read_text()
    assert "# command: ./train.sh --nodes 2 --gpus-per-node 8 --seq_length 4096 --max_steps 100\n" in text


def test_a_length_that_the_throughput_does_not_prove_is_a_blank(tmp_path: Path) -> None:
    for other in ("GBS/MBS 2000/1", "GBS/MBS 0/1", "no batch"):
        found = import_card(card(tmp_path, CARD.replace("GBS/MBS 2048/1", other)))
        assert [blank[1:] for blank in found.blanks] == [
            ("qwen3_8b_mxfp8[GB300x128-pretrain-performance]", "sequence_length", "the document does not say")
        ]


def test_a_batch_that_contradicts_the_length_of_the_command_is_left_out(tmp_path: Path) -> None:
    rows = {row.id: row.values for row in import_card(card(tmp_path, CARD.replace("1024/1", "2048/1"))).rows}
    of_h100 = rows["qwen3_8b_bf16[H100x16-pretrain]"]
    assert of_h100["sequence_length"].text == "4096"
    assert "global_batch_size" not in of_h100


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("fp8_mx", "fp8_new", "has the precision 'fp8_new', which no dtype is known for"),
        ("--nodes 32 ", "", "has a command that does not say nodes, GPUs of a node and steps"),
        ("8134.600", "-8134.600", "has a step time of '-8134.600', which is no number above 0"),
        ("8134.600", "0.000", "has a step time of '0.000', which is no number above 0"),
        ("8134.600", "nan", "has a step time of 'nan', which is no number above 0"),
        ("    GB300:", "    all:", "is of no accelerator that has a name"),
    ],
)
def test_what_is_no_row_is_left_out_and_said(tmp_path: Path, old: str, new: str, reason: str) -> None:
    found = import_card(card(tmp_path, CARD.replace(old, new)))
    assert [part.reason for part in found.left_out] == ["is unverified, not verified", reason]
    assert [file.path for file in found.files] == ["functional/megatron-bridge/qwen3_8b.yaml"]


@pytest.mark.parametrize("text", ["", "[]", "title: x", "items: {}", "title: x\nitems: 3", "title: {a: b}\nitems: {}"])
def test_what_is_no_card(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no verification card"):
        import_card(card(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "title: !!python/object/apply:os.system [x]\nitems: {a: {H100: {metrics: {last_10_steps_step_time_ms_avg: 1}}}}",
        "title: x\nitems: {1: {2: [3]}, a: [], b: {H100: {metrics: []}}, ? [c] : d}",
        "title: x\nitems: {a: {H100: {status: [], metrics: {last_10_steps_step_time_ms_avg: 1}}}}",
        "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}, *a]\n" for n in range(60)),
    ],
)
def test_a_hostile_card_gives_no_row(tmp_path: Path, text: str) -> None:
    with suppress(ConfigurationError, FileError):
        assert import_card(card(tmp_path, text)).rows == ()


def test_nothing_of_a_card_reaches_the_table_as_yaml(tmp_path: Path) -> None:
    command = "./train.sh --nodes 32 --gpus-per-node 4 --max_steps 50"
    text = CARD.replace(command, f'"{command} x\\n      - {{gpus: 1}}"').replace("ffff", '"x}, gpus: 9"')
    assert main(["import", "--cards", str(card(tmp_path, text)), "-o", str(tmp_path / "out")]) == 0
    found = read_tables([tmp_path / "out" / "tuned"])
    assert [row.gpus for row in found.rows] == [128]
    assert found.rows[0].attributes["commit"] == "x}, gpus: 9"
