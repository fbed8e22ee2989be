"""Framework, log format, statistic and metric of a row fit one another."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing.fit import fewest_steps, log_format_of, misfits
from pytest_gsw.tables.yamlfile import Stated
from tests.unit.documents.importing.conftest import Read


def values(**texts: str) -> dict[str, Stated]:
    return {key: Stated(text, 1, 1) for key, text in texts.items()}


@pytest.mark.parametrize(
    ("stated", "log_format", "steps"),
    [
        ({"framework": "nemo"}, "nemo", 2),
        ({"framework": "megatron-bridge"}, "megatron", 2),
        ({"framework": "deepspeed", "log_format": "megatron"}, "megatron", 2),
        ({"framework": "huggingface"}, "huggingface", 1),
        ({}, "", None),
    ],
)
def test_the_log_and_its_fewest_steps(stated: dict[str, str], log_format: str, steps: int | None) -> None:
    assert (log_format_of(values(**stated)), fewest_steps(values(**stated))) == (log_format, steps)


SAVES = "checkpoint_save_time"


@pytest.mark.parametrize(
    ("stated", "reasons"),
    [
        ({"framework": "nemo", "statistic": "mean[11:44]"}, {}),
        ({"framework": "paxml", "statistic": "mean[11:20]"}, {}),
        ({"framework": "huggingface", "statistic": "mean"}, {}),
        ({"framework": "megatron", "metric": SAVES}, {}),
        ({"statistic": "last", "metric": SAVES}, {}),
        ({"framework": "nemo", "statistic": "whatever"}, {}),
        (
            {"framework": "paxml", "statistic": "mean[31:40]"},
            {"statistic": "'mean[31:40]' is of later steps than the first 20, which a paxml log has"},
        ),
        (
            {"framework": "huggingface", "statistic": "last"},
            {"statistic": "'last' is of single steps, and a huggingface log has one summary of the run"},
        ),
        (
            {"framework": "huggingface", "statistic": "mean[11:44]"},
            {"statistic": "'mean[11:44]' is of single steps, and a huggingface log has one summary of the run"},
        ),
        ({"framework": "nemo", "metric": SAVES}, {"metric": "a nemo log has no times of checkpoint saves"}),
        (
            {"framework": "levanter"},
            {"log_format": "no log format reads what levanter logs; a hook can, see docs/hooks.md"},
        ),
        ({"framework": "levanter", "log_format": "ours"}, {}),
        ({"framework": "llm-foundry"}, {}),
    ],
)
def test_what_a_log_cannot_give(stated: dict[str, str], reasons: dict[str, str]) -> None:
    assert misfits(values(**stated)) == reasons


DOCUMENT = """\
# Llama 3.1 8b BF16 on H100

The figure is that of the last training step. Sequence length is 4096.

{line}

| GPUs | GBS | Step time (s) |
|---|---|---|
| 8 | 64 | 2.5 |
"""


def test_a_statistic_of_steps_is_left_out_of_a_log_with_one_summary(read: Read) -> None:
    found = read(DOCUMENT.format(line="grep train_samples_per_second *.out"))
    (row,) = found.rows
    assert ("statistic" in row.values, row.values["min_steps"].text) == (False, "1")
    assert [f"{one.key}: {one.message}" for _, one in found.remarks] == [
        "statistic: left out: 'last' is of single steps, and a huggingface log has one summary of the run"
    ]
    assert found.blanks == ()


def test_steps_that_a_log_does_not_have_are_a_blank(read: Read) -> None:
    text = DOCUMENT.format(line="grep 'train_step() took' *.out").replace("last training step", "mean")
    (row,) = read(text.replace("The figure is that of the mean.", "Iterations 31-40 are averaged.")).blanks
    assert row[2:] == ("statistic", "'mean[31:40]' is of later steps than the first 20, which a paxml log has")


def test_a_framework_whose_log_nobody_reads_is_written_with_a_blank_log_format(read: Read) -> None:
    table = "| GPUs | GBS | Framework | Step time (s) |\n|---|---|---|---|\n| 8 | 64 | Levanter | 2.5 |\n"
    found = read(DOCUMENT.format(line="").partition("| GPUs")[0] + table)
    assert [(key, reason) for _, _, key, reason in found.blanks] == [
        ("log_format", "no log format reads what levanter logs; a hook can, see docs/hooks.md")
    ]
    (yaml,) = found.yaml_text.values()
    assert "framework: levanter\n" in yaml


def test_llm_foundry_is_read_as_composer(read: Read) -> None:
    found = read(DOCUMENT.format(line="`composer train/train.py 7b.yaml`"))
    assert found.blanks == ()
    (yaml,) = found.yaml_text.values()
    assert "framework: llm-foundry  # line 5: launch command\n" in yaml


def test_steps_of_an_unknown_log_are_not_counted(read: Read) -> None:
    (row,) = read(DOCUMENT.format(line="")).rows
    assert not {"framework", "min_steps"} & set(row.values)
