"""Settings of benchmarks that rows state, for their comparison with logs: names, and values in all their spellings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from pytest_gsw.common.text import enumerated

#: By log format its settings, with the names that a row's attributes and its recipe's environment may have for them, as
#: :func:`letters`.
_SETTINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "serving": {
        "model": ("servedmodelname", "servedmodel"),
        "input length": ("inputlength", "inputlen", "inputtokens", "randominputlen", "isl", "input"),
        "output length": ("outputlength", "outputlen", "outputtokens", "randomoutputlen", "osl", "output"),
        "prompts": ("numprompts", "prompts", "numrequests", "requests"),
        "concurrency": ("maxconcurrency", "concurrency"),
        "request rate": ("requestrate",),
    },
    "nccl-tests": {"reduction": ("reduction", "redop", "op"), "validation": ("validation", "check")},
}
#: Settings that are no numbers.
_WORDS = {"model", "reduction"}
#: Parts of names that are meant for a setting, and of those of rates, which are figures.
_SIMILAR, _RATE = re.compile(r"input|output|prompt|request|concurren|reduc|redop|valid"), re.compile(r"throughput|pers")
#: Least likeness of a misspelt name, from 0 to 1.
_LIKENESS = 0.8
#: Other words for the values of a switch.
_SWITCHES = {"on": "1", "true": "1", "yes": "1", "off": "0", "false": "0", "no": "0"}
#: A number, in thousands or millions, with its unit or without; a list of numbers is none.
_AMOUNT = re.compile(
    r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,18}(?:\.\d{1,9})?|inf)(?: ?([km])(?![a-z]))?(?: ?(?![km])[a-z/]{1,20})?", re.ASCII
)
#: ``1k`` may be 1,000 or 1,024.
_SCALES = {None: (1,), "k": (1000, 1 << 10), "m": (1_000_000, 1 << 20)}


def letters(name: str) -> str:
    """A name in a form common to all spellings, such as ``llama3.1`` and ``Llama-3.1``."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def amounts(text: str) -> tuple[float, ...]:
    """The numbers that a setting may mean, with a unit or none, or that of a switch; empty if it is no number."""
    small = text.strip().lower()
    found = _AMOUNT.fullmatch(_SWITCHES.get(small, small))
    return () if found is None else tuple(float(found[1].replace(",", "")) * scale for scale in _SCALES[found[2]])


def stated_settings(log_format: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The settings of a benchmark in these texts, by the names that its logs have for them; the last text counts."""
    known = _known(log_format)
    return {known[name]: text for key, text in texts.items() if (name := letters(key)) in known}


def setting_problems(log_format: str, attributes: Mapping[str, str]) -> Iterator[str]:
    """Faults of attributes that state a setting of a benchmark which cannot be compared."""
    known = _known(log_format)
    for key, text in attributes.items() if known else ():
        name = letters(key)
        is_similar = _SIMILAR.search(name) or difflib.get_close_matches(name, known, 1, _LIKENESS)
        if name not in known and is_similar and not _RATE.search(name):
            yield f"'attributes.{key}' is no known setting of {log_format}, which has {enumerated(known)}"
        elif known.get(name, "model") not in _WORDS and not amounts(text):
            yield f"'attributes.{key}' is '{text}', wanted a number, or on or off"


def _known(log_format: str) -> dict[str, str]:
    """The settings of a benchmark by all of their names."""
    return {name: ours for ours, names in _SETTINGS.get(log_format, {}).items() for name in names}
