"""Megatron-Bridge's verification cards; the one here is made up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pytest_gsw.cli import main
from pytest_gsw.errors import ConfigurationError, FileError
from pytest_gsw.importing.cards import import_card
from pytest_gsw.tables.load import load_tables, read_tables
from tests.messages import wording

CARD = """\
title: qwen3_6_35b_a3b
verification_environment: {base_container: "nvcr.io/nvidia/pytorch:26.04-py3", bridge_commit: 0a1b}
items:
  hf_to_megatron_cpu: {status: verified, command: convert}
  pretrain:
    H100:
      status: verified
      precision: bf16
      command: ./train.sh --nodes 2 --gpus-per-node 8 --seq_length 4096 --max_steps 100
      metrics: {last_10_steps_step_time_ms_avg: 25070.320}
  pretrain_performance:
    GB300:
      status: verified
      precision: fp8_mx
      bridge_commit: ffff
      command: >
        ./train.sh --nodes 32 --gpus-per-node 4
        --max_steps 50 --wait
      metrics:
        last_10_steps_step_time_ms_avg: 8134.600
        last_10_steps_model_tflops_per_gpu_avg: 731.400
        last_10_steps_tokens_per_second_per_gpu_avg: 8056.450
        initial_loss: 12.5
        final_loss: 3.16
      expected_result: PP=1, GBS/MBS 2048/1.
    GB200: {status: unverified, metrics: {last_10_steps_step_time_ms_avg: 1}}
"""
ROW = "qwen36_35b_mxfp8[GB300x128-pretrain-performance]"


def card(directory: Path, text: str = CARD) -> Path:
    path = directory / "qwen3-6" / "card.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_each_accelerator_of_the_tuned_recipe_is_a_row(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["import", "--cards", str(card(tmp_path).parents[1]), "-o", str(out)]) == 0
    (row,) = load_tables([out])
    assert (row.id, row.documented.step_time_s, row.documented.tflops_per_gpu, row.criterion.statistic) == (
        *(ROW, 8.1346, 731.4),
        "mean[-10:]",
    )
    assert (row.gpus_per_node, row.workload.sequence_length, row.batch.global_batch_size) == (
        4,
        4096,
        2048,
    )  # by the throughput
    assert (row.recipe.steps, row.recipe.image, row.source.document) == (50, None, "qwen3-6/card.yaml")
    assert row.recipe.arguments == ("--max_steps", "50")
    assert row.attributes == {"container": "nvcr.io/nvidia/pytorch:26.04-py3", "commit": "ffff", "final_loss": "3.16"}
    text = (out / "megatron-bridge" / "qwen36_35b.yaml").read_text()
    assert "# command: ./train.sh --nodes 32 --gpus-per-node 4 --max_steps 50 --wait\n" in text


def test_a_loss_that_falls_by_the_card_has_to_fall(tmp_path: Path) -> None:
    (row,) = import_card(card(tmp_path)).rows
    assert row.values["loss"].text == "falls"
    for other in ("final_loss: 12.5", "final_loss: null", "final_loss: nan"):
        (row,) = import_card(card(tmp_path, CARD.replace("final_loss: 3.16", other))).rows
        assert "loss" not in row.values


@pytest.mark.parametrize(
    ("title", "workload"),
    [
        ("qwen3_8b", "qwen3_8b"),
        ("nemotron_3_super_120b_a12b", "nemotron3_super_120b"),
        ("nemotron_3_5_lightning", "nemotron35_lightning"),
        ("deepseek_v4_flash", "deepseek_v4_flash"),
    ],
)
def test_the_model_of_a_title(tmp_path: Path, title: str, workload: str) -> None:
    (row,) = import_card(card(tmp_path, CARD.replace("qwen3_6_35b_a3b", title))).rows
    assert row.id.startswith(f"{workload}_mxfp8[")


def test_lengths_that_the_throughput_does_not_prove(tmp_path: Path) -> None:
    # A length that the throughput does not prove is a blank.
    for other in ("GBS/MBS 2000/1", "GBS/MBS 0/1", "no batch"):
        found = import_card(card(tmp_path, CARD.replace("GBS/MBS 2048/1", other)))
        assert [blank[1:] for blank in found.blanks] == [(ROW, "sequence_length", wording("blank"))]
    # A batch that contradicts the length of the command is left out.
    text = CARD.replace("--max_steps 50", "--max_steps 50 --seq_length 8192")
    (row,) = import_card(card(tmp_path, text)).rows
    assert row.values["sequence_length"].text == "8192"
    assert "global_batch_size" not in row.values


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("fp8_mx", "fp8_new", "has the precision 'fp8_new', for which no dtype is known"),
        ("--nodes 32 ", "", "has a command that lacks nodes, GPUs of a node or steps"),
        ("8134.600", "-8134.600", "has a step time of '-8134.600', which is no number above 0"),
        ("8134.600", "0.000", "has a step time of '0.000', which is no number above 0"),
        ("    GB300:", "    all:", "is of no accelerator that has a name"),
    ],
)
def test_what_is_no_row_is_left_out_and_said(tmp_path: Path, old: str, new: str, reason: str) -> None:
    found = import_card(card(tmp_path, CARD.replace(old, new)))
    name = "all" if "all" in new else "GB300"
    assert [part.text for part in found.left_out] == [
        f"pretrain_performance.{name} {reason}",
        "pretrain_performance.GB200 is unverified, not verified",
    ]
    assert found.files == ()


@pytest.mark.parametrize("text", ["", "[]", "title: x", "items: {}", "title: x\nitems: 3", "title: {a: b}\nitems: {}"])
def test_what_is_no_card(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no verification card"):
        import_card(card(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "title: !!python/object/apply:os.system [x]\nitems: {pretrain_performance: {H100: {metrics: {}}}}",
        "title: x\nitems: {1: {2: [3]}, a: [], pretrain_performance: {H100: {metrics: []}}, ? [c] : d}",
        "title: x\nitems: {pretrain_performance: {H100: {status: [], metrics: {last_10_steps_step_time_ms_avg: 1}}}}",
        "title: x\nitems: {pretrain_performance: [H100]}",
        "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}, *a]\n" for n in range(60)),
    ],
)
def test_a_hostile_card_gives_no_row(tmp_path: Path, text: str) -> None:
    with suppress(ConfigurationError, FileError):
        assert import_card(card(tmp_path, text)).rows == ()


def test_nothing_of_a_card_reaches_the_table_as_yaml(tmp_path: Path) -> None:
    command = CARD.partition("command: >\n")[2].partition("      metrics")[0]
    text = CARD.replace(
        f">\n{command}", '"./train.sh --nodes 32 --gpus-per-node 4 --max_steps 50 x\\n      - {gpus: 1}"\n'
    )
    text = text.replace("ffff", '"x}, gpus: 9"')
    assert main(["import", "--cards", str(card(tmp_path, text)), "-o", str(tmp_path / "out")]) == 0
    (row,) = read_tables([tmp_path / "out"]).rows
    assert (row.gpus, row.attributes["commit"]) == (128, "x}, gpus: 9")
