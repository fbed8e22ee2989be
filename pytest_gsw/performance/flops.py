"""Model FLOPs of one sample, by the formulas of the documents.

Each formula gives the floating-point operations of forward and backward pass for one
sample (one sequence), without any recomputation. The release of a recipe changed the
formula now and then, which is why every row pins the *result* (``model_flops``); these
functions check the pinned numbers and fill in the proxies'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def gpt3(*, sequence_length: int, layers: int, hidden_size: int, vocabulary_size: int) -> int:
    """GPT-3 (dense attention, FFN of four times the hidden size).

    Source: the notes of the Paxml GPT-3 175B recipe.
    """
    attention = 24 * layers * hidden_size**2 + 12 * layers * hidden_size * sequence_length
    mlp = 48 * layers * hidden_size**2
    return sequence_length * (attention + mlp + _embedding(vocabulary_size, hidden_size))


def llama(
    *,
    sequence_length: int,
    layers: int,
    hidden_size: int,
    ffn_size: int,
    attention_heads: int,
    query_groups: int,
    vocabulary_size: int,
) -> float:
    """Llama (grouped-query attention, gated FFN).

    Source: the notes of the Llama 3.1 405B and the MaxText Llama 2 70B recipes. The
    405B document's own arithmetic takes 16 query groups.
    """
    attention = 12 * layers * hidden_size**2 * (1 + query_groups / attention_heads + sequence_length / hidden_size)
    mlp = 18 * layers * ffn_size * hidden_size
    return sequence_length * (attention + mlp + _embedding(vocabulary_size, hidden_size))


def grok(
    *,
    sequence_length: int,
    layers: int,
    hidden_size: int,
    ffn_size: int,
    attention_heads: int,
    query_groups: int,
    experts_top_k: int,
    vocabulary_size: int,
) -> float:
    """Grok (mixture of experts, ``experts_top_k`` of them for each token; causal attention counted as half).

    Source: the notes of the Grok 1 314B recipe.
    """
    attention = 12 * layers * hidden_size**2 * (1 + query_groups / attention_heads + sequence_length / hidden_size / 2)
    mlp = 18 * layers * ffn_size * hidden_size * experts_top_k
    return sequence_length * (attention + mlp + _embedding(vocabulary_size, hidden_size))


#: By the names that ``architecture`` has for them; the names of their arguments are its other keys.
FORMULAS: Mapping[str, Callable[..., float]] = {"gpt3": gpt3, "llama": llama, "grok": grok}


def gpt2(*, sequence_length: int, parameters: float) -> float:
    """GPT-2 by parameter count: two operations a parameter and token forward, four backward.

    Source: the GPT-2 document's TFLOP/s formula, which has 8 instead of 6 because its
    runs recompute activations; see ``activation_recomputation``.
    """
    return 6 * parameters * sequence_length


def _embedding(vocabulary_size: int, hidden_size: int) -> int:
    return 6 * vocabulary_size * hidden_size
