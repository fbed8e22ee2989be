"""Which row a log is of, by what it states: the right one, or none with the reason."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.jobs.layout import Match, loose_logs
from pytest_gsw.jobs.model import FoundLog
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.tables.model import Baseline, Parallelism
from pytest_gsw.validation.matching import match_log, match_logs
from tests.messages import wording
from tests.unit.logs.lines import ANY_ROW, whole
from tests.unit.rows import LLAMA2_FP8_X128, with_facts
from tests.writers import ALL_WRITERS

#: The writers give their job this id.
JOB = "4242"
STEPS = "".join(f"completed step: {step}, seconds: 4.5, loss: 9.0\n" for step in range(12))


def others(row: Baseline) -> list[Baseline]:
    """Rows that differ from a row in one fact each that every recipe's own line states."""
    changes = ({"model": "llama3"}, {"size": "8b"}, {"dtype": "fp16"}, {"gpus": 64}, {"framework": "other"})
    return [with_facts(row, id=f"other {name}", **{name: value}) for one in changes for name, value in one.items()]


def found(path: Path, *rows: Baseline) -> tuple[str | None, str]:
    match = match_log(path, rows)
    return match.row and match.row.id, match.why


@pytest.mark.parametrize("name", [name for name in FORMATS if name in ALL_WRITERS])
@pytest.mark.parametrize("file", [f"slurm-{JOB}.out", "yesterday.log"])
def test_the_first_lines_of_a_log_name_its_row(tmp_path: Path, name: str, file: str) -> None:
    own = replace(ANY_ROW, workload=replace(ANY_ROW.workload, log_format=name))
    path = tmp_path / file
    path.write_bytes(whole(name))
    match = match_log(path, [*others(own), own])
    assert (match.row, match.job_id, match.why) == (own, JOB, "")
    match = match_log(path, others(own))
    assert match.row is None
    assert "is of no row; other " in match.why


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "does not state its model, number of GPUs and dtype, and may be of R"),
        ("GSW: MODEL=llama2 DTYPE=fp8", "does not state its model and number of GPUs, and may be of R"),
        ("GSW: MODEL=llama2 MODEL_SIZE=70b JOB_NUM_NODES=16 GPUS_PER_NODE=8", "does not state its dtype, and may be of R"),
        (
            "GSW: MODEL=llama2 MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=1 GPUS_PER_NODE=8 SEQ_LEN=128",
            "is of no row; R is the nearest: GPUs 8 in the log, 128 in the row, sequence length 128 in the log, 4096 in the row",
        ),
        ("GSW: MODEL=llama2 MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=16 GPUS_PER_NODE=8", ""),
    ],
)  # fmt: skip
def test_what_a_log_leaves_open_is_not_guessed(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "slurm-7.out"
    path.write_text(f"{line}\n{STEPS}")
    assert found(path, LLAMA2_FP8_X128)[1] == why.replace("R", LLAMA2_FP8_X128.id) or not why
    if not why:
        again = replace(LLAMA2_FP8_X128, id="llama2_70b_fp8[B200x128]", accelerator="B200")
        assert found(path, LLAMA2_FP8_X128) == (LLAMA2_FP8_X128.id, "")
        both = f"may be of 2 rows: {LLAMA2_FP8_X128.id}, {again.id}"
        assert found(path, LLAMA2_FP8_X128, again) == (None, both)
        assert found(path, *[LLAMA2_FP8_X128] * 4) == (None, "may be of 4 rows")
        assert found(path) == (None, "is of no row")


def test_the_name_and_the_text_of_a_log_agree_on_its_job(tmp_path: Path) -> None:
    path = tmp_path / "slurm-8.out"
    line = "GSW: MODEL=llama2 MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=16 GPUS_PER_NODE=8 JOB_ID=7\n"
    path.write_text(line + STEPS)
    nearest = f"is of no row; {LLAMA2_FP8_X128.id} is the nearest"
    assert found(path, LLAMA2_FP8_X128) == (None, f"{nearest}: job 7 in the log, 8 wanted")


ARGUMENTS = """\
using world size: 8, data-parallel-size: 8
  bf16 ............................................ True
  global_batch_size ............................... 80
  hidden_size ..................................... {hidden}
  num_layers ...................................... {layers}
  seq_length ...................................... 2048
  tokenizer_model ................................. /models/{model}
 iteration       1/      10 | elapsed time per iteration (ms): 2861.0 | lm loss: 1.5 |
"""
MEGATRON = replace(
    ANY_ROW,
    workload=replace(
        ANY_ROW.workload,
        framework="megatron",
        log_format="megatron",
        sequence_length=2048,
        model_layers=32,
        hidden_size=4096,
    ),
    gpus=8,
    batch=replace(ANY_ROW.batch, global_batch_size=80, micro_batch_size=None),
    parallelism=Parallelism(),
)


def named(model: str, size: str, **changes: object) -> Baseline:
    return with_facts(MEGATRON, id=f"{model}_{size}", model=model, size=size, **changes)


@pytest.mark.parametrize(
    ("mentioned", "row"),
    [
        ("Meta-Llama-3-8B", "llama3_8b"),
        ("llama3.1_8b", "llama3.1_8b"),
        ("Llama-3-80B", None),
        ("codellama3_8bit", None),
        ("tokenizer.model", None),
    ],
)
def test_settings_and_the_models_name_are_of_one_row(tmp_path: Path, mentioned: str, row: str | None) -> None:
    """Mistral 7B has as many layers of the same size."""
    path = tmp_path / "slurm-7.out"
    path.write_text(ARGUMENTS.format(hidden=4096, layers=32, model=mentioned))
    rows = named("llama3", "8b"), named("llama3.1", "8b"), named("mistral", "7b")
    assert found(path, *rows)[0] == row
    path.write_text(ARGUMENTS.format(hidden=4096, layers=4, model=mentioned))
    assert found(path, *rows)[0] is None


@pytest.mark.parametrize(("layers", "row"), [(64, "gpt2_116b"), (28, "gpt2_52b"), (40, None)])
def test_the_size_of_a_gpt_by_its_layers(tmp_path: Path, layers: int, row: str | None) -> None:
    path = tmp_path / "slurm-7.out"
    path.write_text(ARGUMENTS.format(hidden=12288, layers=layers, model="gpt2-vocab.json"))
    unlike = {"model_layers": None, "hidden_size": None, "formula": "gpt2"}
    assert found(path, named("gpt2", "116b", **unlike), named("gpt2", "52b", **unlike))[0] == row


def test_a_run_that_failed_before_its_first_step_has_its_row(tmp_path: Path) -> None:
    path = tmp_path / "slurm-7.out"
    line = "GSW: MODEL=llama2 MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=16 GPUS_PER_NODE=8 JOB_ID=7"
    path.write_text(f"{line}\nRuntimeError: CUDA error\n")
    assert found(path, LLAMA2_FP8_X128)[0] == LLAMA2_FP8_X128.id


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 1000, b"\xff\xfe\x1b[2J GSW: MODEL=$MODEL", b"x" * (5 << 20), b"\n" * (5 << 20)],
    ids=["empty", "zeros", "escapes", "one line", "lines"],
)
def test_the_beginning_of_a_hostile_file_is_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "slurm-7.out"
    line = b"\nGSW: MODEL=llama2 MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=16 GPUS_PER_NODE=8\n"
    path.write_bytes(content if len(content) < 1 << 20 else content + line + STEPS.encode())
    row, why = found(path, LLAMA2_FP8_X128)
    assert row is None
    assert why.isprintable()


