"""What the title of a table says: ``Llama 3.1 405b 24.09 BF16 (TP=8, PP=9)`` is a model, a size, a dtype."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_gsw.documents.importing.labels import ACCELERATOR, DTYPE, accelerator, read_label

#: Words that name a framework, as the baselines name it. "NeMo-Run", "NeMo RL" and their like are others.
FRAMEWORKS: Mapping[str, str] = {
    r"maxtext": "maxtext",
    r"pax(?:ml)?": "paxml",
    r"torch ?titan": "torchtitan",
    r"llm[- ]foundry|mosaicml": "llm-foundry",
    r"hf|hugging ?face": "huggingface",
    r"nemo[- ]?rl": "nemo-rl",
    r"nemo[-_ ]?auto[- ]?model": "automodel",
    r"nemo(?![- ]?(?:run|rl|auto[- ]?model|curator|guardrails|aligner|gym|evaluator|skills|retriever)\b)": "nemo",
    r"deepspeed": "deepspeed",
    r"megatron[- ]bridge|m-?bridge": "megatron-bridge",
    r"megatron(?:-lm|-core| core)?(?![- ]bridge)": "megatron",
}
#: NeMo is written so, or all small in names of files.
_NEMO_THE_FISH = re.compile(r"\bNemo\b(?! (?:[Ff]ramework|[Mm]egatron))")
#: What frameworks are built on, and name beside themselves: "NeMo Megatron", "NeMo Framework, Megatron Bridge".
BENEATH: Mapping[str, frozenset[str]] = {
    "nemo": frozenset({"megatron"}),
    "nemo-rl": frozenset({"nemo", "megatron", "megatron-bridge", "automodel"}),
    "automodel": frozenset({"nemo", "huggingface"}),
    "megatron-bridge": frozenset({"nemo", "megatron"}),
    "deepspeed": frozenset({"megatron"}),
    "huggingface": frozenset({"deepspeed"}),
}

#: A release or container version: 24.09, 25.04.01.
VERSION = re.compile(r"(?<![A-Za-z0-9.])[0-9]{2}\.[0-9]{2}(?:\.[0-9]{1,2})?(?![A-Za-z0-9.])")
_SIZE = re.compile(
    r"(?<![0-9.])(?P<size>[0-9]+x[0-9]+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)[ ]?(?P<unit>[bBmM])"
    r"(?:-(?P<proxy>[Pp]roxy))?(?![A-Za-z0-9])"
)
#: Families of models: words of a heading that begin so name a model.
FAMILIES = re.compile(
    r"(?:llama|gpt|grok|nemotron|mixtral|mistral|deepseek|qwen|gemma|phi|falcon|bloom|opt|palm|mosaicgpt|t5|bert|dbrx|jamba|mamba|"
    r"kimi|glm|olmo|granite|starcoder|gpt-oss|mpt|moonlight|vit|flux|stable)(?![a-z])"
)
#: ``Nemotron_3_5`` is 3.5, ``DeepSeekV3`` is V3 of DeepSeek.
_UNDERSCORED = re.compile(r"(?<=[0-9])_(?=[0-9]{1,2}(?:_|\b))")
_JOINED_VERSION = re.compile(r"(?<=[a-z])(?=V[0-9])")
#: Words of a model's name at most; what has more is a sentence.
_LONGEST_NAME = 4
#: "Table 2:" and "3D" are no words of a model's name.
_NUMBERED = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:table|tab\.)[ ]?[0-9]{1,3}(?:[.:]|(?![0-9.]))|[1-5]-?D(?![A-Za-z0-9]))", re.IGNORECASE
)
_PARENTHESES = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]")
#: A whole number and nothing behind it: not the 8 of "SEQ=8K", nor the 1 of "PP=1-4".
_SETTING = re.compile(
    r"([A-Za-z][A-Za-z _-]{0,30}?)\s*=\s*([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,9}|[Nn]one|NA|n/a)(?=[\s;)\]]|,(?![0-9])|$)"
)
_FRAMEWORK = re.compile("|".join(FRAMEWORKS), re.IGNORECASE)
#: Words of titles that tell nothing of the row.
_FILLERS = frozenset(
    {
        *(
            "a",
            "an",
            "and",
            "the",
            "of",
            "on",
            "for",
            "in",
            "with",
            "at",
            "to",
            "using",
            "dev",
            "nvidia",
            "gpu",
            "gpus",
        ),
        *(
            "training",
            "train",
            "pretrain",
            "pretraining",
            "pre-training",
            "performance",
            "results",
            "expected",
            "throughput",
        ),
        *("baseline", "baselines", "benchmark", "benchmarks", "table", "summary", "metric", "metrics", "precision"),
        *("nvidia", "model", "models", "recipe", "workload", "workloads"),
        *("setting", "settings", "configuration", "configurations", "config", "configs"),
    }
)


@dataclass(frozen=True)
class Title:
    """What a title says; empty where it does not."""

    #: ``llama3.1``, ``grok1``, ``deepseek_v3``.
    model: str = ""
    #: ``405b``.
    size: str = ""
    dtype: str = ""
    accelerator: str = ""
    framework: str = ""
    version: str = ""
    #: It is about a smaller stand-in for the model.
    proxy: bool = False
    #: Further words, such as ``strong-scaling`` or ``finetuning-sft``.
    variant: str = ""
    #: Keys of rows, as in ``(TP=8, MBS=1)``.
    settings: Mapping[str, str] = field(default_factory=dict)


def read_title(text: str) -> Title:
    """The parts of a title."""
    text = _JOINED_VERSION.sub(" ", _UNDERSCORED.sub(".", _NUMBERED.sub(" ", text[:300])))
    inside = " ".join(a or b for a, b in _PARENTHESES.findall(text))
    found = settings(inside if "=" in inside else text)
    bare = _PARENTHESES.sub(" ", text) if inside else text
    bare = _SETTING.sub(" ", bare)
    dtypes = {match[1].lower() for match in DTYPE.finditer(bare)}
    kind = accelerator(bare)
    bare = ACCELERATOR.sub(" ", DTYPE.sub(" ", bare))
    version = VERSION.search(bare)
    bare = VERSION.sub(" ", bare)
    size = _SIZE.search(bare)
    # The 3 of "30B_a3B" are billions of active parameters.
    sizes = {match["size"] for match in _SIZE.finditer(bare) if bare[max(0, match.start() - 1)] not in "aA"}
    before, after = (bare[: size.start()], bare[size.end() :]) if size else (bare, "")
    words = _of_family(_words(before))
    return Title(
        model=_slug(words, first=True) if len(words) <= _LONGEST_NAME else "",
        size=f"{size['size']}{size['unit'].lower()}" if size and len(sizes) == 1 else "",  # of several models, none
        dtype=dtypes.pop() if len(dtypes) == 1 else "",
        accelerator=kind or "",
        framework=framework_of(text) or "",
        version=version[0] if version else "",
        proxy="proxy" in text.lower(),
        variant=_slug(_words(after), first=False) if size and len(sizes) == 1 else "",
        settings=found,
    )


def is_model(name: str) -> bool:
    """Whether a name begins as those of a known family of models."""
    return FAMILIES.match(name) is not None


def same_model(one: str, other: str) -> bool:
    """Whether two names may be of one model: "llama" is any Llama, "nemotron" the "nemotron4" of the same text."""
    return one.startswith(other) or other.startswith(one)


def settings(text: str) -> dict[str, str]:
    """``TP=8, GBS=128`` as keys of a row; what says none (``VP=None``) is left out, and what is no key of a row too."""
    found: dict[str, str] = {}
    for name, value in _SETTING.findall(text):
        label = read_label(name.strip()) or read_label(name.split()[-1])
        number = value.replace(",", "")
        if label is not None and number.isdigit() and int(number) > 0:
            found.setdefault(label.key, number)
    return found


def frameworks_in(text: str) -> frozenset[str]:
    """The frameworks that a text names, without those that another one of them is built on."""
    lowered = _NEMO_THE_FISH.sub(" ", text).lower()
    words = {name: rf"(?<![a-z0-9/.])(?:{word})(?![a-z0-9/])" for word, name in FRAMEWORKS.items()}
    found = {name for name, word in words.items() if re.search(word, lowered)}
    return frozenset(found - {name for one in found for name in BENEATH.get(one, ())})


def framework_of(text: str) -> str | None:
    """The framework that a text names, ``None`` where it names none, or several."""
    found = frameworks_in(text)
    return next(iter(found)) if len(found) == 1 else None


def _words(text: str) -> list[str]:
    words = re.findall(r"[A-Za-z0-9][A-Za-z0-9.]*(?:-[A-Za-z0-9]+)*", text)
    return [w for w in words if w.lower() not in _FILLERS and _FRAMEWORK.fullmatch(w) is None and w.lower() != "proxy"]


def _of_family(words: list[str]) -> list[str]:
    """The words of a name, from that of a known family on: "Finding Llama 2" is about Llama 2."""
    begins = next((n for n, word in enumerate(words) if is_model(word.lower())), 0)
    return words[begins - 1 :] if begins and words[begins - 1].lower() == "code" else words[begins:]


def _slug(words: list[str], *, first: bool) -> str:
    """Words as a name: ``Grok 1`` is grok1, ``Deepseek V3`` deepseek_v3; as a variant, ``strong-scaling``."""
    name = ""
    for word in words:
        lowered = word.lower().rstrip(".")
        joint = "" if not name or (first and lowered[0].isdigit()) else "_" if first else "-"
        name += joint + lowered
    return name[:60].strip("-_.")
