"""What sentences state of runs, and what they do not."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing.sentences import read_sentences


def said(text: str, within: str = "") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines = text.split("\n")
    for sentence in read_sentences(lines, range(1, len(lines) + 1), within):
        for key, stated in sentence.said.items():
            found.setdefault(key, []).extend(one.text for one in stated)
    return found


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("Measured on 64 H100 GPUs.", "64"),
        ("The runs used 16 H100\nGPUs and mock data.", "16"),
        ("Llama 3.1 8B on 64 GPUs", "64"),
        ("16\u00d7H100", "16"),
        ("Qwen on 32x H100 80GB", "32"),
        ("on 8x power limited B200 GPUs", "8"),
        ("Training on 64 A100 (80GB memory) GPUs and more text", "64"),
        ("MI300X, 8 GPUs", "8"),
        ("**1,024** `H100` GPUs", "1024"),
        ("a 512 GPU training", "512"),
        ("GPUs: 128", "128"),
        ("4 nodes of 8 H100 GPUs each", "32"),
        ("16 nodes x 8 GPUs", "128"),
        ("a single GPU", "1"),
    ],
)
def test_gpu_counts(text: str, gpus: str) -> None:
    assert said(text)["gpus"] == [gpus]


@pytest.mark.parametrize(
    "text",
    [
        "It scales up to 2,048 GPUs.",
        "The recipe requires at least 8 GPUs.",
        "At least 8 GPUs.",
        "It was tested on 512 GPUs.",
        "From 8 GPUs to 512 GPUs.",
        "On 8 or 128 H100 GPUs.",
        "On 8, 16 and 32 GPUs.",
        "On 64-128 GPUs.",
        "With 64+ GPUs.",
        "About 100 GPUs were free.",
        "One can train it on 8 GPUs.",
        "Twice as fast as on 64 GPUs.",
        "In Table 3 are the results on 64 GPUs.",
        "See Table 3 for 64 GPUs.",
        "With inference on 8 GPUs.",
        "If 16 GPUs are there, it is faster.",
        "Llama 3 GPUs",
        "64 GPU hours per GPU",
        "It did not run on 8 GPUs.",
        "8 GPUs per node",
        "Our cluster has 16 nodes with 8 H100 GPUs each (128 GPUs).",
        "The node has 8 GPUs.",
        "The table in the appendix was measured on 128 GPUs.",
        "2048 GPUs were available.",
    ],
)
def test_what_states_no_gpu_count(text: str) -> None:
    assert "gpus" not in said(text)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("Sequence length 4096, steps 100", "sequence_length", "4096"),
        ("inputs are packed to 4,096 tokens", "sequence_length", "4096"),
        ("packed sequence length 2048", "sequence_length", "2048"),
        ("seq_len=8192", "sequence_length", "8192"),
        ("Sequence: 4096", "sequence_length", "4096"),
        ("Sequenzl\u00e4nge (sequence length) 4096", "sequence_length", "4096"),
        ("Our cluster has 16 nodes with 8 H100 GPUs each.", "gpus_per_node", "8"),
        ("trained in bfloat16", "dtype", "bf16"),
        ("compiled, with Float8", "dtype", "fp8"),
        ("BF16 without FP8", "dtype", "bf16"),
        ("global batch size 128 (local batch size 32)", "global_batch_size", "128"),
        ("`MBS=1`, `GBS=1024`", "global_batch_size", "1024"),
        ("MBS1 / GBS1024", "micro_batch_size", "1"),
        ("micro-batch size of 2", "micro_batch_size", "2"),
        ("TP1 / PP8 / CP1", "pp", "8"),
        ("tensor parallelism of 4", "tp", "4"),
        ("Tensor Parallel: 4", "tp", "4"),
        ("FSDP degree 32", "fsdp", "32"),
        ("8 GPUs (FSDP 2, TP 4)", "fsdp", "2"),
        ("Local batch size 16, activation checkpointing", "local_batch_size", "16"),
        ("with PP=4, VPP=5, and DP=2:", "dp", "2"),
        ("4 nodes, PP4, EP8", "nodes", "4"),
        ("Single-node training", "nodes", "1"),
        ("Each host has 8 NVIDIA H200 GPUs connected", "gpus_per_node", "8"),
        ("4 GPUs per node", "gpus_per_node", "4"),
        ("BF16 on 8 GPUs", "dtype", "bf16"),
        ("a GB200 cluster", "accelerator", "GB200"),
        ("on [Llama2-7B](https://host/Llama-2-7b-hf)", "model", "llama2"),
        ("Qwen3 30B-A3B pretraining", "size", "30b"),
    ],
)
def test_settings(text: str, key: str, value: str) -> None:
    assert said(text)[key] == [value]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("FSDP2 and compile", "fsdp"),
        ("FSDP 2, torch.compile", "fsdp"),
        ("TP=1-8", "tp"),
        ("TP=2 or 4", "tp"),
        ("up to TP=8", "tp"),
        ("sequence length 8K", "sequence_length"),
        ("sequence length 2048, 4096 and 8192", "sequence_length"),
        ("sequence 2 of 8", "sequence_length"),
        ("The sequence length is 2048 first and 4096 later.", "sequence_length"),
        ("Llama 3.1 8B, 70B, and 405B models", "model"),
        ("Llama 3 70B to 405B", "size"),
        ("STEP 4", "ep"),
    ],
)
def test_what_states_no_setting(text: str, key: str) -> None:
    assert key not in said(text)


def test_a_sentence_of_several_kinds_states_them_all() -> None:
    assert said("FP8 is faster here, and BF16 is slower.") == {"dtype": ["fp8", "bf16"]}


def test_a_point_of_a_list_is_read_with_what_introduces_it() -> None:
    assert said("8 H200 GPUs with NVLink", "Each host has") == {"gpus_per_node": ["8"], "accelerator": ["H200"]}
    assert said("8 H200 GPUs", "You need:") == {}


def test_each_statement_knows_its_place() -> None:
    (sentence,) = read_sentences(["", "- All **on 64", "H100 GPUs**"], (2, 3))
    places = {key: (stated.line, stated.column) for key, (stated,) in sentence.said.items()}
    assert places == {"gpus": (2, 12), "accelerator": (3, 1)}
