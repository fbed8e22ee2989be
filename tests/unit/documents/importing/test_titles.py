from __future__ import annotations

import pytest

from pytest_gsw.documents.importing.titles import Title, framework_of, is_model, read_title, settings


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            "Paxml GPT175B 24.11 FP8 (FSDP+DP, MBS=2)",
            Title("gpt", "175b", "fp8", framework="paxml", version="24.11", settings={"micro_batch_size": "2"}),
        ),
        (
            "Llama 3.1 405b 24.09 BF16 (TP=8, PP=9, CP=2, VP=7, MBS=1, GA=63)",
            Title(
                "llama3.1",
                "405b",
                "bf16",
                version="24.09",
                settings={
                    "tp": "8",
                    "pp": "9",
                    "cp": "2",
                    "vp": "7",
                    "micro_batch_size": "1",
                    "gradient_accumulation_steps": "63",
                },
            ),
        ),
        (
            "Maxtext LLama2 70b BF16 (FSDP+DP MBS=2)",
            Title("llama2", "70b", "bf16", framework="maxtext", settings={"micro_batch_size": "2"}),
        ),
        ("Grok 1 314b Dev BF16", Title("grok1", "314b", "bf16")),
        ("Deepseek V3 BF16 H100", Title("deepseek_v3", "", "bf16", "H100")),
        ("Nemotron-H 56b FP8", Title("nemotron-h", "56b", "fp8")),
        ("LLAMA4 maverick 400b BF16", Title("llama4_maverick", "400b", "bf16")),
        (
            "Nemotron 340b BF16 GB200 Strong Scaling",
            Title("nemotron", "340b", "bf16", "GB200", variant="strong-scaling"),
        ),
        (
            "Llama3 8b Finetuning SFT FP8 (TP=1, VP=None)",
            Title("llama3", "8b", "fp8", variant="finetuning-sft", settings={"tp": "1"}),
        ),
        (
            "NeMo Megatron BF16 (TP=4,PP=8, SEQ=2048)",
            Title("", "", "bf16", framework="nemo", settings={"tp": "4", "pp": "8", "sequence_length": "2048"}),
        ),
        ("Mixtral 8x7B BF16", Title("mixtral", "8x7b", "bf16")),
        ("Model: DeepSeekV3", Title("deepseek_v3")),
        ("DeepSeekV4 Flash", Title("deepseek_v4_flash")),
        ("Nemotron_3_5_Lightning", Title("nemotron3.5_lightning")),
        ("Nemotron_3_Nano", Title("nemotron3_nano")),
        ("LLAMA3.1_405B", Title("llama3.1", "405b")),
        ("Qwen3_30B_a3B", Title("qwen3", "30b", variant="a3b")),
        ("GPT OSS 120B", Title("gpt_oss", "120b")),
        ("Pretrain Llama 3 8B", Title("llama3", "8b")),
        ("Fine-tuning Llama2 70B", Title("llama2", "70b")),
        ("Long sequences: Llama 3 8B", Title("llama3", "8b")),
        ("Code Llama 7B", Title("code_llama", "7b")),
        # Two models, and what is no name.
        ("Llama 2 7B and 13B with NeMo", Title("llama2", framework="nemo")),
        ("Above is Mixtral; below is Llama 2 13B", Title("", "13b")),
        ("Metric", Title()),
        ("405b-Proxy", Title("", "405b", proxy=True)),
        ("", Title()),
    ],
)
def test_titles(text: str, title: Title) -> None:
    assert read_title(text) == title


def test_settings_of_a_column() -> None:
    assert settings("Throughput on 64x H100 GPUs (FSDP=64 GBS=128)") == {"fsdp": "64", "global_batch_size": "128"}


@pytest.mark.parametrize("text", ["TP=0", "VP=None", "LR=3", "x=64", "GBS=1.5"])
def test_what_is_no_setting_of_a_row(text: str) -> None:
    assert settings(text) == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NeMo Launcher", "nemo"),
        ("HF + Deepspeed", "huggingface"),
        ("lustre/myproject/nemo", None),
        ("nemotron", None),
        ("Captain Nemo", None),
        ("Nemo framework", "nemo"),
    ],
)
def test_frameworks(text: str, name: str | None) -> None:
    assert framework_of(text) == name


def test_families_of_models() -> None:
    assert is_model("llama3.1")
    assert is_model("mosaicgpt")
    assert not is_model("zero3_full_offload")
