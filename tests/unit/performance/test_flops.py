"""The formulas against the worked numbers of the documents."""

from __future__ import annotations

import pytest

from pytest_gsw.performance import flops


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


@pytest.mark.parametrize(
    ("layers", "attention", "mlp", "embedding"),
    [(0, 0, 0, 1_572_864_000), (80, 104_689_827_840, 338_228_674_560, 1_572_864_000)],
)
def test_the_parts_of_llama2_70b(layers: int, attention: int, mlp: int, embedding: int) -> None:
    sizes = {"hidden_size": 8192, "attention_heads": 64, "query_groups": 8, "vocabulary_size": 32000}
    whole = flops.llama(sequence_length=4096, layers=layers, ffn_size=28672, **sizes)
    without_mlp = flops.llama(sequence_length=4096, layers=layers, ffn_size=0, **sizes)
    assert (whole - without_mlp) / 4096 == mlp
    assert without_mlp / 4096 == attention + embedding


def test_gpt2_has_six_operations_for_each_parameter_and_token() -> None:
    assert flops.gpt2(sequence_length=1024, parameters=52e9) == 3.19488e14


def test_every_expert_of_a_token_counts() -> None:
    sizes = {"layers": 2, "hidden_size": 8, "ffn_size": 16, "attention_heads": 4, "query_groups": 2}
    one = flops.grok(sequence_length=4, experts_top_k=1, vocabulary_size=10, **sizes)
    three = flops.grok(sequence_length=4, experts_top_k=3, vocabulary_size=10, **sizes)
    assert three - one == 4 * 2 * (18 * 2 * 16 * 8)
