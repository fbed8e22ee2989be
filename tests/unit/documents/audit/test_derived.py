"""Figures that follow from a step time: agreement, rounding, contradiction, and what explains it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.documents.audit.findings import Kind, Severity, Uses
from pytest_gsw.documents.audit.written import power_of_ten, spelt
from tests.unit.documents.audit.rows import LLAMA2, found, row, run, told

GROK = {
    **LLAMA2,
    "model": "grok1",
    "size": "314b",
    "dtype": "fp8",
    "gpus": "1024",
    "sequence_length": "8192",
    "global_batch_size": "2048",
    "micro_batch_size": "1",
    "model_flops": "4.27e+15",
    "step_time_s": "17.01",
    "tokens_per_s": "986315",
    "mfu": "25.37%",
    "days_to_train_1t_tokens": "11.73",
}
LLAMA3 = {
    **LLAMA2,
    "model": "llama3.1",
    "size": "405b",
    "gpus": "576",
    "sequence_length": "8192",
    "global_batch_size": "252",
    "micro_batch_size": "1",
    "model_flops": "2.17e+16",
    "step_time_s": "17.20",
    "tokens_per_s": "120022",
    "mfu": "55.81%",
    "days_to_train_1t_tokens": "96.43",
}
ARCHITECTURE = {
    "architecture.formula": "llama",
    "architecture.layers": "126",
    "architecture.hidden_size": "16384",
    "architecture.ffn_size": "53248",
    "architecture.attention_heads": "128",
    # The published model has 8.
    "architecture.query_groups": "16",
    "architecture.vocabulary_size": "128256",
}
GPT2 = {
    "model": "gpt2",
    "size": "52b",
    "framework": "megatron",
    "dtype": "fp16",
    "accelerator": "V100-32GB",
    "gpus": "64",
    "gpus_per_node": "4",
    "sequence_length": "1024",
    "global_batch_size": "512",
    "architecture.formula": "gpt2",
    "activation_recomputation": "true",
    "step_time_s": "88",
    "tflops_per_gpu": "38.7",
}


@pytest.mark.parametrize("base", [LLAMA2, GROK, LLAMA3, GPT2])
def test_figures_that_agree(base: dict[str, str]) -> None:
    assert found(row(base=base)) == ()


def test_a_step_time_before_rounding() -> None:
    (one,) = found(row(base=GROK, tokens_per_s="986200"))
    assert told(one) == (
        "tokens_per_s",
        "rounding",
        "986200",
        "986315",
        "step time rounded: 17.01198 s gives it, which rounds to it",
    )
    assert one.uses is Uses.COMPUTED
    assert one.verdict == "the step time, 17.01 s"
    assert one.formula == "8192 * 2048 / 17.01 s"
    assert (one.file, one.line, one.column) == ("t.yaml", 22, 3)


def test_a_step_time_that_was_cut() -> None:
    (one,) = found(
        row(base=GPT2, step_time_s="58", gpus="16", size="25b", global_batch_size="64", tflops_per_gpu="13.9")
    )
    assert told(one)[1:] == ("rounding", "13.9", "14.1", "step time rounded: 58.9 s gives it, which was cut to it")


def test_a_figure_that_was_cut() -> None:
    (one,) = found(row(base=GROK, tokens_per_s="986314"))
    assert told(one)[1:] == ("rounding", "986314", "986315", "cut, not rounded: 986314.9 was cut, not rounded")


def test_a_figure_one_unit_away_is_no_contradiction() -> None:
    (one,) = found(
        row(base=LLAMA2, mfu="52.6%", tokens_per_s=None, days_to_train_1t_tokens=None, step_time_s="6.990000")
    )
    assert told(one)[1:] == ("rounding", "52.6%", "52.7%", "cut, not rounded: 52.65% was cut, not rounded")
    (other,) = found(
        row(base=LLAMA2, mfu="53%", tokens_per_s=None, days_to_train_1t_tokens=None, step_time_s="7.040000")
    )
    assert told(other)[1:] == ("rounding", "53%", "52%", "last digit: less than one unit of the last digit away")


def test_swapped_digits_of_a_step_time() -> None:
    findings = found(row(base=GROK, tokens_per_s="981295", mfu="25.24%"))
    assert [told(one) for one in findings] == [
        (
            key,
            "contradiction",
            documented,
            computed,
            "digits swapped: 17.10 s gives it: two digits of 17.01 s are swapped",
        )
        for key, documented, computed in (("tokens_per_s", "981295", "986315"), ("mfu", "25.24%", "25.37%"))
    ]


def test_swapped_digits_of_a_figure() -> None:
    (one,) = found(row(base=LLAMA2, mfu="25.59%"))
    assert told(one)[1:] == (
        "contradiction",
        "25.59%",
        "52.59%",
        "digits swapped: 52.59% would fit: two digits of 25.59% are swapped",
    )


def test_half_of_another_peak() -> None:
    (one,) = found(row(base=LLAMA3, mfu="55.78%"))
    assert told(one)[1:] == (
        "discrepancy",
        "55.78%",
        "55.81%",
        "wrong peak: 9.895e14 FLOP/s, half of the peak of H100 FP8, gives it",
    )


def test_the_peak_of_another_dtype() -> None:
    (one,) = found(row(base=LLAMA2, mfu="26.28%"))
    assert told(one)[4] == "wrong peak: 1.979e15 FLOP/s, the peak of H100 FP8, gives it"


def test_model_flops_before_they_were_rounded() -> None:
    (one, notice) = found(row(base={**LLAMA3, **ARCHITECTURE}, mfu="55.85%"))
    assert told(one)[1:] == (
        "discrepancy",
        "55.85%",
        "55.81%",
        "formula: 2.1715e16 model FLOPs, before they were rounded to 2.17e+16, give it",
    )
    assert notice.severity is Severity.NOTICE


def test_model_flops_of_all_layers() -> None:
    proxy = row(
        base={**LLAMA3, **ARCHITECTURE}, layers="63", model_flops=None, mfu="55.85%", days_to_train_1t_tokens=None
    )
    (one,) = [one for one in found(proxy) if one.identity == "mfu"]
    assert one.explanation.kind is Kind.FORMULA
    assert one.explanation.text == "the model FLOPs of all 126 layers give it"


def test_half_of_the_throughput() -> None:
    (one,) = found(row(base=LLAMA2, tokens_per_s="37454.49"))
    assert told(one)[1:] == ("contradiction", "37454.49", "74908.99", "factor: it is half of what the formula gives")


def test_the_figure_of_another_row() -> None:
    other = {"step_time_s": "8.000", "tokens_per_s": "65536.00", "mfu": "46.01%", "days_to_train_1t_tokens": "176.61"}
    rows = (row(base=LLAMA2, tokens_per_s="65536.00"), row("other", LLAMA2, **{**other, "tokens_per_s": "74908.99"}))
    swapped, back = [one for one in found(*rows) if one.identity == "tokens_per_s"]
    assert told(swapped)[4] == "swapped column: it is the figure of other, the two are swapped"
    assert told(back)[4] == "swapped column: it is the figure of llama2_70b_bf16[H100x64], the two are swapped"
    copied = found(row(base=LLAMA2, tokens_per_s="65536.00"), row("other", LLAMA2, **other))
    (one,) = [one for one in copied if one.identity == "tokens_per_s"]
    assert told(one)[4] == "stale copy: other has it with 8.000 s, which gives it here, too"


@pytest.mark.parametrize(
    ("mfu", "severity"),
    [("52.71%", "discrepancy"), ("52.46%", "discrepancy"), ("52.73%", "contradiction"), ("52.45%", "contradiction")],
)
def test_a_quarter_of_a_percent_decides_no_verdict(mfu: str, severity: str) -> None:
    audited = run(row(base=LLAMA2, mfu=mfu))
    assert [told(one)[:2] for one in audited.findings] == [("mfu", severity)]
    assert audited.fails() is (severity == "contradiction")
    assert audited.fails(strict=True)


def test_two_digits_of_the_batch_are_swapped() -> None:
    swapped = "digits swapped: global_batch_size 128 gives it: two digits of 182 are swapped"
    others = found(row(base=LLAMA2, global_batch_size="182"))
    # The days are those of the documented throughput.
    assert [(one.identity, told(one)[4]) for one in others] == [("tokens_per_s", swapped), ("mfu", swapped)]


def test_two_digits_of_a_throughput_that_is_finer_than_the_step_time() -> None:
    # 986200 tokens/s is 17.01198 s.
    (one,) = found(row(base=GROK, tokens_per_s="968200"))
    assert told(one)[4] == "digits swapped: 986200 would fit: two digits of 968200 are swapped"
    # 1.3 s may be 4 % less: some two digits of any number fit.
    coarse = row(base=LLAMA2, step_time_s="1.3", tokens_per_s="437184", mfu=None, days_to_train_1t_tokens=None)
    assert [one.explanation.kind for one in found(coarse)] == [Kind.UNKNOWN]


SERIES = {key: text for key, text in LLAMA2.items() if key not in {"mfu", "days_to_train_1t_tokens"}}


def test_the_step_time_of_the_row_beside_it() -> None:
    a = row("a", SERIES, step_time_s="8.11", tokens_per_s="64647")
    # 4096 * 256 / 8.11 s
    b = row("b", SERIES, gpus="128", global_batch_size="256", step_time_s="8.21", tokens_per_s="129294")
    (one,) = found(a, b)
    assert (one.row, told(one)[4]) == ("b", "stale copy: 8.11 s, the step time of a, gives it")
    between = row("between", SERIES, gpus="96", step_time_s="8.31", tokens_per_s="63091")
    (one,) = [one for one in found(a, between, b) if one.identity == "tokens_per_s"]
    assert one.explanation.kind is not Kind.STALE_COPY


def test_the_step_time_is_that_of_another_row() -> None:
    a = row("a", LLAMA2, days_to_train_1t_tokens=None)
    # 4096 * 128 / 8.123 s, and its MFU
    others = {"tokens_per_s": "64543.64", "mfu": "45.31%", "days_to_train_1t_tokens": None}
    copied = "stale copy: 6.999 s is the step time of a; 8.123 s would fit"
    assert [told(one)[4] for one in found(a, row("b", LLAMA2, **others))] == [copied] * 2
    # One figure alone may be wrong itself.
    (one,) = found(a, row("b", LLAMA2, **{**others, "mfu": None}))
    assert one.explanation.kind is Kind.UNKNOWN


def test_two_digits_of_a_figure_whose_peak_is_a_little_off() -> None:
    """55.78% is that of half the FP8 peak."""
    (one,) = found(row(base=LLAMA3, mfu="57.58%"))
    assert told(one)[4] == "digits swapped: 55.78% would nearly fit: two digits of 57.58% are swapped"


def test_figures_of_two_rows_that_change_places() -> None:
    """Their step times are rounded, so that neither gives the other's digits exactly."""
    a = row("a", SERIES, step_time_s="8.1", tokens_per_s="73311")
    b = row("b", SERIES, step_time_s="7.15", tokens_per_s="64749")
    assert [(one.row, told(one)[4]) for one in found(a, b) if one.identity == "tokens_per_s"] == [
        ("a", "swapped column: it is the figure of b, the two are swapped"),
        ("b", "swapped column: it is the figure of a, the two are swapped"),
    ]


