"""What a log says of the run that wrote it: model, GPUs, job, batch, number of steps, and how it was set up."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import NamedTuple

from pytest_gsw.logs.model import Dialect, Identity, StepLog
from pytest_gsw.logs.recipe_lines import RECIPE_MARKER, RecipeLines, recipe_line
from pytest_gsw.logs.settings import PRINTED, PRODUCTS, Printed, number_of, precision_of, quantization_of

#: Two values of one name that stand so near to each other are of one configuration and not of two runs.
_ONE_CONFIGURATION_BYTES = 1 << 13


class _Fact(NamedTuple):
    """A number that a line gives, after the words by which the line is found."""

    marker: bytes
    pattern: re.Pattern[bytes]


def _fact(marker: str, pattern: str) -> _Fact:
    return _Fact(marker.encode(), re.compile(pattern.encode()))


#: Samples in a step, the first fact that is found counts.
_GLOBAL_BATCH = (
    _fact("Total train batch size", r"Total train batch size \([^)]{1,80}\) = (\d[\d,]{0,14})"),  # HF Trainer
    _fact("global_batch_size", r"(?<![\w-])global_batch_size \.{1,80} (\d{1,12})\b"),  # Megatron's arguments
    # NeMo's and MaxText's configuration, DLLogger, MLPerf.
    _fact(
        "global_batch_size", r"(?<![\w-])global_batch_size(?:_to_train_on)?[\"']?(?:, \"value\")? ?: {0,4}(\d{1,12})\b"
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
_IDENTITY_FIELDS = tuple(known.name for known in fields(Identity) if known.compare)


@cache
def identity_markers(format_name: str) -> Dialect:
    """By what the lines are found in which logs of a format say whose they are."""
    return tuple(dict.fromkeys((*_MARKERS, *(m for printed in PRINTED.get(format_name, ()) for m in printed.markers))))


class _Said(NamedTuple):
    """A setting as it stands in the log."""

    value: bytes
    offset: int
    #: How far it is indented, and what stands before that: of trees the outermost counts.
    indent: int = 0
    before: bytes = b""


@dataclass
class _Settings:
    """What the lines of one way of printing say, by our names."""

    printed: Printed
    said: dict[str, list[_Said]] = field(default_factory=dict)

    def read(self, offset: int, record: bytes) -> None:
        """Take the settings of a line."""
        if self.printed.hint not in record:
            return
        for match in self.printed.pattern.finditer(record):
            name = self.printed.names[match["name"]]
            if self.printed.nested:
                said = _Said(match["value"], offset, len(match["indent"]), record[: match.start("indent")])
                self.said.setdefault(name, []).append(said)
            else:
                self.said[name] = [_Said(match["value"], offset)]  # where a file holds several runs, the last counts

    def is_torn(self, name: str) -> bool:
        """Whether one configuration says different things of a setting."""
        return name in self.said and self.get(name) is None

    def get(self, name: str) -> _Said | None:
        """What counts of a setting; ``None`` also where one configuration has it twice, and not alike."""
        said = self.said.get(name)
        if not said or not self.printed.nested:
            return said[-1] if said else None
        # A configuration may be shown before it is filled in: by the file's own lines, which have a frame.
        own = [one for one in said if one.before == said[-1].before]
        outermost = min(one.indent for one in own)
        last, *earlier = reversed([one for one in own if one.indent == outermost])
        near = (one for one in earlier if last.offset - one.offset < _ONE_CONFIGURATION_BYTES)
        return None if any(one.value != last.value for one in near) else last


def with_identity(log: StepLog, records: Iterable[tuple[int, bytes]], lines: RecipeLines | None = None) -> StepLog:
    """The log with what records that hold a marker say; where they differ, the last counts.

    What step lines say themselves is kept, as is what a format has filled in.

    Args:
        log: The log, whose format says what else its lines may hold.
        records: Lines with their byte offsets.
        lines: What the recipe's own lines say of the run; ``None`` where the records hold them.
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
        for one in settings:
            one.read(offset, record)
    found = (lines or own).identity()
    known = {name: value for name in _IDENTITY_FIELDS if (value := getattr(found, name)) is not None}
    places = {name: at for name, at in found.places.items() if name in known}
    stated = dict(_stated(settings))
    for name, facts in (("global_batch_size", _GLOBAL_BATCH), ("gpus", _GPUS)):
        number = _first(numbers, facts)
        if number is not None and not any(one.is_torn(name) for one in settings):
            stated.setdefault(name, number)
    # The recipe's line has what was asked for, and what a framework prints of itself is what ran.
    asked = {name: known[name] for name, (value, _) in stated.items() if known.get(name, value) != value}
    for name, (value, offset) in stated.items():
        known[name], places[name] = value, offset
    for name in _IDENTITY_FIELDS:
        stated_by_format = getattr(log.identity, name)
        if stated_by_format is not None:
            known[name] = stated_by_format
            places.pop(name, None)
    total = _first(numbers, _TOTAL_STEPS)
    total_steps = log.total_steps if log.total_steps is not None or total is None else total[0]
    identity = Identity(**known, asked=asked, places={**places, **log.identity.places})
    return replace(log, identity=identity, total_steps=total_steps)


def _first(numbers: dict[_Fact, tuple[int, int]], facts: tuple[_Fact, ...]) -> tuple[int, int] | None:
    return next((numbers[fact] for fact in facts if fact in numbers), None)


_NUMBERS = (
    *("sequence_length", "global_batch_size", "micro_batch_size", "layers", "hidden_size"),
    *("tp", "pp", "cp", "ep", "dp", "fsdp"),
)


def _stated(settings: Iterable[_Settings]) -> Iterator[tuple[str, tuple[int | str, int]]]:
    """The settings with the offset of the line that says so, the most certain source of each."""
    seen: set[str] = set()
    for one in settings:
        if not one.said:
            continue
        found: dict[str, tuple[int | str, int] | None] = {name: _number(one, name) for name in _NUMBERS}
        encoder = one.get("encoder_tp")
        if encoder is not None and number_of(encoder.value) is not None:
            found["dp"] = None  # an encoder of its own has ranks of its own, which data_parallel_size does not count
        found |= {"precision": _precision(one), "quantization": _quantization(one)}
        for name, value in found.items():
            if value is not None and name not in seen:
                seen.add(name)
                yield name, value


def _number(settings: _Settings, name: str) -> tuple[int, int] | None:
    """A setting, or the product of its factors, all of which must be known."""
    said = settings.get(name)
    factors = [said] if said is not None else [settings.get(factor) for factor in PRODUCTS.get(name, ())]
    values = [None if factor is None else number_of(factor.value) for factor in factors]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values) or factors[0] is None:
        return None
    return math.prod(known), factors[0].offset


def _precision(settings: _Settings) -> tuple[str, int] | None:
    """``bf16``, ``fp16`` or ``fp32``: as it is named, else by the switches of the two, where both are known."""
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
    """What is computed in fewer bits than the precision: ``none``, ``fp8``, ``int8`` and the like."""
    active, smaller = settings.get("is_fp8"), settings.get("fp4")
    if active is not None:
        return "fp8", active.offset
    if smaller is not None and quantization_of(smaller.value) != "none":
        return quantization_of(smaller.value), smaller.offset
    said = settings.get("fp8") or settings.get("quantization")
    return None if said is None else (quantization_of(said.value), said.offset)
