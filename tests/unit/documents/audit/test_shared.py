"""One change that makes all rows of a table right."""

from __future__ import annotations

import cProfile

from pytest_gsw.documents.audit.findings import Kind
from tests.unit.documents.audit.rows import LLAMA2, found, row
from tests.unit.documents.audit.test_derived import LLAMA3

#: Documented figures of three step times: by a sequence length of 4096, a batch of 128, 64 GPUs, 1.82e15 FLOPs.
FIGURES = {
    "6.999": ("74908.99", "52.59%", "154.51"),
    "7.500": ("69905.07", "49.07%", "165.57"),
    "8.000": ("65536.00", "46.01%", "176.61"),
}


def table(**changes: str | None) -> list[tuple[str, str, str]]:
    """What is found in a table of these step times whose rows are changed: the row, the figure, the explanation."""
    rows = [
        row(f"r{seconds}", LLAMA2, step_time_s=seconds, tokens_per_s=tokens, mfu=mfu, days_to_train_1t_tokens=days)
        for seconds, (tokens, mfu, days) in FIGURES.items()
    ]
    return explained(*(row(one.id, {key: value.text for key, value in one.values.items()}, **changes) for one in rows))


def explained(*rows: object) -> list[tuple[str, str, str]]:
    findings = [one for one in found(*rows) if one.identity != "duplicate"]  # type: ignore[arg-type]
    assert all(len(one.explanations) == 1 for one in findings)
    told = [(str(one.row), one.identity, f"{one.explanation.kind.value}: {one.explanation.text}") for one in findings]
    return sorted(told)


def of_all(text: str, *keys: str) -> list[tuple[str, str, str]]:
    return sorted((f"r{seconds}", key, text) for seconds in FIGURES for key in keys)


def test_a_table_that_is_right() -> None:
    assert table() == []


def test_another_sequence_length() -> None:
    text = "one of its inputs: sequence_length 4096 gives it, in all 3 rows"
    # Days follow from the documented throughput, which may be the right one.
    assert table(sequence_length="8192") == of_all(text, "tokens_per_s")
    assert table(sequence_length="8192", tokens_per_s=None) == of_all(text, "days_to_train_1t_tokens")


def test_a_sequence_length_that_is_no_power_of_two() -> None:
    rows = [
        row(f"r{seconds}", LLAMA2, step_time_s=seconds, tokens_per_s=tokens, mfu=None, days_to_train_1t_tokens=None)
        for seconds, tokens in (("8.000", "49152.00"), ("7.500", "52428.80"))
    ]
    assert explained(*rows) == [
        (f"r{seconds}", "tokens_per_s", "one of its inputs: sequence_length 3072 gives it, in both rows")
        for seconds in ("7.500", "8.000")
    ]


def test_another_batch() -> None:
    assert table(global_batch_size="120", micro_batch_size=None) == of_all(
        "one of its inputs: global_batch_size 128 gives it, in all 3 rows",
        *("tokens_per_s", "mfu"),
    )


def test_other_model_flops() -> None:
    assert table(model_flops="2.35e+15") == of_all(
        "one of its inputs: model_flops 1.82e15 gives it, in all 3 rows", "mfu"
    )


def test_another_peak() -> None:
    assert table(dtype="fp8") == of_all(
        "wrong peak: 9.89e14 FLOP/s, the peak of H100 BF16, gives it, in all 3 rows", "mfu"
    )


def test_a_factor_of_all_rows_before_a_copy() -> None:
    """Equal figures of rows with equal step times are no copies of each other."""
    rows = [row(name, LLAMA2, mfu="0.5259%") for name in ("a", "b")]
    assert explained(*rows) == [
        (name, "mfu", "factor: it is 1/100 of what the formula gives, in both rows") for name in ("a", "b")
    ]


def test_lora_in_all_rows() -> None:
    shares = {"6.999": "35.06%", "7.500": "32.7%", "8.000": "30.67%"}
    rows = [
        row(
            f"r{seconds}",
            LLAMA2,
            case="lora",
            step_time_s=seconds,
            mfu=mfu,
            tokens_per_s=None,
            days_to_train_1t_tokens=None,
        )
        for seconds, mfu in shares.items()
    ]
    assert explained(*rows) == of_all("factor: it is 2/3 of what the formula gives, as for LoRA, in all 3 rows", "mfu")


def test_a_row_that_the_change_does_not_make_right() -> None:
    rows = [
        row(
            f"r{n}",
            LLAMA2,
            sequence_length="8192",
            step_time_s=seconds,
            tokens_per_s=tokens,
            mfu=None,
            days_to_train_1t_tokens=None,
        )
        for n, (seconds, tokens) in enumerate((("6.999", "74908.99"), ("7.500", "69905.07"), ("7.000", "74908.99")))
    ]
    assert [text for _, _, text in explained(*rows)] == [
        "one of its inputs: sequence_length 4096 gives it, in 2 of 3 rows",
        "one of its inputs: sequence_length 4096 gives it, in 2 of 3 rows",
        "one of its inputs: sequence_length 4096, which fits 2 of 3 rows, gives 74898.29",
    ]


def test_a_change_breaks_no_row_that_is_right() -> None:
    right = row("right", LLAMA2, step_time_s="3.500", tokens_per_s="149796.57", mfu=None, days_to_train_1t_tokens=None)
    halves = [
        row(f"half{n}", LLAMA2, step_time_s=seconds, tokens_per_s=tokens, mfu=None, days_to_train_1t_tokens=None)
        for n, (seconds, tokens) in enumerate((("6.999", "37454.49"), ("7.500", "34952.53")))
    ]
    assert {text for _, _, text in explained(*halves)} == {
        "one of its inputs: sequence_length 2048 gives it, in both rows"
    }
    assert {text for _, _, text in explained(right, *halves)} == {"factor: it is half of what the formula gives"}


def test_rows_of_another_workload_are_no_part_of_it() -> None:
    lora = {"case": "lora", "mfu": None, "days_to_train_1t_tokens": None, "sequence_length": "8192"}
    rows = [row("a", LLAMA2, **lora), row("b", LLAMA2, **{**lora, "case": "sft"})]
    kinds = {one.explanation.kind for one in found(*rows)}
    assert kinds == {Kind.FACTOR}


def test_model_flops_by_the_formula_stay_an_explanation_of_rows() -> None:
    rows = [
        row(f"r{gpus}", LLAMA3, gpus=gpus, global_batch_size=batch, mfu="55.78%") for gpus, batch in (("576", "252"),)
    ]
    assert {one.explanation.kind for one in found(*rows)} == {Kind.WRONG_PEAK}


def test_four_times_the_rows_take_four_times_as_many_calls() -> None:
    def calls(number: int) -> int:
        rows = [row(f"r{n}", LLAMA2, sequence_length="8192", step_time_s=f"{7 + n / 1000:.3f}") for n in range(number)]
        profile = cProfile.Profile()
        profile.runcall(found, *rows)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(60) / calls(15) < 8  # quadratic: 16
