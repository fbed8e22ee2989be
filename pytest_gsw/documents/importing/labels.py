"""What the headers and the row labels of tables mean: words of documents become keys of a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gsw.tables import metrics
from pytest_gsw.tables.accelerators import ACCELERATORS, BY_NAME, Accelerator

_ACCELERATORS = "|".join(one.written or one.name for one in ACCELERATORS if not one.name.endswith("GB"))
#: An accelerator, with its memory where that tells two kinds apart.
ACCELERATOR = re.compile(
    rf"(?:(?<![A-Za-z0-9])|(?<=[0-9][xX]))(?P<name>{_ACCELERATORS})(?:[-_ ]?(?P<memory>[0-9]{{2,3}})[ ]?GB?)?s?"
    r"(?![A-Za-z0-9])",
    re.IGNORECASE,
)
DTYPE = re.compile(
    r"(?<![A-Za-z0-9])(NVFP4|MXFP8|MXFP4|FP8|BF16|FP16|FP32|TF32|FP4|INT8)(?:[-_ ]?(CS|DS|MX|SC))?(?![A-Za-z0-9])",
    re.IGNORECASE,
)

_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,7})"
#: No letter, digit, range, fraction or factor before or behind: not the 16 of "BF16 H100", not the 128 of "64/128
#: GPUs", not the 8 of "2 cabinets x 8 GPUs".
_BEFORE = r"(?<![A-Za-z0-9.,_/\u00d7*-])(?<![0-9] [/-] )(?<![xX\u00d7*] )"
_NODES = r"(?:nodes?|servers?|hosts?|machines?|VMs?|instances?|boxes|box)"
_KIND = rf"(?:NVIDIA[ ]?)?(?:DGX[ -]?)?(?:{_ACCELERATORS})(?:[-_ ]?[0-9]{{2,3}}[ ]?GB)?s?"
_TIMES = r"[ ]?[xX\u00d7*][ ]?"
_END = r"(?![A-Za-z0-9])"
#: Nor are GPUs of each node a count of GPUs: "8 GPUs per node", "8 GPUs x 2 nodes".
_ALL = rf"{_END}(?![ ]?(?:/|per[ ]|a[ ]|(?:in |on |for )?each|[xX\u00d7*][ ]?[0-9]))"
_GPUS = rf"(?:{_KIND}[ ]?)?(?:GPUs?|chips)?"
_NODES_BEFORE = rf"{_BEFORE}(?P<a>{_NUMBER})[ -]?{_NODES}"
_ONE_KIND = rf"(?<![A-Za-z0-9])(?<![DH]GX[ -])(?<![0-9][ xX])(?<![0-9][xX][ ])(?!DGX|HGX){_KIND}"
_A_NODE = rf"(?:[ ]?/[ ]?|[ ](?:per|a)[ ]){_NODES}{_END}"
#: What says how many GPUs a column is about, in this order; ``a`` times ``b`` where there are two.
_GPU_COUNTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_NODES_BEFORE}[,;]?[ ](?:with[ ]|of[ ]|and[ ])?(?P<b>[0-9]{{1,2}})[ ]?{_GPUS}{_A_NODE}",
        rf"{_BEFORE}(?P<b>[0-9]{{1,2}})[ ]?{_GPUS}(?:{_A_NODE})?{_TIMES}(?P<a>{_NUMBER})[ -]?{_NODES}{_END}",
        rf"{_NODES_BEFORE}(?:{_TIMES}|[ ](?:of|with)[ ])(?P<b>[0-9]{{1,2}})(?:[ ]?(?:{_KIND}|GPUs?))?{_END}",
        rf"{_BEFORE}(?P<a>{_NUMBER}){_TIMES}(?P<b>[0-9]{{1,2}})[ ]?(?:{_KIND})?[ ]?(?:GPUs?)?(?![A-Za-z0-9x])",
        rf"{_BEFORE}(?P<a>{_NUMBER})(?:{_TIMES}|[ -])(?!DGX|HGX)(?:{_KIND}[ ])?(?:GPUs?|(?:TPU[ ])?chips){_ALL}",
        rf"{_BEFORE}(?P<a>{_NUMBER}){_TIMES}(?!DGX|HGX){_KIND}{_ALL}",
        rf"(?:^|on |with |\()(?P<a>{_NUMBER})[ ](?!DGX|HGX){_KIND}{_ALL}",
        rf"{_ONE_KIND}{_TIMES}(?P<a>{_NUMBER})(?![A-Za-z0-9.])(?![ ]?{_NODES})",
        rf"(?<![A-Za-z0-9])GPUs?[ ]?[:=][ ]?(?P<a>{_NUMBER})(?![A-Za-z0-9.,/-])",
    )
)
#: What says how many nodes: "16 nodes", "2x DGX H100".
_NODE_COUNTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_BEFORE}(?P<a>{_NUMBER})[ -]?x?[ ]?(?:DGX[ ]|HGX[ ])?nodes?{_END}",
        rf"{_BEFORE}(?P<a>{_NUMBER})[ ]?x?[ ]?(?:DGX|HGX){_END}",
    )
)


@dataclass(frozen=True)
class Label:
    """What a header or a row label stands for."""

    #: A key of a row, ``nodes``, or what its table must settle: ``time_s``, ``speed``.
    key: str
    #: The unit that it says, such as ``ms``, ``%`` or ``k`` for thousands, or nothing.
    unit: str = ""


#: Figures: what a table must have to be a baseline.
FIGURES = metrics.DOCUMENTED
#: Figures that a verdict can rest on.
JUDGED = frozenset({metrics.STEP_TIME.key, *metrics.THROUGHPUTS, metrics.SAVE_TIME.key})

_UNIT = r"(?P<unit>s|sec|secs|seconds?|ms|msecs?|milliseconds?|us|usec)"
_TIME = r"(?:train(?:ing)? )?(?:step|iteration|iter|batch)(?: train(?:ing)?)? (?:time|timing|duration|latency)"
_MEAN = r"(?:mean |average |avg |median )?"
_STEP = r"(?:training )?(?:step|iteration|iter)"
_STEPS = r"(?:steps|iterations|iters)"
_UNIT_2 = r"(?P<unit2>s|sec|seconds?|ms)"
_TRAINING = r"(?:train(?:ing)? )?"
_NUMBER_OF = r"(?:number of |num |no |n |total |job total |total number of )?"
_TOKENS = r"(?:(?P<thousands>k ?|kilo ?)?(?:tokens?|tok))"
_PER_S = r"(?:per )?(?:s|sec|second)"
_EACH = r"(?:gpu|device|chip|accelerator)"
_PER_GPU = rf"(?:per )?{_EACH}"
_FLOPS = r"(?:achieved )?(?:model )?t(?:era)? ?flops?"
#: In this order, the first that fits: patterns over the label in lower case, its punctuation made blanks.
_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"time to train (?:on )?1 ?t(?:rillion)?(?: tokens)?(?: in)? days", metrics.DAYS_TO_TRAIN.key),
    (r"(?:training )?days (?:to train|for) (?:on )?1 ?t(?:rillion)?(?: tokens)?", metrics.DAYS_TO_TRAIN.key),
    (r"(?:model flops? utili[sz]ation|mfu)(?: mfu)?(?: in)?(?: percent)?", metrics.MFU.key),
    (
        rf"(?:per {_EACH} )?{_FLOPS}(?: s)?(?: (?:per )?{_EACH})?(?: (?:per )?s(?:ec(?:ond)?)?)?",
        metrics.TFLOPS_PER_GPU.key,
    ),
    (rf"{_FLOPS} (?:per )?(?:(?:s|sec|second) )?{_PER_GPU}", metrics.TFLOPS_PER_GPU.key),
    (rf"{_TRAINING}(?:throughput )?(?:in )?{_TOKENS} {_PER_S} {_PER_GPU}", metrics.TOKENS_PER_S_PER_GPU),
    (rf"(?:throughput )?(?:in )?{_TOKENS} {_PER_GPU} {_PER_S}", metrics.TOKENS_PER_S_PER_GPU),
    (rf"{_TRAINING}(?:throughput )?tps {_PER_GPU}", metrics.TOKENS_PER_S_PER_GPU),
    (rf"(?:throughput per {_EACH}|per {_EACH} throughput) {_TOKENS} {_PER_S}", metrics.TOKENS_PER_S_PER_GPU),
    (r"throughput t s gpu", metrics.TOKENS_PER_S_PER_GPU),
    (r"throughput t s", metrics.TOKENS_PER_S.key),
    (r"throughput s s", metrics.SAMPLES_PER_S.key),
    (rf"{_TRAINING}(?:throughput )?(?:in )?(?:total )?{_TOKENS} {_PER_S}", metrics.TOKENS_PER_S.key),
    (rf"{_TRAINING}(?:throughput )?(?:in )?(?:samples?|sequences?) {_PER_S}", metrics.SAMPLES_PER_S.key),
    (rf"global {_TRAINING}throughput (?:in )?tokens? {_PER_S}", metrics.TOKENS_PER_S.key),
    (rf"{_MEAN}{_TIME}(?: mean| avg)?(?: in)?(?: {_UNIT})?(?: per {_STEP})?", metrics.STEP_TIME.key),
    (
        rf"(?:{_UNIT}|(?:elapsed )?time) (?:per )?(?:{_STEP}|(?:training )?it|batch)(?: in)?(?: {_UNIT_2})?",
        metrics.STEP_TIME.key,
    ),
    (r"speed", "speed"),
    (rf"(?:save )?checkpoint (?:save )?(?:time|speed)(?: {_UNIT})?", metrics.SAVE_TIME.key),
    (rf"time {_UNIT}", "time_s"),
    (r"gpus? (?:per |a )?node", "gpus_per_node"),
    (rf"{_NUMBER_OF}(?:gpus?(?: s)?|chips|devices|accelerators)(?: count| used)?|scale gpus|scale", "gpus"),
    (r"world size(?: gpus)?|nodes (?:x )?gpus(?: (?:per )?node)?", "gpus"),
    (rf"{_NUMBER_OF}(?:nodes?(?: s)?|hosts)(?: count| used)?", "nodes"),
    (r"(?:[a-z]+(?: ?[0-9]+){0,2} )?model size|size|m ?size|parameters?|params", "size"),
    (r"model(?: name)?|workload|recipe", "model"),
    (r"precision|d ?type|data ?type|(?:numerical|training|compute) precision", "dtype"),
    (r"(?:gpu|accelerator|chip) type|accelerator|gpu model|hardware|device|system", "accelerator"),
    (r"framework", "framework"),
    (
        r"(?:max |packed )?seq(?:uence)? ?len(?:gth)?(?: t| tokens)?|seq|sl|(?:context|ctx) len(?:gth)?",
        "sequence_length",
    ),
    (r"(?:number of |num |n )?layers", "layers"),
    *(
        (rf"{key}(?: size| degree)?|{word} (?:model )?(?:parallel(?:ism)?|mp)(?: size| degree)?(?: {key})?", key)
        for key, word in (("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert"), ("dp", "data"))
    ),
    (r"vp(?:p)?(?: size)?|virtual pipeline(?: stages| parallel(?:ism)?)?", "vp"),
    (r"fsdp(?: size)?", "fsdp"),
    (r"mbs|mic(?:ro)? ?bs|micro ?batch(?: ?size)?(?: mbs| s| samples)?", "micro_batch_size"),
    (r"gbs|glob(?:al)? ?bs|global ?batch(?: ?size)?(?: gbs| s| samples)?", "global_batch_size"),
    (r"ga|gas|grad(?:ient)? acc(?:um(?:ulation)?)?(?: steps)?|accumulation steps", "gradient_accumulation_steps"),
    (r"pp chunks|(?:number of |num )?micro ?batches", "gradient_accumulation_steps"),
    (rf"(?:steady(?: state)?|measure[dm]\w*|averag(?:ed|ing)|timing) (?:window|{_STEPS}|range|interval)", "statistic"),
    (rf"{_STEPS} (?:measured|averaged|timed)|window (?:of|in) {_STEPS}|statistic", "statistic"),
    (r"notes?|comments?|remarks?|date", "notes"),
)
_COMPILED = tuple((re.compile(pattern), key) for pattern, key in _PATTERNS)

#: Words of columns that hold figures; one that none of the patterns knows must not pass for a setting.
_MEASURED = re.compile(
    r"(?<![a-z])(?:throughput|tokens?|samples?|steps?|iterations?|iters?|times?|duration|rate|speed|t?flops?|mfu|"
    r"utili[sz]ation|latency|ms|sec|seconds|tps|wps|tgs|hfu|[gp]flops?)(?![a-z])",
    re.IGNORECASE,
)
#: Words of tables about inference.
_INFERENCE = re.compile(
    r"(?<![a-z])(?:ttft|tpot|itl|concurrency|decode|prefill|time to first token|inter-token|"
    r"input len|output len|isl|osl|generated tokens|"
    r"(?<!next[ -])(?<!new[ -])(?<!previous[ -])(?<!gpu[ -])generation (?:throughput|speed|latency|tokens))(?![a-z])",
    re.IGNORECASE,
)

#: Words of rows and columns whose figures are no run's: what was hoped for, or is made of other runs.
_NO_RUN = re.compile(
    r"(?<![a-z])(?:peak|theoretical|max|maximum|min|minimum|std|stdev|deviation|p[0-9]{2}|ideal|target|goal|speed-?up|"
    r"relative|projected|projection|simulated|estimated|inference|decode|prefill|serving|delta|diff|difference|ratio|gain|"
    r"improvement|change|vs|versus)(?![a-z])|[\u0394%]",
    re.IGNORECASE,
)
#: Names of rows that are made of others.
_MADE_OF_ROWS = re.compile(
    r"(?:(?:geo(?:metric)? ?)?mean|average|avg\.?|median|total|sum|minimum|maximum|min|max|variance|"
    r"(?:std\.?|standard) ?dev(?:iation|\.)?|stdev|std\.?|difference|diff\.?|delta|\u0394|speed-?up|ratio|"
    r"improvement|gain|change|relative(?: .*)?)(?:[ ]?\(.{0,20}\)|[ ]?%)?:?",
    re.IGNORECASE,
)
_COMPARED = re.compile(r"(?<![a-z])(?:expected|previous|reference|old|before)(?![a-z])", re.IGNORECASE)
_OF_INFERENCE = re.compile(
    r"(?<![a-z])(?:inference|serving|decod(?:e|ing)|prefill|deployment|text generation)(?![a-z])", re.IGNORECASE
)
_OF_TRAINING = re.compile(r"train|tun(?:e|ing)(?![a-z])", re.IGNORECASE)

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
    words = re.sub(r"^number of (?:number )?of ", "number of ", words)
    for pattern, key in _COMPILED:
        match = pattern.fullmatch(words)
        if match is not None:
            groups = match.groupdict()
            unit = groups.get("unit") or groups.get("unit2") or ""
            if key == metrics.MFU.key:
                return Label(key, "%" if "percent" in words else "")
            if groups.get("thousands"):
                return Label(key, "k")
            return Label(key, "ms" if unit.startswith("m") else "us" if unit.startswith("u") else "s" if unit else "")
    return None


#: ``WPS (tokens per second per GPU)``: what a document says of an abbreviation that others use otherwise.
_DEFINED = re.compile(
    r"(?<![A-Za-z/])(?P<name>TPS|WPS|TGS)(?![A-Za-z/])[\"'`*]{0,4}[ ]?"
    r"(?:[(:=,\u2013\u2014-]|is|means|stands for|refers to|denotes)[ ]?"
    r"(?:the |is |number of |throughput in ){0,3}"
    r"(?P<phrase>(?:tokens?|words?)(?:[ ]?/[ ]?|[ ]per[ ])[a-z]{1,6}(?:(?:[ ]?/[ ]?|[ ]per[ ])[a-z]{1,6})?)",
    re.IGNORECASE,
)


def of_one_gpu(text: str) -> frozenset[str]:
    """The abbreviations that a text defines as tokens per second of one GPU and as nothing else, in lower case."""
    found: dict[str, set[str]] = {}
    for match in _DEFINED.finditer(text):
        label = read_label(match["phrase"].lower().replace("word", "token"))
        found.setdefault(match["name"].lower(), set()).add("" if label is None else label.key)
    return frozenset(name for name, keys in found.items() if keys == {metrics.TOKENS_PER_S_PER_GPU})


def is_measured(text: str) -> bool:
    """Whether a label that is no word of this vocabulary is about something measured, such as ``tokens/s/node``."""
    return read_label(text) is None and _MEASURED.search(_apart(text)) is not None


def is_inference(text: str) -> bool:
    """Whether a label is about inference, such as ``TTFT``."""
    return _INFERENCE.search(text) is not None


def is_below_inference(headings: Sequence[str]) -> bool:
    """Whether the nearest heading that names inference or training names inference alone; the outermost comes first."""
    for heading in reversed(headings):
        if _OF_TRAINING.search(heading):
            return False
        if _OF_INFERENCE.search(heading):
            return True
    return False


def is_no_run(text: str) -> bool:
    """Whether what stands above or before figures says that they are no run's: ``Projected``, ``Speedup``."""
    return _NO_RUN.search(text) is not None