def test_a_copy_of_a_figure_that_is_a_little_off_itself() -> None:
    rows = (row("a", LLAMA2, mfu="52.56%"), row("b", LLAMA2, step_time_s="7.100", mfu="52.56%"))
    (copied,) = [one for one in found(*rows) if (one.row, one.identity) == ("b", "mfu")]
    assert told(copied)[4] == "stale copy: a has it"


def test_a_figure_of_another_kind() -> None:
    (one,) = found(row(base=LLAMA2, days_to_train_1t_tokens="52.59"))
    assert told(one)[4] == "swapped column: it is the row's mfu"


def test_one_wrong_digit() -> None:
    (of_time,) = found(row(base=GPT2, step_time_s="79", tflops_per_gpu="38.3"))
    assert told(of_time)[1:] == ("contradiction", "38.3", "43.1", "typo: 89 s gives it: one digit of 79 s is wrong")
    (of_figure,) = found(row(base=LLAMA2, mfu="58.59%"))
    assert told(of_figure)[4] == "typo: 52.59% would fit: one digit of 58.59% is wrong"


def test_a_typo_gives_the_computed_digits() -> None:
    # 52.5859…: the figure is 52.59%, and 52.58% is it cut.
    (near,) = found(row(base=LLAMA2, mfu="52.61%"))
    assert near.explanation.kind is Kind.UNKNOWN
    (cut,) = found(row(base=LLAMA2, mfu="12.58%"))
    assert cut.explanation.kind is Kind.UNKNOWN
    (longer,) = found(row(base=LLAMA2, mfu="152.59%"))
    assert longer.explanation.kind is Kind.UNKNOWN
    # 8 * 52 * 512 * 1024 / 64 GPUs / 1000 / 6 s is 567.98.
    (leading,) = found(row(base=GPT2, step_time_s="16", tflops_per_gpu="568.0"))
    assert leading.explanation.kind is Kind.UNKNOWN


