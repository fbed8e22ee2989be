"""Figures of one row that contradict each other: what is put right, left out, or left blank."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing import Imported
from tests.unit.documents.importing.conftest import README, Read

#: Where neither MFU nor days say which of two figures is right.
TWO_FIGURES = README.replace("| Model flops utilization | 18.76% | 18.74% |\n", "").replace(
    "| Time to train 1T tokens in days | 45.21 | 22.63 |\n", ""
)
#: Factors of the batch, beside the figures.
FACTORS = "|---|:---:|---:|\n| GA | 2 | 2 |\n| DP | 32 | 64 |\n"


def change(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def first(found: Imported, *keys: str) -> list[str | None]:
    """Some values of the first row."""
    values = found.rows[0].values
    return [values[key].text if key in values else None for key in keys]


def said(found: Imported) -> list[str]:
    """What is said of the first row."""
    return [f"{one.line} {one.key}: {one.message}" for row, one in found.remarks if row == found.rows[0].id]


def test_figures_that_agree_are_not_spoken_of(read: Read) -> None:
    assert said(read(README)) == []


def test_a_batch_whose_factors_and_throughput_say_another(read: Read) -> None:
    found = read(change(README, ("(GBS=128)", "(GBS=182)"), ("|---|:---:|---:|\n", FACTORS)))
    assert first(found, "global_batch_size", "step_time_s", "tokens_per_s", "mfu") == [
        "128",
        "2.048",
        "256000",
        "18.76%",
    ]
    proof = "micro_batch_size 2 * gradient_accumulation_steps 2 * dp 32 = 128, and 4096 * 128 / 2.048 = 256000"
    assert said(found) == [f"9 global_batch_size: 182 is refuted: it is 128, as {proof}"]
    assert f"# global_batch_size: 182 is refuted: it is 128, as {proof} (line 9)" in next(
        iter(found.yaml_text.values())
    )


def test_a_batch_with_two_digits_swapped_that_the_throughput_proves_to_its_last_digit(read: Read) -> None:
    found = read(change(TWO_FIGURES, ("(GBS=128)", "(GBS=182)")))
    assert first(found, "global_batch_size") == ["128"]
    assert said(found) == ["9 global_batch_size: 182 is refuted: it is 128, as 4096 * 128 / 2.048 = 256000"]


def test_factors_that_the_throughput_refutes_cost_no_batch(read: Read) -> None:
    found = read(change(README, ("|---|:---:|---:|\n", FACTORS.replace("| 32 |", "| 16 |"))))
    assert first(found, "global_batch_size", "tokens_per_s") == ["128", "256000"]
    assert said(found) == []


def test_a_batch_that_only_its_factors_refute_is_left_out(read: Read) -> None:
    text = change(TWO_FIGURES, ("|---|:---:|---:|\n", FACTORS.replace("| 32 |", "| 16 |")), ("| 256000 |", "| NA |"))
    found = read(text)
    assert first(found, "global_batch_size", "step_time_s") == [None, "2.048"]
    assert said(found) == [
        (
            "9 global_batch_size: left out: 128 is in doubt: "
            "micro_batch_size 2 * gradient_accumulation_steps 2 * dp 16 is 64, and the row has 128"
        )
    ]
    assert found.blanks == ()


@pytest.mark.parametrize("text", [README, TWO_FIGURES])
def test_a_step_time_with_two_digits_swapped_leaves_the_throughput_to_judge_by(read: Read, text: str) -> None:
    found = read(change(text, ("| 2.048 |", "| 2.084 |")))
    assert first(found, "step_time_s", "tokens_per_s", "line") == [None, "256000", "12"]
    assert said(found)[0] == (
        "11 step_time_s: left out: 2.084, two digits of it are swapped: 4096 * 128 / 2.048 = 256000"
    )
    assert found.blanks == ()


def test_the_only_figure_without_which_the_others_agree_is_left_out(read: Read) -> None:
    found = read(change(README, ("| 256000 |", "| 281000 |")))
    assert first(found, "step_time_s", "tokens_per_s", "mfu") == ["2.048", None, "18.76%"]
    assert said(found) == ["12 tokens_per_s: left out: 281000: 4096 * 128 / 2.048 = 256000, and tokens_per_s is 281000"]


def test_days_that_were_computed_from_a_wrong_throughput_go_with_it(read: Read) -> None:
    found = read(change(README, ("| 256000 |", "| 512000 |"), ("| 45.21 |", "| 22.61 |")))
    assert first(found, "step_time_s", "tokens_per_s", "mfu", "days_to_train_1t_tokens") == [
        "2.048",
        None,
        "18.76%",
        None,
    ]


def test_two_figures_of_which_one_is_wrong_are_both_left_out_and_one_is_a_blank(read: Read) -> None:
    found = read(change(TWO_FIGURES, ("| 256000 |", "| 281000 |")))
    reason = "is in doubt: 4096 * 128 / 2.048 = 256000, and tokens_per_s is 281000"
    assert first(found, "step_time_s", "tokens_per_s", "global_batch_size") == [None, None, "128"]
    assert [(key, why) for _, _, key, why in found.blanks] == [("step_time_s", f"2.048 {reason}")]
    assert said(found) == [f"11 step_time_s: left out: 2.048 {reason}", f"12 tokens_per_s: left out: 281000 {reason}"]


def test_settings_that_may_be_wrong_stay_as_documented_where_no_figure_is_left(read: Read) -> None:
    """A factor of two may be the batch's or the sequence length's; a reader decides, and the row waits for it."""
    found = read(change(TWO_FIGURES, ("| 256000 |", "| 512000 |")))
    assert first(found, "step_time_s", "tokens_per_s", "global_batch_size", "sequence_length") == [
        None,
        None,
        "128",
        "4096",
    ]
    assert [key for _, _, key, _ in found.blanks] == ["step_time_s"]


def test_figures_of_two_runs_stay(read: Read) -> None:
    found = read(change(TWO_FIGURES, ("| 256000 |", "| 257500 |")))
    assert first(found, "step_time_s", "tokens_per_s") == ["2.048", "257500"]
    assert said(found) == []


def test_model_flops_of_the_full_model_are_not_a_proxys(read: Read) -> None:
    text = change(README, ("1.9E+14", "1.9E+15"))
    found = read(text)
    assert first(found, "model_flops", "mfu", "step_time_s") == [None, "18.76%", "2.048"]
    assert said(found) == [
        (
            "7 model_flops: left out: 1.9e+15: 128 * 1.9e15 FLOPs / 64 GPUs / 9.89e14 FLOP/s / 2.048 = 187.61%, "
            "and mfu is 18.76%: 10 times as much"
        )
    ]


def test_model_flops_that_no_figure_shows_are_not_a_proxys(read: Read) -> None:
    found = read(TWO_FIGURES + "\nProxy configs (<128 GPUs) fit a smaller model.\n")
    assert first(found, "model_flops", "proxy") == [None, "true"]
    assert found.rows[1].values["model_flops"].text == "1.9e+14"
    assert said(found) == [
        (
            "7 model_flops: left out: 1.9e+14: "
            "it is of the full model, and no figure of the row shows that it is the proxy's"
        )
    ]


@pytest.mark.parametrize(("mfu", "flops"), [("12.51%", "1.2667e+14"), ("18.76%", "1.9e+14"), ("NA", None)])
def test_lora_computes_two_thirds_where_its_own_mfu_shows_it(read: Read, mfu: str, flops: str | None) -> None:
    found = read(change(README, ("Tiny 7b BF16 (", "Tiny 7b LORA BF16 ("), ("| 18.76% |", f"| {mfu} |")))
    assert first(found, "model_flops", "mfu") == [flops, None if mfu == "NA" else mfu]


def test_an_mfu_with_two_digits_swapped_refutes_no_model_flops(read: Read) -> None:
    found = read(change(README, ("| 18.76% |", "| 81.76% |")))
    assert first(found, "model_flops", "mfu") == ["1.9e+14", None]


@pytest.mark.parametrize("mfu", ["48.76%", "19.06%"])
def test_an_mfu_is_wrong_where_other_rows_show_the_model_flops(read: Read, mfu: str) -> None:
    third = README[README.index("| Maxtext") :].replace("64x", "32x").replace("128 H100", "256 H100")
    text = change(
        README, ("| 18.76% |", f"| {mfu} |"), ("Throughput on 128 H100 GPUs (GBS=256)", "128 H100 GPUs (GBS=256)")
    )
    found = read(text + "\n" + third.replace("| 18.76% |", "| NA |").replace("| 18.74% |", "| NA |"))
    assert first(found, "model_flops", "mfu", "step_time_s") == ["1.9e+14", None, "2.048"]
    assert said(found) == [
        (
            f"13 mfu: left out: 128 * 1.9e14 FLOPs / 64 GPUs / 9.89e14 FLOP/s / 2.048 = 18.76%, and mfu is {mfu}; "
            "other rows show its model FLOPs"
        )
    ]


def test_few_digits_prove_no_batch(read: Read) -> None:
    """182 would give the 45 days of a step time of 2.84 s."""
    found = read(
        change(TWO_FIGURES, ("| 2.048 |", "| 2.84 |"), ("| 256000 |", "| NA |"))
        + "| Days to train 1T tokens | 44 | 23 |\n"
    )
    assert first(found, "global_batch_size") != ["182"]


def test_an_mfu_of_another_peak_refutes_nothing(read: Read) -> None:
    found = read(change(README, ("| 18.76% |", "| 9.38% |")))
    assert first(found, "model_flops", "mfu") == ["1.9e+14", "9.38%"]


@pytest.mark.parametrize(
    ("cell", "step_time_s"),
    [
        ("2,048", "2.048"),
        ("2.048 (2.1)", "2.048"),
        ("2.2 / 2.048", "2.048"),
        ("2.048 [1]", "2.048"),
        ("2.048[^a-note]", "2.048"),
        ("2048 ms", "2.048"),
        ("2,2", None),
        ("2.2 (2.1)", None),
        ("~2.048", None),
        ("≈ 2.048", None),
    ],
)
def test_what_the_throughput_proves_of_a_cell(read: Read, cell: str, step_time_s: str | None) -> None:
    found = read(change(README, ("| 2.048 |", f"| {cell} |")))
    assert first(found, "step_time_s", "tokens_per_s") == [step_time_s, "256000"]


def test_a_comma_that_nothing_decides_is_left_blank(read: Read) -> None:
    found = read(change(TWO_FIGURES, ("| 2.048 |", "| 8,309 |"), ("| 256000 |", "| NA |")))
    reason = "the cell reads '8,309': the comma may stand between thousands or before decimals"
    assert said(found) == [f"11 step_time_s: left blank: {reason}"]
    assert [blank[2:] for blank in found.blanks] == [("step_time_s", reason)]


def test_a_table_of_decimal_commas(read: Read) -> None:
    found = read(change(TWO_FIGURES, ("| 2.048 |", "| 2,048 |"), ("| 256000 |", "| 256.000,0 |")))
    assert first(found, "step_time_s", "tokens_per_s") == ["2.048", "256000.0"]


@pytest.mark.parametrize(("cell", "reason"), [("118.76%", ", which is more than 100 %"), ("18,76%", "")])
def test_an_mfu_that_cannot_be_is_left_blank(read: Read, cell: str, reason: str) -> None:
    found = read(change(README, ("| 18.76% |", f"| {cell} |")))
    assert first(found, "mfu") == [None]
    assert said(found) == [f"13 mfu: left blank: the cell reads '{cell}'{reason}"]


@pytest.mark.parametrize(
    ("label", "cell"),
    [("Throughput (k tokens/s)", "256"), ("Throughput (k tokens/s)", "256k"), ("Throughput (tokens/s)", "256K")],
)
def test_thousands_of_tokens(read: Read, label: str, cell: str) -> None:
    found = read(change(TWO_FIGURES, ("Throughput in tokens per second", label), ("| 256000 |", f"| {cell} |")))
    assert first(found, "tokens_per_s", "step_time_s") == ["256e+3", "2.048"]
