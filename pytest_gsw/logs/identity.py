"""Identity of the run that wrote a log: model, GPUs, job, batch, number of steps, and settings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from pytest_gsw.common.text import shortened
from pytest_gsw.logs.model import DEGREES, Contradiction, Dialect, Identity, StepLog
from pytest_gsw.logs.scan import Record, safe_text

# -- The settings that frameworks print: sequence length, layers, precision, parallelism, batch --
# Each :class:`ConfigPattern` is one way in which settings are printed, with the markers of its lines. A format has the
# patterns of the programs that write its logs, the most certain first: an earlier one takes precedence. Names that only
# look alike are left out on purpose, since a misread setting fails a good run:

# * Megatron's ``encoder_seq_length`` and ``retriever_seq_length``, ``ffn_hidden_size``, ``recompute_num_layers``,
#   ``encoder_tensor_model_parallel_size``;
# * MaxText's ``per_device_batch_size``, a fraction of a batch and no micro-batch, and its ``eval_`` settings;
# * ``world_size`` of DeepSpeed's configuration, which counts data-parallel ranks and no GPUs;
# * NeMo's ``max_steps``, which also occurs in schedules; the number of steps is read from its step lines;
# * torchtitan's ``mixed_precision_param``, which has no effect if only tensors are parallel.


#: A value in a configuration; ``torch.float16`` is one, and so are DeepSpeed's ``dtype[bfloat16]`` and ``4,096``.
_VALUE = rb"(?:torch\.|dtype\[)?-?(?:\d{1,3}(?:,\d{3}){1,3}(?![\w,])|\w{1,40})"


@dataclass(frozen=True)
class ConfigPattern:
    """One way in which a program prints settings."""

    #: A substring of each of its lines; it avoids running the pattern on all others.
    hint: bytes
    #: Markers by which its lines are found.
    markers: Dialect
    #: Finds one setting: a group ``name`` and a group ``value``; of nested ones also a group ``indent``.
    pattern: re.Pattern[bytes]
    #: Setting by the program's name for it; see :data:`PRODUCTS` for those that are factors.
    names: Mapping[bytes, str]
    #: True for a tree, such as YAML: one name may occur at several places in it, and the outermost counts.
    nested: bool = False


#: Settings that are printed as factors.
PRODUCTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **{degree: (f"ici_{degree}", f"dcn_{degree}") for degree in ("tp", "pp", "cp", "ep", "fsdp")},
        "dp": ("dp_replicate", "dp_shard"),
        "layers": ("layer_repeats", "block_layers"),
    }
)


def _pattern(
    hint: bytes,
    pattern: bytes,
    names: Mapping[str, str],
    *,
    marker: bytes = b"",
    value: bytes = _VALUE,
    nested: bool = False,
) -> ConfigPattern:
    """A pattern from templates with ``NAME`` and ``VALUE``; the marker defaults to the hint."""
    # The longest first: an alternative that begins another would hide it.
    words = b"|".join(re.escape(name.encode()) for name in sorted(names, key=len, reverse=True))
    whole = pattern.replace(b"NAME", b"(?P<name>%b)" % words).replace(b"VALUE", b"(?P<value>%b)" % value)
    ours = MappingProxyType({name.encode(): setting for name, setting in names.items()})
    markers = tuple(dict.fromkeys((marker or hint).replace(b"NAME", name) for name in ours))
    return ConfigPattern(hint, markers, re.compile(whole), ours, nested)


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
    **{name: name for name in ("bf16", "fp16", "fp8", "fp4")},
}
#: Megatron-LM's ``_print_args``: ``  seq_length ...................... 2048``; GPT-NeoX adds ``…updated`` to the value.
_MEGATRON = _pattern(
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
_PRIMUS = _pattern(b"known_args[", rb"\bknown_args\[NAME\] = VALUE", _MEGATRON_NAMES)
#: NeMo 1's configuration (OmegaConf), and Megatron-Bridge's: YAML below a message, each line behind a label or not.
_YAML = _pattern(
    b": ",
    rb"(?:^|[:|\]])(?P<indent> {2,60})NAME: {1,4}['\"]?VALUE['\"]?(?= {0,8}(?:#|$))",
    {**_MEGATRON_NAMES, "encoder_seq_length": "sequence_length", "precision": "precision"},
    value=rb"[\w-]{1,40}",
    nested=True,
    marker=b" NAME: ",
)
#: Megatron Core's data set and optimizer, which NeMo 2 prints as well.
_DATASET = _pattern(b"DatasetConfig(", rb"DatasetConfig\(.{0,80}?\bNAME=VALUE", {"sequence_length": "sequence_length"})
_OPTIMIZER = _pattern(
    b"OptimizerConfig(", rb"[(\s]NAME=VALUE", {"bf16": "bf16", "fp16": "fp16", "params_dtype": "precision"}
)
#: ``deepspeed/runtime/config.py``: ``[config.py:1013:print]   fp16_enabled ................. True``.
_DEEPSPEED = _pattern(
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
_MLLOG = _pattern(
    b'"max_sequence_length"', rb'"key": "NAME", "value": VALUE', {"max_sequence_length": "sequence_length"}
)
#: DLLogger's parameters of NeMo 1.
_DLL = _pattern(
    b'"cfg/',
    rb'"cfg/NAME": "?VALUE',
    {**_MEGATRON_NAMES, "encoder_seq_length": "sequence_length", "precision": "precision"},
    value=rb"[\w-]{1,40}",
)
_MAXTEXT_DEGREES = {"fsdp": "fsdp", "tensor": "tp", "pipeline": "pp", "context": "cp", "expert": "ep"}
#: ``pyconfig.py``: ``Config param max_target_length: 2048``; -1 is a value that MaxText computes itself.
_MAXTEXT = _pattern(
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
            for ours, short in _MAXTEXT_DEGREES.items()
        },
    },
    value=rb"['\"]?[\w-]{0,40}['\"]?",
    marker=b"Config param NAME: ",
)
#: "Trainer is initialized with local batch size 2, global batch size 16, …, sequence length 2048, total steps 10 (…".
_TITAN_TRAINER = _pattern(
    b"total steps ",
    rb"\bNAME VALUE(?=, )",
    {
        "sequence length": "sequence_length",
        "local batch size": "micro_batch_size",
        "global batch size": "global_batch_size",
    },
)
_TITAN_MESH = _pattern(
    b"device mesh with parallelism: ",
    rb"[\s,]NAME=VALUE",
    {"tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "dp_replicate": "dp_replicate", "dp_shard": "dp_shard"},
)
_TITAN_MODEL = _pattern(b"ModelArgs(", rb"[(\s]NAME=VALUE", {"n_layers": "layers", "dim": "hidden_size"})
_TITAN_FLOAT8 = _pattern(
    b"Float8 ", rb"\bNAME (?:\w{1,20} ){0,2}training VALUE", {"Float8": "is_fp8"}, value=rb"active"
)
_FOUNDRY_LINE = rb"(?:^|:)(?P<indent> {0,60})NAME: {1,4}(?:amp_)?VALUE(?= {0,8}$)"
#: LLM Foundry's configuration, as YAML; settings nested in ``model`` count if there is none further out.
_FOUNDRY = _pattern(
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
#: Its one word for both: ``amp_bf16`` means no FP8, ``amp_fp8`` means FP8.
_FOUNDRY_PRECISION = _pattern(b"precision: ", _FOUNDRY_LINE, {"precision": "quantization"}, nested=True)
#: Hugging Face Trainer: its banner, and its arguments, of which only enabled switches give the precision.
_TRAINER = _pattern(
    b"Instantaneous batch size per device = ",
    rb"\bNAME = VALUE",
    {"Instantaneous batch size per device": "micro_batch_size"},
    value=rb"\d[\d,]{0,14}",
)
_TRAINING_ARGUMENTS = _pattern(
    b"16=True,", rb"(?<!\w)NAME=VALUE,", {"bf16": "is_bf16", "fp16": "is_fp16"}, value=rb"True", marker=b"NAME=True,"
)
#: Fiddle's configuration: ``train.py:189]   model.lm_tpl.model_dims : 12288``.
_FIDDLE = _pattern(
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
_AUTOMODEL = _pattern(b"GA steps: ", rb"\bNAME: VALUE(?= {0,8}$)", {"Global batch size": "global_batch_size"})

#: Nanotron, once before its loop.
_NANOTRON = _pattern(
    b"[Start training] ",
    rb"\bNAME: VALUE \|",
    {"global_batch_size": "global_batch_size", "sequence_length": "sequence_length", "mbs": "micro_batch_size"},
)

#: The patterns of the programs that write the logs of a format, the most certain first.
PRINTED: Mapping[str, tuple[ConfigPattern, ...]] = MappingProxyType(
    {
        "megatron": (_MEGATRON, _PRIMUS, _YAML, _OPTIMIZER, _DATASET, _DEEPSPEED),
        "nemo": (_DLL, _MLLOG, _YAML, _OPTIMIZER, _DATASET),
        "mllog": (_MLLOG,),
        "maxtext": (_MAXTEXT,),
        "paxml": (_FIDDLE,),
        "torchtitan": (_TITAN_TRAINER, _TITAN_MESH, _TITAN_MODEL, _TITAN_FLOAT8),
        "automodel": (_AUTOMODEL,),
        "composer": (_FOUNDRY, _FOUNDRY_PRECISION),
        "nanotron": (_NANOTRON,),
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
    """``bf16``, ``fp16`` or ``fp32``, in any notation; ``None`` for others."""
    return _PRECISIONS.get(value.removeprefix(b"torch.").removeprefix(b"dtype[").decode("ascii", "replace").lower())


def quantization_of(value: bytes) -> str:
    """The quantization: ``fp8`` if only its kind is named, such as ``hybrid``; ``none`` for a plain precision."""
    word = value.strip(b"'\"").decode("ascii", "replace").lower()
    if word in _NOTHING or word in _PRECISIONS:
        return "none"
    return "fp4" if word == "e2m1" else "fp8" if word in {"true", "hybrid", "e4m3", "e5m2"} else word


# -- The identity lines of a recipe's ranks: ``GSW: MODEL=… DTYPE=… JOB_ID=…`` (v24.11 to v25.04) --


#: The marker of such a line.
RECIPE_MARKER = b"GSW: MODEL="
_RECIPE = re.compile(rb"\bGSW: (MODEL=.{1,4000})")
_FIELD = re.compile(rb"\b([A-Z][A-Z_]{1,40})=('[^']{0,400}'|[^\s']{0,400})")
_SHOWN_CHARACTERS = 120

#: Whole numbers of a line, by its names; the later ones are in recipes that add them.
NUMBERS = {
    "SEQ_LEN": "sequence_length",
    "GBS": "global_batch_size",
    "MBS": "micro_batch_size",
    "NUM_LAYERS": "layers",
    **{name.upper(): name for name in ("tp", "pp", "cp", "ep", "dp")},
}
_TEXTS = {
    "FRAMEWORK": "framework",
    "MODEL": "model",
    "MODEL_SIZE": "size",
    "DTYPE": "dtype",
    "JOB_ID": "job_id",
    "GSW_VERSION": "release",
    "IMAGE": "image",
}
_GPU_COUNTS = ("JOB_NUM_NODES", "GPUS_PER_NODE")
#: The field of an identity, by the line's name for it.
_OURS = {**_TEXTS, **NUMBERS, **dict.fromkeys(_GPU_COUNTS, "gpus")}
_LINE_NAMES = frozenset(name.encode() for name in _OURS)


class RecipeLine(NamedTuple):
    """The values of one line, by its own names, safe to display."""

    values: Mapping[str, str]
    #: Name of the value at the end of the line, which is incomplete in a torn line.
    last: str


class _Value(NamedTuple):
    """A value, and the last line that has it."""

    value: str
    offset: int
    #: True if the line ends with it.
    is_last: bool


def recipe_line(record: bytes) -> RecipeLine | None:
    """A recipe's own line; ``None`` for others, and for the command that prints it."""
    if RECIPE_MARKER not in record:
        return None
    line = _RECIPE.search(record)
    return None if line is None else _parse_line(line[1])