def is_compared(text: str) -> bool:
    """Whether figures are what others are compared with, where these stand beside them: ``Expected``, ``Before``."""
    return _COMPARED.search(text) is not None


def is_made_of_rows(text: str) -> bool:
    """Whether a row's name says that it is made of other rows: ``Average``, ``Std. dev.``."""
    return _MADE_OF_ROWS.fullmatch(text.strip()) is not None


def _apart(text: str) -> str:
    """``MicroBatchSize`` as three words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)


def attribute_name(text: str) -> str:
    """The name of a column that has no key of its own: ``gpu_m`` of ``GPU M``."""
    name = re.sub(r"[^a-z0-9]+", "_", _apart(text).lower()).strip("_")[:40]
    return name if name and not name[0].isdigit() else f"column_{name}".rstrip("_")


def gpu_count(text: str) -> int | None:
    """GPUs in a column's header; ``None`` where it has no GPU count, or one that cannot be told."""
    tpus = _slice_of(text)
    return tpus[1] if tpus is not None else _count(text, _GPU_COUNTS)


def node_count(text: str) -> int | None:
    """Nodes in a column's header; ``None`` where it counts none."""
    return None if gpu_count(text) is not None else _count(text, _NODE_COUNTS)


#: ``64 (8 nodes)``: GPUs, and the nodes that they are on.
_ON_NODES = re.compile(
    rf"(?P<gpus>{_NUMBER})(?:[ ]?GPUs?)?[ ]?\([ ]?(?P<nodes>{_NUMBER})[ ]nodes?[ ]?\)", re.IGNORECASE
)
#: ``2x A3 (h100-80gb-8)``: machines, and the GPUs of each.
_MACHINES = re.compile(rf"(?P<a>{_NUMBER})x[ ][A-Za-z0-9 -]{{1,30}}[ ]?\({_KIND}-(?P<b>[0-9]{{1,2}})\)", re.IGNORECASE)