def test_what_nothing_explains() -> None:
    (one,) = found(row(base=GPT2, step_time_s="137", global_batch_size="1024", tflops_per_gpu="48.8"))
    assert told(one)[4] == (
        "unknown: no single change of what it is computed from gives it; a step time of 139.7 s would"
    )


def test_days_of_the_documented_throughput_agree() -> None:
    # 1e12 / 74909 / 86400 = 154.5096…; by the step time as written it is the same here, by 6.99 s it is not.
    assert [one.identity for one in found(row(base=LLAMA2, step_time_s="6.99", mfu=None))] == ["tokens_per_s"]


def test_a_throughput_in_place_of_a_step_time() -> None:
    assert found(row(base=LLAMA2, step_time_s=None)) == ()
    (one,) = found(row(base=LLAMA2, step_time_s=None, mfu="54.59%"))
    assert one.verdict == "tokens_per_s 74908.99, which is 6.999 s"
    assert told(one)[4] == "typo: 52.59% would fit: one digit of 54.59% is wrong"


def test_figures_without_a_batch() -> None:
    base = {**LLAMA2, "tflops_per_gpu": "163.7", "step_time_s": "52.04"}
    texts = {"global_batch_size": None, "micro_batch_size": None, "tokens_per_s": "644781.55", "mfu": "16.55%"}
    assert found(row(base=base, **texts, days_to_train_1t_tokens="17.95")) == ()
    wrong = found(row(base=base, **{**texts, "mfu": "15.65%"}, days_to_train_1t_tokens="17.94"))
    assert [told(one) for one in wrong] == [
        (
            "mfu",
            "contradiction",
            "15.65%",
            "16.55%",
            "digits swapped: 16.55% would fit: two digits of 15.65% are swapped",
        ),
        (
            "days_to_train_1t_tokens",
            "discrepancy",
            "17.94",
            "17.95",
            "unknown: no single change of what it is computed from gives it",
        ),
    ]
    (cut,) = found(row(base=base, **{**texts, "mfu": "16.5%"}, days_to_train_1t_tokens="17.95"))
    assert told(cut) == ("mfu", "rounding", "16.5%", "16.6%", "cut, not rounded: 16.55% was cut, not rounded")