@lru_cache(maxsize=64)
def _parse_line(line: bytes) -> RecipeLine | None:
    """Parse a line; thousands of ranks print the same one. A ``$`` marks quoted code, which is skipped."""
    values, last = {}, ""
    for pair in _FIELD.finditer(line):
        if pair[1] in _LINE_NAMES:
            name = pair[1].decode()
            values[name] = shortened(safe_text(pair[2].strip(b"'\"")), _SHOWN_CHARACTERS)
            last = name if not line[pair.end() :].strip() else ""
    if any("$" in value for value in values.values()):
        return None
    return RecipeLine({name: value for name, value in values.items() if value}, last)


class RecipeLines:
    """The lines before the first step of a run. If two differ, the last counts."""

    def __init__(self) -> None:
        #: The newest two that contradict each other: earlier ones do not matter if Slurm requeued the job there.
        self.contradiction: Contradiction | None = None
        self._newest: RecipeLine | None = None
        self._offset = 0
        #: The values of the lines before the newest one.
        self._before: dict[str, _Value] = {}

    def feed(self, offset: int, line: RecipeLine) -> None:
        """Read the next line."""
        # All ranks print the same line, as a rule, which is then the same object.
        if self._newest is not None and line is not self._newest:
            self._before = self._merge(self._newest)
            found = [one for name in line.values if (one := self._find_contradiction(name, line, offset)) is not None]
            self.contradiction = max(found, key=lambda one: one.first_at, default=self.contradiction)
        self._newest, self._offset = line, offset

    def stated(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The known values from all lines by our names, and the place of each."""
        merged = {} if self._newest is None else self._merge(self._newest)
        values: dict[str, Any] = {"gpus": _gpu_count(merged)}
        for name, entry in merged.items():
            if name not in _GPU_COUNTS:
                values[_OURS[name]] = number_of(entry.value.encode()) if name in NUMBERS else entry.value
        known = {name: value for name, value in values.items() if value is not None}
        return known, {_OURS[name]: entry.offset for name, entry in merged.items() if _OURS[name] in known}

    def _merge(self, newest: RecipeLine) -> dict[str, _Value]:
        """The values of all lines; a value that is cut in a torn line is taken from another."""
        values = {name: _Value(value, self._offset, name == newest.last) for name, value in newest.values.items()}
        if not self._before:
            return values
        torn = {newest.last} if self._is_torn(newest) else set()
        return {**self._before, **{name: entry for name, entry in values.items() if name not in torn}}

    def _is_torn(self, line: RecipeLine) -> bool:
        """True if the line ends within a value that another line has whole."""
        before, value = self._before.get(line.last), line.values.get(line.last)
        return before is not None and value != before.value and before.value.startswith(value or "")

    def _find_contradiction(self, name: str, line: RecipeLine, offset: int) -> Contradiction | None:
        before, value = self._before.get(name), line.values[name]
        if before is None or _without_folder(value) == _without_folder(before.value):
            return None
        if (name == line.last and self._is_torn(line)) or (before.is_last and value.startswith(before.value)):
            return None
        return Contradiction(name, before.value, value, before.offset, offset)


def _without_folder(value: str) -> str:
    """A value without its folder: one image is a file at different paths."""
    return value.rpartition("/")[2].lower()


def _gpu_count(values: Mapping[str, _Value]) -> int | None:
    nodes, each = (values[name].value if name in values else "" for name in _GPU_COUNTS)
    digits = (nodes + each).isascii() and nodes.isdigit() and each.isdigit() and len(nodes + each) < 16
    return int(nodes) * int(each) if digits else None


#: Two values of one name at a smaller distance belong to one configuration and not to two runs.
_ONE_CONFIGURATION_BYTES = 1 << 13


class _Fact(NamedTuple):
    """A number in a line, and the marker by which the line is found."""

    marker: bytes
    pattern: re.Pattern[bytes]


def _fact(marker: str, pattern: str) -> _Fact:
    return _Fact(marker.encode(), re.compile(pattern.encode()))


#: Samples in a step; the first pattern with a match counts.
_GLOBAL_BATCH = (
    _fact("Total train batch size", r"Total train batch size \([^)]{1,80}\) = (\d[\d,]{0,14})"),  # HF Trainer
    _fact("global_batch_size", r"(?<![\w-])global_batch_size \.{1,80} (\d{1,12})\b"),  # Megatron's arguments
    # NeMo's and MaxText's configuration, DLLogger, MLPerf.
    _fact(
        "global_batch_size",
        r"(?<![\w-])global_batch_size(?:_to_train_on)?[\"']?(?:, \"value\")? ?: {0,4}(\d{1,12})\b(?!\.)",
    ),
    _fact("train_batch_size", r"\bconfig\.py:\d{1,5}:print\] {1,8}train_batch_size \.{1,40} (\d{1,12})\b"),  # DeepSpeed
)
_GPUS = (
    _fact("using world size: ", r"using world size: (\d{1,8})\b"),  # Megatron
    _fact("Starting with ", r"All distributed processes registered\. Starting with (\d{1,8}) processes"),  # Lightning
)
_TOTAL_STEPS = (
    _fact("Total optimization steps", r"Total optimization steps = (\d[\d,]{0,14})"),  # HF Trainer
    _fact("Config param steps: ", r"\bConfig param steps: (\d{1,12})\s{0,8}$"),  # MaxText's configuration
    _fact("train_iters: ", r"\btrain_iters: (\d{1,12})\s{0,8}$"),  # Megatron-Bridge's configuration
    _fact("total steps ", r", total steps (\d{1,12}) \(warmup "),  # torchtitan
)

_MARKERS: tuple[bytes, ...] = (
    RECIPE_MARKER,
    *dict.fromkeys(fact.marker for fact in (*_GLOBAL_BATCH, *_GPUS, *_TOTAL_STEPS)),
)


@cache
def identity_markers(format_name: str) -> Dialect:
    """Markers of the lines that state identity and settings in logs of a format."""
    return tuple(dict.fromkeys((*_MARKERS, *(m for printed in PRINTED.get(format_name, ()) for m in printed.markers))))


class _Setting(NamedTuple):
    """A setting at one place in the log."""

    value: bytes
    offset: int
    #: The indentation, and the text before it: the outermost of a tree counts.
    indent: int = 0
    before: bytes = b""


@dataclass
class _Settings:
    """The settings of one way of printing, by our names."""

    printed: ConfigPattern
    by_name: dict[str, list[_Setting]] = field(default_factory=dict)

    def read(self, offset: int, record: bytes) -> None:
        """Read the settings of a line."""
        if self.printed.hint not in record:
            return
        for match in self.printed.pattern.finditer(record):
            name = self.printed.names[match["name"]]
            if self.printed.nested:
                setting = _Setting(match["value"], offset, len(match["indent"]), record[: match.start("indent")])
                self.by_name.setdefault(name, []).append(setting)
            else:
                self.by_name[name] = [_Setting(match["value"], offset)]  # if a file holds several runs, the last counts

    def is_torn(self, name: str) -> bool:
        """True if one configuration has different values of a setting."""
        return name in self.by_name and self.get(name) is None

    def get(self, name: str) -> _Setting | None:
        """The valid value of a setting; ``None`` also if one configuration has two different ones."""
        settings = self.by_name.get(name)
        if not settings or not self.printed.nested:
            return settings[-1] if settings else None
        # A configuration may be shown before it is filled in: by the file's own lines, which have a frame.
        own = [setting for setting in settings if setting.before == settings[-1].before]
        outermost = min(setting.indent for setting in own)
        last, *earlier = reversed([setting for setting in own if setting.indent == outermost])
        near = (setting for setting in earlier if last.offset - setting.offset < _ONE_CONFIGURATION_BYTES)
        return None if any(setting.value != last.value for setting in near) else last


def with_identity(log: StepLog, records: Iterable[Record], lines: RecipeLines | None = None) -> StepLog:
    """The log with the identity that its records state; if they differ, the last counts.

    Values from step lines, and those that the format has filled in, take precedence.

    Args:
        log: The log, whose format selects the patterns of its lines.
        records: Lines with their byte offsets.
        lines: The recipe's own lines of the run; ``None`` if the records hold them.
    """
    own = RecipeLines()
    numbers: dict[_Fact, tuple[int, int]] = {}
    settings = [_Settings(printed) for printed in PRINTED.get(log.format, ())]
    for offset, record in records:
        if lines is None and (line := recipe_line(record)) is not None:
            own.feed(offset, line)
        for fact in (*_GLOBAL_BATCH, *_GPUS, *_TOTAL_STEPS):
            if fact.marker in record:
                for match in fact.pattern.finditer(record):
                    numbers[fact] = int(match[1].replace(b",", b"")), offset
        for settings_group in settings:
            settings_group.read(offset, record)
    known, places = (lines or own).stated()
    stated = dict(_iterate_settings(settings))
    for name, alternatives in (("global_batch_size", _GLOBAL_BATCH), ("gpus", _GPUS)):
        number = _first(numbers, alternatives)
        if number is not None and not any(settings_group.is_torn(name) for settings_group in settings):
            stated.setdefault(name, number)
    # The recipe's line has the requested value; the framework's own line has the one that ran.
    requested = {name: known[name] for name, (value, _) in stated.items() if known.get(name, value) != value}
    for name, (value, offset) in stated.items():
        known[name], places[name] = value, offset
    for name, value in log.identity.stated.items():
        known[name] = value
        places.pop(name, None)
    total = _first(numbers, _TOTAL_STEPS)
    total_steps = log.total_steps if log.total_steps is not None or total is None else total[0]
    places |= log.identity.places
    more = {"settings": log.identity.settings, "remarks": log.identity.remarks}
    identity = Identity.of(known, requested=requested, places=places, **more)
    return replace(log, identity=identity, total_steps=total_steps)


def _first(numbers: dict[_Fact, tuple[int, int]], facts: tuple[_Fact, ...]) -> tuple[int, int] | None:
    return next((numbers[fact] for fact in facts if fact in numbers), None)


_NUMBERS = (
    *("sequence_length", "global_batch_size", "micro_batch_size", "layers", "hidden_size"),
    *DEGREES,
)


def _iterate_settings(settings: Iterable[_Settings]) -> Iterator[tuple[str, tuple[int | str, int]]]:
    """The settings with the offset of their line, each from the most certain source."""
    seen: set[str] = set()
    for settings_group in settings:
        if not settings_group.by_name:
            continue
        values: dict[str, tuple[int | str, int] | None] = {name: _number(settings_group, name) for name in _NUMBERS}
        encoder = settings_group.get("encoder_tp")
        if encoder is not None and number_of(encoder.value) is not None:
            values["dp"] = None  # such an encoder has its own ranks, which data_parallel_size does not count
        values |= {"precision": _precision(settings_group), "quantization": _quantization(settings_group)}
        for name, value in values.items():
            if value is not None and name not in seen:
                seen.add(name)
                yield name, value


def _number(settings: _Settings, name: str) -> tuple[int, int] | None:
    """A setting, or the product of its factors, all of which must be present."""
    setting = settings.get(name)
    factors = [setting] if setting is not None else [settings.get(factor) for factor in PRODUCTS.get(name, ())]
    values = [None if factor is None else number_of(factor.value) for factor in factors]
    integers = [value for value in values if value is not None]
    if not integers or len(integers) < len(values) or factors[0] is None:
        return None
    return math.prod(integers), factors[0].offset


def _precision(settings: _Settings) -> tuple[str, int] | None:
    """``bf16``, ``fp16`` or ``fp32``: by name, else by the switches of the two if both are present."""
    named = settings.get("precision")
    precision = None if named is None else precision_of(named.value)
    if named is not None and precision is not None:
        return precision, named.offset
    for precision in ("bf16", "fp16"):
        for switch in (settings.get(precision), settings.get(f"is_{precision}")):
            if switch is not None and switch.value.lower() == b"true":
                return precision, switch.offset
    switches = [settings.get(precision) for precision in ("bf16", "fp16")]
    off = [switch for switch in switches if switch is not None and switch.value.lower() == b"false"]
    return ("fp32", off[0].offset) if len(off) == len(switches) and named is None else None


def _quantization(settings: _Settings) -> tuple[str, int] | None:
    """Quantization below the precision: ``none``, ``fp8``, ``int8`` and the like."""
    active, smaller = settings.get("is_fp8"), settings.get("fp4")
    if active is not None:
        return "fp8", active.offset
    if smaller is not None and quantization_of(smaller.value) != "none":
        return quantization_of(smaller.value), smaller.offset
    setting = settings.get("fp8") or settings.get("quantization")
    return None if setting is None else (quantization_of(setting.value), setting.offset)