_SLICES = rf"(?:(?P<slices>{_NUMBER})(?:{_TIMES}|[ ]))?"
_SLICE_SIZE = r"-(?P<n>[0-9]{1,5})(?![A-Za-z0-9.-])"
_TPU = r"(?:TPU[ -]?)?v(?:5p|5e|5litepod|6e)|TPU[ -]?v[234]|TPU[ -]?v?7x|Trillium|Ironwood"
#: ``v5p-128``, ``4x v5e-256``: slices of a TPU. ``v4-128`` may be a model's version, unless it is all that is said.
_SLICE = re.compile(rf"(?<![A-Za-z0-9.-]){_SLICES}(?P<kind>{_TPU}){_SLICE_SIZE}", re.IGNORECASE)
_OLDER_SLICE = re.compile(rf"{_SLICES}(?P<kind>v[234]){_SLICE_SIZE}", re.IGNORECASE)


def _slice_of(text: str) -> tuple[Accelerator, int | None] | None:
    """The TPU of a slice, and its chips where its number says how many; ``None`` where a text names no slice."""
    match = _SLICE.search(text) or _OLDER_SLICE.fullmatch(text.strip())
    kind = match and _named(re.sub(r"^v", "TPU v", match["kind"], flags=re.IGNORECASE))
    if match is None or kind is None:
        return None
    size, slices = int(match["n"]), int((match["slices"] or "1").replace(",", ""))
    chips = slices * size // kind.slice_size if kind.slice_size and size % kind.slice_size == 0 else None
    return kind, chips or None


