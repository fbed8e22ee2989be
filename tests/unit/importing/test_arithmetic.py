"""The figures of a row computed from each other: what contradicts, what rounding explains, what is acknowledged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.importing import arithmetic as flops
from pytest_gsw.importing.arithmetic import Finding, findings
from pytest_gsw.tables.stated_rows import StatedRow
from pytest_gsw.tables.yaml_values import Stated

GROK = {
    "gpus": "1024",
    "dtype": "fp8",
    "accelerator": "H100",
    "sequence_length": "8192",
    "global_batch_size": "2048",
    "model_flops": "4.27e+15",
    "step_time_s": "17.10",
    "tokens_per_s": "981127",
    "mfu": "25.24%",
    "days_to_train_1t_tokens": "11.80",
}


def found_in(values: dict[str, str], acknowledged: dict[str, str] | None = None) -> list[Finding]:
    stated = {key: Stated(text, number, 1) for number, (key, text) in enumerate(values.items(), 1)}
    return list(findings([StatedRow("row", "t.yaml", stated, acknowledged or {})]))


def test_figures_that_agree() -> None:
    assert found_in(GROK) == []


def test_a_finding_says_both_figures_and_the_equation() -> None:
    (tokens, *others) = found_in({**GROK, "step_time_s": "17.01"})
    assert (tokens.row, tokens.file, tokens.line, tokens.is_contradiction) == ("row", "t.yaml", 8, True)
    assert tokens.text == "tokens_per_s is 981127, and 8192 * 2048 / 17.01 s = 986315"
    assert tokens.line_to_add == 'acknowledged: {tokens_per_s: "WHY IT STAYS"}'
    assert [one.key for one in others] == ["mfu"]


@pytest.mark.parametrize(
    ("changed", "key", "formula", "computed"),
    [
        ({"samples_per_s": "100"}, "samples_per_s", "2048 / 17.10 s", "119.766"),
        ({"tokens_per_s_per_gpu": "900"}, "tokens_per_s_per_gpu", "8192 * 2048 / 17.10 s / 1024 GPUs", "958.129"),
        ({"mfu": "50.5%"}, "mfu", "2048 * 4.27e+15 FLOPs / 17.10 s / 1024 GPUs / 1.979e+15 FLOP/s", "25.2357%"),
        ({"tflops_per_gpu": "600"}, "tflops_per_gpu", "2048 * 4.27e+15 FLOPs / 17.10 s / 1024 GPUs / 1e12", "499.415"),
        (
            {"tflops_per_gpu": "499.4", "activation_recomputation": "true"},
            "tflops_per_gpu",
            "2048 * 4.27e+15 FLOPs * 4 / 3 / 17.10 s / 1024 GPUs / 1e12",
            "665.887",
        ),
        (
            {"days_to_train_1t_tokens": "12.9"},
            "days_to_train_1t_tokens",
            "1e12 * 17.10 s / 8192 / 2048 / 86400",
            "11.7968",
        ),
        ({"micro_batch_size": "1", "gradient_accumulation_steps": "64", "dp": "2"}, "global_batch_size", None, "128"),
        ({"tp": "4", "pp": "8", "dp": "2"}, "gpus", "tp 4 * pp 8 * dp 2", "64"),
        ({"fsdp": "3"}, "gpus", "a multiple of fsdp", "3"),
    ],
)
def test_each_identity(changed: dict[str, str], key: str, formula: str | None, computed: str) -> None:
    finding = next(one for one in found_in({**GROK, **changed}) if one.key == key)
    assert (finding.computed, finding.is_contradiction) == (computed, True)
    assert formula in {None, finding.formula}


@pytest.mark.parametrize(
    "values",
    [
        {
            "tokens_per_s": "402756",
            "step_time_s": "20.83",
            "global_batch_size": "1024",
            "sequence_length": "8192",
        },  # rounded
        {"samples_per_s": "29", "step_time_s": "8", "global_batch_size": "239"},  # cut
        {"days_to_train_1t_tokens": "164.9", "tokens_per_s": "70185.8"},
        {
            "mfu": "0.2524",
            **{key: GROK[key] for key in ("gpus", "dtype", "accelerator", "global_batch_size", "model_flops")},
        },
        {"gpus": "64", "tp": "4", "pp": "1", "cp": "2", "ep": "8", "dp": "1"},  # EP as a factor of its own
        {"gpus": "64", "tp": "2", "pp": "4", "ep": "8", "dp": "8"},  # EP inside of DP
        {"gpus": "64", "tp": "4", "cp": "2"},  # what is left out may be any
        {"global_batch_size": "64", "micro_batch_size": "2"},
        {"global_batch_size": "64", "micro_batch_size": "2", "gpus": "16", "tp": "2", "pp": "1"},
        {"step_time_s": "0", "tokens_per_s": "nan", "mfu": "", "gpus": "-1"},
        {"step_time_s": "1" * 60, "tokens_per_s": "1e99999"},
    ],
)
def test_no_contradiction(values: dict[str, str]) -> None:
    assert found_in(values) == []


def test_what_decides_nothing_or_too_much() -> None:
    # What is less than a quarter of a percent off decides nothing.
    (finding,) = found_in({**GROK, "mfu": "25.20%"})
    assert (finding.key, finding.is_contradiction) == ("mfu", False)
    # More than an accelerator can do.
    (finding,) = found_in({"accelerator": "H100", "dtype": "bf16", "tflops_per_gpu": "1200"})
    assert (finding.formula, finding.computed) == ("the peak of a H100", "989")
    # What is acknowledged has its reason.
    (tokens, mfu) = found_in({**GROK, "step_time_s": "17.01"}, {"tokens_per_s": "of 17.10 s"})
    assert (tokens.acknowledged, mfu.acknowledged) == ("of 17.10 s", "")


def test_digits_of_a_step_time() -> None:
    # A throughput tells the step time more exactly than its own digits.
    values = {**GROK, "step_time_s": "17", "mfu": "25.7%"}
    assert [one.key for one in found_in(values)] == ["mfu"]
    del values["tokens_per_s"]
    assert found_in({**values, "days_to_train_1t_tokens": "12"}) == []
    # A step time that follows from a throughput.
    values = {key: text for key, text in GROK.items() if key != "step_time_s"}
    assert found_in(values) == []
    assert [one.formula for one in found_in({**values, "mfu": "50%"})] == [
        "2048 * 4.27e+15 FLOPs / 17.0999 s / 1024 GPUs / 1.979e+15 FLOP/s"
    ]


@given(
    batch=st.integers(1, 8192),
    length=st.sampled_from([1024, 2048, 4096, 8192]),
    seconds=st.decimals("0.05", "500", places=2),
    digits=st.integers(0, 3),
)
def test_what_is_computed_and_rounded_is_no_contradiction(
    batch: int, length: int, seconds: object, digits: int
) -> None:
    text = f"{length * batch / float(str(seconds)):.{digits}f}"
    values = {"global_batch_size": str(batch), "sequence_length": str(length), "step_time_s": str(seconds)}
    assert [one for one in found_in({**values, "tokens_per_s": text}) if one.is_contradiction] == []


@given(factor=st.sampled_from([0.5, 0.9, 0.97, 1.03, 1.1, 2.0]), seconds=st.decimals("1", "500", places=3))
def test_what_is_three_percent_off_is_a_contradiction(factor: float, seconds: object) -> None:
    text = f"{8192 * 256 / float(str(seconds)) * factor:.2f}"
    values = {"global_batch_size": "256", "sequence_length": "8192", "step_time_s": str(seconds)}
    (finding,) = found_in({**values, "tokens_per_s": text})
    assert finding.is_contradiction


# -- formulas of model FLOPs ------------------------------------------------------------------


def test_gpt3_175b() -> None:
    model_flops = flops.gpt3(sequence_length=2048, layers=96, hidden_size=12288, vocabulary_size=51200)
    assert model_flops == 2048 * (376883380224 + 695784701952 + 3774873600)
    assert f"{model_flops:.2E}" == "2.20E+15"


def test_llama2_70b() -> None:
    model_flops = flops.llama(
        sequence_length=4096,
        layers=80,
        hidden_size=8192,
        ffn_size=28672,
        attention_heads=64,
        query_groups=8,
        vocabulary_size=32000,
    )
    assert model_flops == 4096 * (104_689_827_840 + 338_228_674_560 + 1_572_864_000)
    assert f"{model_flops:.2E}" == "1.82E+15"


def test_llama31_405b() -> None:
    model_flops = flops.llama(
        sequence_length=8192,
        layers=126,
        hidden_size=16384,
        ffn_size=53248,
        attention_heads=128,
        query_groups=16,
        vocabulary_size=128256,
    )
    assert model_flops == 8192 * (659_545_915_392 + 1_978_637_746_176 + 12_608_077_824)
    assert f"{model_flops:.2E}" == "2.17E+16"


def test_grok1_314b() -> None:
    model_flops = flops.grok(
        sequence_length=8192,
        layers=64,
        hidden_size=6144,
        ffn_size=32768,
        attention_heads=48,
        query_groups=8,
        experts_top_k=2,
        vocabulary_size=128256,
    )
    assert model_flops == pytest.approx(8192 * (53_150_220_288 + 463_856_467_968 + 4_728_029_184), rel=1e-15)
    assert f"{model_flops:.2E}" == "4.27E+15"


def test_gpt2_has_six_operations_for_each_parameter_and_token() -> None:
    assert flops.gpt2(sequence_length=1024, parameters=52e9) == 3.19488e14


def test_every_expert_of_a_token_counts() -> None:
    sizes = {"layers": 2, "hidden_size": 8, "ffn_size": 16, "attention_heads": 4, "query_groups": 2}
    one = flops.grok(sequence_length=4, experts_top_k=1, vocabulary_size=10, **sizes)
    three = flops.grok(sequence_length=4, experts_top_k=3, vocabulary_size=10, **sizes)
    assert three - one == 4 * 2 * (18 * 2 * 16 * 8)
