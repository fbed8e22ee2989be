"""What the headers and the row labels of tables mean: words of documents become keys of a row."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ACCELERATORS = (
    r"GB300|GB200|GH200|B300|B200|H200|H100|H20|A100|A40|L40S|V100|P100|MI355X|MI325X|MI300X|MI250X|TPU[ -]?v[0-9]\w?"
)
#: An accelerator, with its memory where that tells two kinds apart.
ACCELERATOR = re.compile(
    rf"(?<![A-Za-z0-9])(?P<name>{_ACCELERATORS})(?:[-_ ]?(?P<memory>[0-9]{{2,3}})[ ]?GB?)?s?(?![A-Za-z0-9])",
    re.IGNORECASE,
)
DTYPE = re.compile(
    r"(?<![A-Za-z0-9])(NVFP4|MXFP8|MXFP4|FP8|BF16|FP16|FP32|TF32|FP4|INT8)(?:[-_ ]?(CS|DS|MX|SC))?(?![A-Za-z0-9])",
    re.IGNORECASE,
)

#: A column's GPU count: "128x H100 GPUs", "256 H100 GPUs", "64 GPUs", "8x H100". Not the 16 of "BF16 H100".
GPU_COUNT = re.compile(
    r"(?<![A-Za-z0-9.,_-])(?P<gpus>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,7})(?:"
    rf"[ ]?[xX\u00d7*][ ]?(?P<kind>{_ACCELERATORS})?(?:[ ]?GPUs?)?|"
    rf"[ ]?(?P<kind2>{_ACCELERATORS})?[ -]?GPUs?"
    r")(?![A-Za-z0-9])",
    re.IGNORECASE | re.ASCII,
)
#: A column's node count: "16 nodes", "16x DGX nodes".
NODE_COUNT = re.compile(
    r"(?<![A-Za-z0-9.,_-])(?P<nodes>[0-9]{1,6})[ ]?x?[ ](?:DGX[ ]|HGX[ ])?nodes?(?![A-Za-z0-9])", re.IGNORECASE
)


@dataclass(frozen=True)
class Label:
    """What a header or a row label stands for."""

    #: A key of a row, ``nodes``, ``checkpoint_or_step_time_s``, or nothing where it is a column of the document's own.
    key: str
    #: The unit that it says, such as ``ms``, or nothing.
    unit: str = ""


#: Figures: what a table must have to be a baseline.
FIGURES = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "mfu",
    "days_to_train_1t_tokens",
    "tflops_per_gpu",
    "checkpoint_save_time_s",
)
#: Figures that a verdict can rest on.
JUDGED = frozenset({"step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s", "checkpoint_save_time_s"})

_UNIT = r"(?P<unit>s|sec|secs|seconds?|ms|msecs?|milliseconds?|us|usec)"
_TIME = r"(?:train(?:ing)? )?(?:step|iteration|iter|batch)(?: train(?:ing)?)? (?:time|timing|duration|latency)"
#: In this order, the first that fits: patterns over the label in lower case, its punctuation made blanks.
_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"(?:time|days) to train(?: (?:on )?1 ?t(?:rillion)?(?: tokens)?)?(?: in)?(?: days)?", "days_to_train_1t_tokens"),
    (r"(?:training )?days(?: for 1t tokens)?", "days_to_train_1t_tokens"),
    (r"(?:model flops? utili[sz]ation|mfu)(?: mfu)?(?: in)?(?: percent)?", "mfu"),
    (
        (
            r"(?:achieved )?(?:model )?t ?flops?(?: s)?(?: per (?:gpu|device))?(?: gpu| device)?"
            r"(?: (?:per )?s(?:ec(?:ond)?)?)?"
        ),
        "tflops_per_gpu",
    ),
    (r"(?:achieved )?(?:model )?t ?flops? (?:per )?(?:(?:s|sec|second) )?(?:per )?(?:gpu|device)", "tflops_per_gpu"),
    (
        r"(?:train(?:ing)? )?(?:throughput )?(?:in )?(?:tokens?|tok) (?:per )?(?:s|sec|second) (?:per )?(?:gpu|device)",
        "tokens_per_s_per_gpu",
    ),
    (
        r"(?:throughput )?(?:in )?(?:tokens?|tok) (?:per )?(?:gpu|device) (?:per )?(?:s|sec|second)",
        "tokens_per_s_per_gpu",
    ),
    (r"throughput (?:per gpu tokens? s|t s gpu)", "tokens_per_s_per_gpu"),
    (r"throughput t s", "tokens_per_s"),
    (r"throughput s s", "samples_per_s"),
    (
        r"(?:train(?:ing)? )?(?:throughput )?(?:in )?(?:total )?(?:tokens?|tok) (?:per )?(?:s|sec|second)",
        "tokens_per_s",
    ),
    (r"(?:train(?:ing)? )?(?:throughput )?(?:in )?(?:samples?|sequences?) (?:per )?(?:s|sec|second)", "samples_per_s"),
    (r"global (?:train(?:ing)? )?throughput (?:in )?tokens? (?:per )?(?:s|sec|second)", "tokens_per_s"),
    (
        (
            rf"(?:mean |average |avg |median )?{_TIME}(?: mean| avg)?(?: in)?(?: {_UNIT})?"
            r"(?: per (?:training )?(?:step|iteration|iter))?"
        ),
        "step_time_s",
    ),
    (
        (
            rf"(?:{_UNIT}|time) (?:per )?(?:training )?(?:step|iteration|iter|it)(?: in)?"
            r"(?: (?P<unit2>s|sec|seconds?|ms))?"
        ),
        "step_time_s",
    ),
    (r"speed", "step_time_s"),
    (rf"(?:save )?checkpoint (?:save )?(?:time|speed)(?: {_UNIT})?", "checkpoint_save_time_s"),
    (rf"time {_UNIT}", "time_s"),
    (r"(?:number of |num |no |total |job total )?gpus?(?: count)?|gpu count|scale gpus|scale", "gpus"),
    (r"(?:number of |num |no )?nodes?(?: count)?", "nodes"),
    (r"(?:model )?size|m ?size|parameters?|params", "size"),
    (r"model(?: name)?|workload|recipe", "model"),
    (r"precision|d ?type|data type|numerical precision", "dtype"),
    (r"gpu type|accelerator|gpu model|hardware|device|system", "accelerator"),
    (r"framework", "framework"),
    (
        r"seq(?:uence)? ?len(?:gth)?(?: t| tokens)?|seq|sl|max seq(?:uence)? len(?:gth)?|context length",
        "sequence_length",
    ),
    (r"(?:number of |num |n )?layers", "layers"),
    (r"tp(?: size)?|tensor parallel(?:ism)?(?: size)?(?: tp)?", "tp"),
    (r"pp(?: size)?|pipeline parallel(?:ism)?(?: size)?(?: pp)?", "pp"),
    (r"cp(?: size)?|context parallel(?:ism)?(?: size)?(?: cp)?", "cp"),
    (r"ep(?: size)?|expert parallel(?:ism)?(?: size)?(?: ep)?", "ep"),
    (r"dp(?: size)?|data parallel(?:ism)?(?: size)?(?: dp)?", "dp"),
    (r"vp(?:p)?(?: size)?|virtual pipeline(?: stages| parallel(?:ism)?)?", "vp"),
    (r"fsdp(?: size)?", "fsdp"),
    (r"mbs|mic(?:ro)? ?bs|micro ?batch(?: ?size)?|micro batch size mbs", "micro_batch_size"),
    (r"gbs|glob(?:al)? ?bs|global ?batch(?: ?size)?|global batch size gbs", "global_batch_size"),
    (
        r"ga|gas|grad(?:ient)? acc(?:um(?:ulation)?)?(?: steps)?|accumulation steps|pp chunks",
        "gradient_accumulation_steps",
    ),
    (r"notes?|comments?|remarks?|date", "notes"),
)
_COMPILED = tuple((re.compile(pattern), key) for pattern, key in _PATTERNS)

#: Keys that say how a run was configured; a table of these and GPU counts alone is joined to the others.
CONFIGURATION = frozenset(
    {
        *("sequence_length", "layers", "tp", "pp", "cp", "ep", "dp", "vp", "fsdp"),
        *("micro_batch_size", "global_batch_size", "gradient_accumulation_steps"),
    }
)


def read_label(text: str) -> Label | None:
    """What a label means, or ``None`` where it is no word of this vocabulary."""
    if len(text) > 120:
        return None
    words = re.sub(
        r"[^a-z0-9]+", " ", _apart(text).lower().replace("#", " number of ").replace("%", " percent ")
    ).strip()
    words = re.sub(r"^number of number of ", "number of ", words)
    for pattern, key in _COMPILED:
        match = pattern.fullmatch(words)
        if match is not None:
            groups = match.groupdict()
            unit = groups.get("unit") or groups.get("unit2") or ""
            if key == "mfu":
                return Label(key, "%" if "percent" in words else "")
            return Label(key, "ms" if unit.startswith("m") else "us" if unit.startswith("u") else "s" if unit else "")
    return None


def _apart(text: str) -> str:
    """``MicroBatchSize`` as three words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)


def attribute_name(text: str) -> str:
    """The name of a column that has no key of its own: ``gpu_m`` of ``GPU M``."""
    name = re.sub(r"[^a-z0-9]+", "_", _apart(text).lower()).strip("_")[:40]
    return name if name and not name[0].isdigit() else f"column_{name}".rstrip("_")


def gpu_count(text: str) -> tuple[int, str | None] | None:
    """GPUs, and their kind where it is said, in a column's header; ``None`` where it has no GPU count."""
    match = GPU_COUNT.search(text)
    if match is None:
        return None
    gpus = int(match["gpus"].replace(",", ""))
    kind = match["kind"] or match["kind2"]
    return (gpus, accelerator(kind) if kind else None) if gpus else None


#: Sold with two sizes of memory, at different speeds.
_WITH_MEMORY = frozenset({"V100", "A100"})


def accelerator(text: str) -> str | None:
    """The accelerator that a text names: ``H100``, ``V100-32GB``."""
    match = ACCELERATOR.search(text)
    if match is None:
        return None
    name = match["name"].upper().replace(" ", "-")
    return f"{name}-{match['memory']}GB" if match["memory"] and name in _WITH_MEMORY else name
