"""What the frameworks print of how a run was set up: sequence length, layers, precision, parallelism, batch.

Each :class:`Printed` is one way in which settings are printed, with the words by which its lines are found. A format
has those of the programs that write its logs, the most certain first: what an earlier one says counts before what a
later one does. Names that only look alike are left out on purpose, since a setting that is misread fails a good run:

* Megatron's ``encoder_seq_length`` and ``retriever_seq_length``, ``ffn_hidden_size``, ``recompute_num_layers``,
  ``encoder_tensor_model_parallel_size``;
* MaxText's ``per_device_batch_size``, a fraction of a batch and no micro-batch, and its ``eval_`` settings;
* ``world_size`` of DeepSpeed's configuration, which counts data-parallel ranks and no GPUs;
* NeMo's ``max_steps``, which also stands in schedules; the steps that a run has are those of its step lines;
* torchtitan's ``mixed_precision_param``, which says nothing where only tensors are parallel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pytest_gsw.logs.model import Dialect

#: A value as configurations write it; ``torch.float16`` is one, and so are what DeepSpeed writes as ``dtype[bfloat16]``
#: and ``4,096``.
_VALUE = rb"(?:torch\.|dtype\[)?-?(?:\d{1,3}(?:,\d{3}){1,3}(?![\w,])|\w{1,40})"


@dataclass(frozen=True)
class Printed:
    """One way in which a program prints settings."""

    #: What every line of it holds; it spares the pattern on all others.
    hint: bytes
    #: By what its lines are found.
    markers: Dialect
    #: Finds one setting: a group ``name`` and a group ``value``; of nested ones also a group ``indent``.
    pattern: re.Pattern[bytes]
    #: Our name of a setting by theirs; see :data:`PRODUCTS` for those that are factors.
    names: Mapping[bytes, str]
    #: The file is a tree, as YAML is: one name may stand at several places in it, and the outermost counts.
    nested: bool = False


#: Settings that are stated as factors.
PRODUCTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tp": ("ici_tp", "dcn_tp"),
        "pp": ("ici_pp", "dcn_pp"),
        "cp": ("ici_cp", "dcn_cp"),
        "ep": ("ici_ep", "dcn_ep"),
        "dp": ("dp_replicate", "dp_shard"),
        "fsdp": ("ici_fsdp", "dcn_fsdp"),
        "layers": ("layer_repeats", "block_layers"),
    }
)


def _printed(
    hint: bytes,
    pattern: bytes,
    names: Mapping[str, str],
    *,
    marker: bytes = b"",
    value: bytes = _VALUE,
    nested: bool = False,
) -> Printed:
    """One way of printing settings; its pattern holds ``NAME`` and ``VALUE``, and so does its marker, else the hint."""
    # The longest first: an alternative that begins another would hide it.
    words = b"|".join(re.escape(name.encode()) for name in sorted(names, key=len, reverse=True))
    whole = pattern.replace(b"NAME", b"(?P<name>%b)" % words).replace(b"VALUE", b"(?P<value>%b)" % value)
    ours = MappingProxyType({name.encode(): setting for name, setting in names.items()})
    markers = tuple(dict.fromkeys((marker or hint).replace(b"NAME", name) for name in ours))
    return Printed(hint, markers, re.compile(whole), ours, nested)


_MEGATRON_NAMES = {
    "seq_length": "sequence_length",
    "micro_batch_size": "micro_batch_size",
    "global_batch_size": "global_batch_size",
    "num_layers": "layers",
    "hidden_size": "hidden_size",
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp8": "fp8",
    "fp4": "fp4",
}
#: Megatron-LM's ``_print_args``: ``  seq_length ...................... 2048``; GPT-NeoX adds ``…updated`` to the value.
_MEGATRON = _printed(
    b" ..",
    rb"(?<![^\s:])NAME \.{2,80} VALUE",
    {
        **_MEGATRON_NAMES,
        "params_dtype": "precision",
        "data_parallel_size": "dp",
        "model_parallel_size": "tp",  # until 2020, and GPT-NeoX
        "pipe_parallel_size": "pp",
        "encoder_tensor_model_parallel_size": "encoder_tp",
        "precision": "precision",
        "train_micro_batch_size_per_gpu": "micro_batch_size",
    },
    marker=b"NAME ..",
)
#: Primus prints them as ``known_args[seq_length] = 8192``.
_PRIMUS = _printed(b"known_args[", rb"\bknown_args\[NAME\] = VALUE", _MEGATRON_NAMES)
#: NeMo 1's configuration (OmegaConf), and Megatron-Bridge's: YAML below a message, each line behind a label or not.
_YAML = _printed(
    b": ",
    rb"(?:^|[:|\]])(?P<indent> {2,60})NAME: {1,4}['\"]?VALUE['\"]?(?= {0,8}(?:#|$))",
    {**_MEGATRON_NAMES, "encoder_seq_length": "sequence_length", "precision": "precision"},
    value=rb"[\w-]{1,40}",
    nested=True,
    marker=b" NAME: ",
)
#: Megatron Core's data set and optimizer, which NeMo 2 prints as well.
_DATASET = _printed(b"DatasetConfig(", rb"DatasetConfig\(.{0,80}?\bNAME=VALUE", {"sequence_length": "sequence_length"})
_OPTIMIZER = _printed(
    b"OptimizerConfig(", rb"[(\s]NAME=VALUE", {"bf16": "bf16", "fp16": "fp16", "params_dtype": "precision"}
)
#: ``deepspeed/runtime/config.py``: ``[config.py:1013:print]   fp16_enabled ................. True``.
_DEEPSPEED = _printed(
    b"print]",
    rb"\bconfig\.py:\d{1,5}:print\] {1,8}NAME [ .]{1,60}VALUE",
    {
        "train_micro_batch_size_per_gpu": "micro_batch_size",
        "world_size": "dp",
        "fp16_enabled": "is_fp16",
        "bfloat16_enabled": "is_bf16",
    },
    marker=b" NAME ",
)
_MLLOG = _printed(
    b'"max_sequence_length"',
    rb'"key": "NAME", "value": VALUE',
    {"max_sequence_length": "sequence_length"},
)
#: DLLogger's parameters of NeMo 1.
_DLL = _printed(
    b'"cfg/',
    rb'"cfg/NAME": "?VALUE',
    {**_MEGATRON_NAMES, "encoder_seq_length": "sequence_length", "precision": "precision"},
    value=rb"[\w-]{1,40}",
)
#: ``pyconfig.py``: ``Config param max_target_length: 2048``; -1 stands for what MaxText finds out itself.
_MAXTEXT = _printed(
    b"Config param ",
    rb"\bConfig param NAME: {0,4}VALUE(?=\s{0,8}$)",
    {
        "max_target_length": "sequence_length",
        "num_decoder_layers": "layers",
        "emb_dim": "hidden_size",
        "dtype": "precision",
        "quantization": "quantization",
        **{
            f"{network}_{ours}_parallelism": f"{network}_{short}"
            for network in ("ici", "dcn")
            for ours, short in (
                ("fsdp", "fsdp"),
                ("tensor", "tp"),
                ("pipeline", "pp"),
                ("context", "cp"),
                ("expert", "ep"),
            )
        },
    },
    value=rb"['\"]?[\w-]{0,40}['\"]?",
    marker=b"Config param NAME: ",
)
#: "Trainer is initialized with local batch size 2, global batch size 16, …, sequence length 2048, total steps 10 (…".
_TITAN_TRAINER = _printed(
    b"total steps ",
    rb"\bNAME VALUE(?=, )",
    {
        "sequence length": "sequence_length",
        "local batch size": "micro_batch_size",
        "global batch size": "global_batch_size",
    },
)
_TITAN_MESH = _printed(
    b"device mesh with parallelism: ",
    rb"[\s,]NAME=VALUE",
    {"tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "dp_replicate": "dp_replicate", "dp_shard": "dp_shard"},
)
_TITAN_MODEL = _printed(b"ModelArgs(", rb"[(\s]NAME=VALUE", {"n_layers": "layers", "dim": "hidden_size"})
_TITAN_FLOAT8 = _printed(
    b"Float8 ", rb"\bNAME (?:\w{1,20} ){0,2}training VALUE", {"Float8": "is_fp8"}, value=rb"active"
)
_FOUNDRY_LINE = rb"(?:^|:)(?P<indent> {0,60})NAME: {1,4}(?:amp_)?VALUE(?= {0,8}$)"
#: LLM Foundry's configuration, as YAML; what is nested in ``model`` counts where nothing stands further out.
_FOUNDRY = _printed(
    b": ",
    _FOUNDRY_LINE,
    {
        "max_seq_len": "sequence_length",
        "global_train_batch_size": "global_batch_size",
        "device_train_microbatch_size": "micro_batch_size",
        "n_layers": "layers",
        "d_model": "hidden_size",
        "precision": "precision",
    },
    value=rb"\w{1,40}",
    nested=True,
    marker=b"NAME: ",
)
#: Its one word for both: ``amp_bf16`` says that nothing is computed in FP8, ``amp_fp8`` that something is.
_FOUNDRY_PRECISION = _printed(b"precision: ", _FOUNDRY_LINE, {"precision": "quantization"}, nested=True)
#: Hugging Face Trainer: its banner, and its arguments, of which only what is switched on tells the precision.
_TRAINER = _printed(
    b"Instantaneous batch size per device = ",
    rb"\bNAME = VALUE",
    {"Instantaneous batch size per device": "micro_batch_size"},
    value=rb"\d[\d,]{0,14}",
)
_TRAINING_ARGUMENTS = _printed(
    b"16=True,",
    rb"(?<!\w)NAME=VALUE,",
    {"bf16": "is_bf16", "fp16": "is_fp16"},
    value=rb"True",
    marker=b"NAME=True,",
)
#: Fiddle's configuration: ``train.py:189]   model.lm_tpl.model_dims : 12288``.
_FIDDLE = _printed(
    b" : ",
    rb"\] {1,8}NAME : VALUE",
    {
        "input.seq_len": "sequence_length",
        "model.lm_tpl.model_dims": "hidden_size",
        "model.fprop_dtype": "precision",
        "model.lm_tpl.stacked_transformer_tpl.x_times": "layer_repeats",
        "model.lm_tpl.stacked_transformer_tpl.block.num_layers": "block_layers",
    },
    marker=b" NAME : ",
)

#: NeMo AutoModel's benchmark, once before its loop.
_AUTOMODEL = _printed(b"GA steps: ", rb"\bNAME: VALUE(?= {0,8}$)", {"Global batch size": "global_batch_size"})

#: What the programs print that write the logs of a format, the most certain first.
PRINTED: Mapping[str, tuple[Printed, ...]] = MappingProxyType(
    {
        "megatron": (_MEGATRON, _PRIMUS, _YAML, _OPTIMIZER, _DATASET, _DEEPSPEED),
        "nemo": (_DLL, _MLLOG, _YAML, _OPTIMIZER, _DATASET),
        "maxtext": (_MAXTEXT,),
        "paxml": (_FIDDLE,),
        "torchtitan": (_TITAN_TRAINER, _TITAN_MESH, _TITAN_MODEL, _TITAN_FLOAT8),
        "automodel": (_AUTOMODEL,),
        "composer": (_FOUNDRY, _FOUNDRY_PRECISION),
        "huggingface": (_TRAINER, _TRAINING_ARGUMENTS, _DEEPSPEED),
        "deepspeed": (_MEGATRON, _DEEPSPEED),
    }
)

_PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("bf16", "bfloat16", "bf16-mixed", "bf16_mixed", "bf16-true"), "bf16"),
        **dict.fromkeys(("16", "fp16", "float16", "half", "16-mixed", "16-true", "fp16-mixed"), "fp16"),
        **dict.fromkeys(("32", "fp32", "float32", "float", "32-true"), "fp32"),
    }
)
_NOTHING = frozenset({"", "none", "null", "false"})


def number_of(value: bytes) -> int | None:
    """A whole number above 0, ``1,024`` as well; ``None`` for others, such as -1 and ``null``."""
    digits = value.replace(b",", b"")
    return int(digits) or None if digits.isdigit() and len(digits) < 13 else None


def precision_of(value: bytes) -> str | None:
    """``bf16``, ``fp16`` or ``fp32``, however it is written."""
    return _PRECISIONS.get(value.removeprefix(b"torch.").removeprefix(b"dtype[").decode("ascii", "replace").lower())


def quantization_of(value: bytes) -> str:
    """What is quantized to: ``fp8`` where only its kind is named, such as ``hybrid``, ``none`` of a plain precision."""
    word = value.strip(b"'\"").decode("ascii", "replace").lower()
    if word in _NOTHING or word in _PRECISIONS:
        return "none"
    return "fp4" if word == "e2m1" else "fp8" if word in {"true", "hybrid", "e4m3", "e5m2"} else word