def test_a_figure_is_no_copy_of_one_that_is_wrong_as_well() -> None:
    rows = (row("a", LLAMA2, mfu="44.04%"), row("b", LLAMA2, step_time_s="7.001", mfu="44.04%"))
    assert {one.explanation.kind for one in found(*rows) if one.identity == "mfu"} == {Kind.UNKNOWN}


LORA = {"case": "finetuning-lora", "mfu": "35.06%"}


def test_lora_has_two_thirds() -> None:
    (one,) = found(row(base=LLAMA2, **LORA))
    assert told(one) == (
        "mfu",
        "contradiction",
        "35.06%",
        "52.59%",
        "factor: it is 2/3 of what the formula gives, as for LoRA",
    )
    (full,) = found(row(base=LLAMA2, case="lora", mfu="78.88%"))
    assert told(full)[4] == "factor: it is 3/2 of what the formula gives, as for full fine-tuning in place of LoRA"
    (other,) = found(row(base=LLAMA2, **{**LORA, "case": "finetuning-sft"}))
    assert other.explanation.kind is Kind.UNKNOWN


def test_lora_before_digits_that_happen_to_fit() -> None:
    # 53.9 is 35.9 with its digits swapped.
    (one,) = found(row(base=LLAMA2, case="lora", mfu="35.9%", model_flops="1.865e+15"))
    assert told(one)[4] == "factor: it is 2/3 of what the formula gives, as for LoRA"


steps = st.integers(100, 99_999).map(lambda number: f"{number / 1000:.3f}")


@given(steps, st.integers(0, 6), st.integers(0, 4), st.integers(0, 4), st.sampled_from([64, 128, 512]))
def test_figures_made_by_the_formulas_are_never_found(time: str, tokens: int, mfu: int, days: int, gpus: int) -> None:
    assert found(made(time, tokens, mfu, days, gpus)) == ()


@given(
    steps, st.integers(0, 3), st.sampled_from(["tokens_per_s", "mfu", "days_to_train_1t_tokens"]), st.integers(2, 40)
)
def test_a_figure_that_is_off_is_always_found(time: str, places: int, key: str, off: int) -> None:
    right = made(time, places, places, places, 64)
    text = right.values[key].text
    unit = power_of_ten(-places)
    value = Fraction(text.rstrip("%")) + off * unit
    findings = found(
        row(base={name: value.text for name, value in right.values.items()}, **{key: spelt(value, unit, text)})
    )
    assert key in {one.identity for one in findings}


def made(time: str, tokens: int, mfu: int, days: int, gpus: int) -> object:
    seconds = Fraction(time)
    rate = Fraction(4096 * 2 * gpus) / seconds
    share = 100 * 2 * Fraction(182 * 10**13) / seconds / Fraction(989 * 10**12)
    return row(
        base=LLAMA2,
        gpus=str(gpus),
        global_batch_size=str(2 * gpus),
        step_time_s=time,
        tokens_per_s=spelt(rate, power_of_ten(-tokens)),
        mfu=spelt(share, power_of_ten(-mfu), "%"),
        days_to_train_1t_tokens=spelt(Fraction(10**12) / rate / 86400, power_of_ten(-days)),
    )