def test_files_that_are_no_logs_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slurm-1.out")
    (tmp_path / "slurm-2.out").mkdir()
    (tmp_path / "slurm-3.out").symlink_to("/dev/zero")
    (tmp_path / "run.sh").touch()
    assert loose_logs(tmp_path) == []
    assert match_log(tmp_path / "slurm-2.out", [LLAMA2_FP8_X128]).why == wording("no file of steps", name="slurm-2.out")


def test_a_log_is_found_by_its_name_if_it_has_one(tmp_path: Path) -> None:
    """By the name alone: what the log states is checked when it is judged."""
    (tmp_path / "log-maxtext_llama2_70b_128_9.out").write_text("anything\n")
    (tmp_path / "log-maxtext_llama2_70b_512_9.out").write_text("anything\n")
    rows: Sequence[Baseline] = [LLAMA2_FP8_X128]
    by_name = {match.path.name: match for match in match_logs(tmp_path, rows, [])}
    first, second = sorted(by_name)
    assert by_name[first] == Match(tmp_path / first, "9", row=LLAMA2_FP8_X128)
    assert by_name[second] == Match(tmp_path / second, "", why=wording("like no row"))


def test_a_log_that_a_plugin_has_found_is_of_the_row_that_it_names(tmp_path: Path) -> None:
    """By several rows, or none, what the log states decides; the job's id stays that of the plugin."""
    path, row = tmp_path / "stdout.txt", LLAMA2_FP8_X128
    path.write_text(
        "GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=16 GPUS_PER_NODE=8\n" + STEPS
    )
    rows = [row, *others(row)]
    for ids in ((), (row.id,), (row.id, "other gpus"), ("not there",)):
        assert list(match_logs(tmp_path, rows, [FoundLog(path, "7", ids)])) == [Match(path, "7", row=row)], ids
    (match,) = match_logs(tmp_path, others(row), [FoundLog(path, "7")])
    assert (match.row, match.job_id, bool(match.why)) == (None, "7", True)