def count_in_cell(text: str) -> dict[str, str]:
    """What a cell counts with the word or the accelerator: ``64xH100``, ``64 (8 nodes)``, ``8 nodes x 8 GPUs``."""
    on_nodes = _ON_NODES.fullmatch(text.strip())
    if on_nodes is not None:
        return {key: on_nodes[key].replace(",", "") for key in ("gpus", "nodes")}
    machines = _MACHINES.fullmatch(text.strip())
    count = gpu_count(text) if machines is None else int(machines["a"].replace(",", "")) * int(machines["b"])
    kind = accelerator(text)
    return {} if not count else {"gpus": str(count), **({"accelerator": kind} if kind else {})}


#: The 3 of "Llama 3 H100 GPUs" counts no GPUs.
_FAMILY_BEFORE = re.compile(r"(?:llama|gpt|grok|nemotron|qwen|gemma|mi[sx]tral|phi|deepseek|v)[ -]?$", re.IGNORECASE)


def _count(text: str, patterns: Iterable[re.Pattern[str]]) -> int | None:
    bare = " ".join(re.sub(r"\([^()]*\)", " ", text[:200]).split())
    for pattern in patterns:
        match = pattern.search(bare)
        if match is not None and not _FAMILY_BEFORE.search(bare[: match.start("a")]):
            times = match.groupdict().get("b")
            return int(match["a"].replace(",", "")) * int(times or 1) or None
    return None


def accelerator(text: str) -> str | None:
    """The accelerator that a text names: ``H100``, ``V100-32GB``; ``None`` where it names none, or several."""
    found = {
        sized if (sized := f"{kind.name}-{match['memory']}GB") in BY_NAME else kind.name
        for match in ACCELERATOR.finditer(text)
        if (kind := _named(match["name"])) is not None
    }
    tpus = _slice_of(text)
    found |= {tpus[0].name} if tpus is not None else set()
    return found.pop() if len(found) == 1 else None


def _named(text: str) -> Accelerator | None:
    """The accelerator of a name as documents write it."""
    return next((one for one in ACCELERATORS if re.fullmatch(one.written or one.name, text, re.IGNORECASE)), None)
