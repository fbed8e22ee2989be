"""The documents' formulas of model FLOPs against PyTorch's own counter of floating-point operations, on small models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from pytest_gsw.importing import arithmetic as flops
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table

from .recipe import training

#: What the formulas leave out: the rotation of positions, an experts' router.
WITHIN = 0.01


def counted(model: transformers.PreTrainedModel, sequence_length: int, vocabulary_size: int) -> dict[str, int]:
    """Operations of one sample, forward and backward, by the operator; scores and their products are batched (bmm)."""
    tokens = torch.randint(vocabulary_size, (1, sequence_length))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, labels=tokens).loss.backward()
    return {str(operator): count for operator, count in counter.get_flop_counts()["Global"].items()}


def llama(**shape: int) -> transformers.LlamaConfig:
    # The fused kernels compute the scores once more in the backward pass, which model FLOPs do not count.
    return transformers.LlamaConfig(**shape, attn_implementation="eager", use_cache=False)


SMALL = {
    "num_hidden_layers": 3,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_attention_heads": 8,
    "vocab_size": 2048,
}
#: The same in the formulas' words; GPT-3's has fewer.
SMALL_GPT = {"layers": 3, "hidden_size": 256, "vocabulary_size": 2048}
SMALL_LLAMA = {**SMALL_GPT, "ffn_size": 768, "attention_heads": 8}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query_groups", [8, 4, 1], ids=["MHA", "GQA", "MQA"])
@pytest.mark.parametrize("sequence_length", [64, 512])
def test_llama(query_groups: int, sequence_length: int) -> None:
    model = transformers.LlamaForCausalLM(llama(**SMALL, num_key_value_heads=query_groups))
    assert flops.llama(**SMALL_LLAMA, sequence_length=sequence_length, query_groups=query_groups) == pytest.approx(
        sum(counted(model, sequence_length, 2048).values()), rel=WITHIN
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sequence_length", [64, 512])
def test_gpt3(sequence_length: int) -> None:
    config = transformers.GPT2Config(
        n_layer=3, n_embd=256, n_head=8, vocab_size=2048, n_positions=512, attn_implementation="eager", use_cache=False
    )
    found = counted(transformers.GPT2LMHeadModel(config), sequence_length, 2048)
    assert flops.gpt3(**SMALL_GPT, sequence_length=sequence_length) == pytest.approx(sum(found.values()), rel=WITHIN)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("experts_top_k", [1, 2])
@pytest.mark.parametrize("sequence_length", [64, 512])
def test_grok(sequence_length: int, experts_top_k: int) -> None:
    config = transformers.MixtralConfig(
        **SMALL,
        num_key_value_heads=4,
        num_local_experts=4,
        num_experts_per_tok=experts_top_k,
        attn_implementation="eager",
        experts_implementation="eager",
        use_cache=False,
    )
    found = counted(transformers.MixtralForCausalLM(config), sequence_length, 2048)
    # The document counts causal attention as half of what is computed here.
    scores = found["aten.bmm"]
    assert flops.grok(
        **SMALL_LLAMA, sequence_length=sequence_length, query_groups=4, experts_top_k=experts_top_k
    ) == pytest.approx(sum(found.values()) - scores / 2, rel=WITHIN)


@pytest.mark.parametrize(
    "row", load_table(bundled_baselines() / "huggingface" / "smoke_gpt.yaml"), ids=lambda row: row.id
)
def test_the_rows_of_smoke_gpt(row: Any) -> None:
    shape = training()["SIZES"][row.workload.size]
    found = counted(transformers.LlamaForCausalLM(llama(**shape)), row.workload.sequence_length, shape["vocab_size"])
    assert row.workload.model_flops_per_sample == pytest.approx(sum(found.values()), rel=WITHIN)
