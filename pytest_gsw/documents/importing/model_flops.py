"""A row's model FLOPs: what its document states, or what the document's formula gives for its layers and length."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from pytest_gsw.documents.audit.written import about
from pytest_gsw.documents.importing.contradictions import (
    TWO_RUNS,
    off,
    refuting,
    shown_by_figures,
    swapped_digits,
    told,
)
from pytest_gsw.documents.importing.identities import numbers_of
from pytest_gsw.documents.importing.prose import Architecture, Prose
from pytest_gsw.documents.importing.row import FACT
from pytest_gsw.documents.importing.titles import same_model
from pytest_gsw.performance.flops import FORMULAS
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.yamlfile import Stated


@dataclass(frozen=True)
class Candidate:
    """Model FLOPs of one sample that may be a row's."""

    stated: Stated
    #: Why the row's own figures must show that they are its own; empty where the document says so.
    doubt: str = ""
    #: The document does not state them so: that they are not the row's is not worth a word.
    is_derived: bool = False


@dataclass(frozen=True)
class Chosen:
    """A row's model FLOPs, and what was made of the others."""

    flops: Stated | None = None
    #: Why others, which the document states, are not the row's.
    refused: tuple[tuple[Stated, str], ...] = ()
    #: Figures of the row that its model FLOPs refute, by key, each with the reason.
    refuted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownFlops:
    """What all rows of a document say of model FLOPs."""

    #: Model FLOPs that the MFU or TFLOP/s of a row shows to be right, by the model that they are of.
    shown: frozenset[tuple[str, ...]] = frozenset()
    #: The most layers of a model.
    layers: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def concerns(self, values: Mapping[str, Stated]) -> bool:
        """Whether another row may tell something of this one's."""
        shown = any(one[:-1] == _model(values) for one in self.shown)
        unlike = "model_flops" not in values or refuting(numbers_of(values), (), within=TWO_RUNS)
        return self.is_smaller(values) or (shown and bool(unlike))

    def is_smaller(self, values: Mapping[str, Stated]) -> bool:
        """Whether another row of the same model has more layers."""
        layers = values["layers"].text if "layers" in values else ""
        return layers.isdigit() and int(layers) < self.layers.get(_model(values)[:2], 0)


def known_flops(rows: Iterable[Mapping[str, Stated]]) -> KnownFlops:
    """What the rows of a document say of each other's model FLOPs."""
    shown: set[tuple[str, ...]] = set()
    layers: dict[tuple[str, ...], int] = {}
    for values in rows:
        if "layers" in values and values["layers"].text.isdigit():
            model = _model(values)[:2]
            layers[model] = max(layers.get(model, 0), int(values["layers"].text))
        if "model_flops" in values and values["model_flops"].text:
            row = numbers_of(values)
            if shown_by_figures(row) and not refuting(row, (), within=TWO_RUNS):
                shown.add((*_model(values), values["model_flops"].text))
    return KnownFlops(frozenset(shown), layers)


def _model(values: Mapping[str, Stated]) -> tuple[str, ...]:
    return tuple(values[key].text if key in values else "" for key in ("model", "size", "sequence_length", "layers"))


def model_flops(values: Mapping[str, Stated], prose: Prose, acknowledged: Collection[str], known: KnownFlops) -> Chosen:
    """Model FLOPs of one sample: the first that the row's own MFU and TFLOP/s do not refute.

    As stated for the full model, by the document's formula for a smaller one. Where other rows of the same model show
    that they are right, a figure that refutes them is wrong.
    """
    refused: list[tuple[Stated, str]] = []
    smaller = known.is_smaller(values)
    for candidate in _candidates({key: stated.text for key, stated in values.items()}, prose, smaller=smaller):
        stated = candidate.stated
        row = numbers_of({**values, "model_flops": stated})
        against = refuting(row, acknowledged, own=not candidate.doubt)
        if (candidate.is_derived or not candidate.doubt) and (*_model(values), stated.text) in known.shown:
            wrong = refuting(row, acknowledged, within=TWO_RUNS)
            return Chosen(stated, refuted={one.key: f"{told(one)}; other rows show its model FLOPs" for one in wrong})
        if not against and (not candidate.doubt or shown_by_figures(row)):
            return Chosen(stated)
        slips = {one.key: swapped_digits(row, one) for one in against}
        if not refused and not candidate.doubt and len(slips) == 1 and all(slips.values()):
            ((key, right),) = slips.items()
            return Chosen(stated, refuted={key: f"{told(against[0])}; two digits of {right} are swapped"})
        reasons = [f"{told(one)}: {about(off(one), 3)} times as much" for one in against]
        refused += [] if candidate.is_derived else [(stated, "; ".join(reasons) or candidate.doubt)]
    return Chosen(refused=tuple(refused[:1]))


def _candidates(text: Mapping[str, str], prose: Prose, *, smaller: bool) -> Iterator[Candidate]:
    """What may be a row's model FLOPs, the likeliest first."""
    architecture = architecture_of(text.get("size", ""), prose)
    if architecture is not None and architecture.formula == "gpt2":
        flops = _gpt2_flops(text)
        yield from [Candidate(flops)] if flops is not None else []
        return
    stated = _stated_flops(text, prose)
    stated = None if stated is None else replace(stated, text=_scientific(Decimal(stated.text)))
    computed = None if architecture is None else _computed_flops(text, architecture)
    full = computed is None or architecture is None or _is_full(text, architecture)
    lora = any("lora" in text.get(key, "").lower() for key in ("case", "model"))
    doubt = ""
    if lora:
        doubt = "it is of full training, and no figure of the row shows that it is LoRA's"
    elif computed is None and (smaller or text.get("proxy") == "true"):
        doubt = "it is of the full model, and no figure of the row shows that it is the proxy's"
    found = [one for one in ((stated, computed) if full else (computed, stated)) if one is not None]
    if lora and found:
        yield Candidate(_two_thirds(found[0]), doubt, is_derived=True)
    for number, one in enumerate(found):
        yield Candidate(one, doubt or ("it is not the row's" if number else ""))


def _two_thirds(stated: Stated) -> Stated:
    """Of full training: LoRA computes no gradients of the weights, one of the three parts of a step."""
    return replace(stated, text=f"{Decimal(stated.text) * 2 / 3:.4e}")


def _gpt2_flops(text: Mapping[str, str]) -> Stated | None:
    """By the size, which is all that the formula of the GPT-2 document needs."""
    size = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)b", text.get("size", ""))
    if size is None or "sequence_length" not in text or not {STEP_TIME.key, "expected_failure"} & set(text):
        return None
    number = 6 * Decimal(size[1]).scaleb(9) * int(text["sequence_length"])
    return Stated(_scientific(number.normalize()), FACT, 1)


def architecture_of(size: str, prose: Prose) -> Architecture | None:
    """The notes' numbers for a model of this size; those without a size are of the only model there is."""
    same = [one for one in prose.architectures if one.size and one.size == size]
    only = [one for one in prose.architectures if len(prose.architectures) == 1 and (not one.size or not size)]
    return next(iter(same or only), None)


def _stated_flops(text: Mapping[str, str], prose: Prose) -> Stated | None:
    """What the document states for the row's model: of the same size, or the only statement that names no size."""
    of_model = [
        (title, flops)
        for title, flops in prose.model_flops
        if not title.model or not text.get("model") or same_model(title.model, text["model"])
    ]
    found = [flops for title, flops in of_model if title.size and title.size == text.get("size")]
    if not found:
        found = [flops for title, flops in of_model if not title.size]
        found = found if len(found) == len(prose.model_flops) else []
    return found[0] if len({one.text for one in found}) == 1 else None


def _is_full(text: Mapping[str, str], architecture: Architecture) -> bool:
    """Whether a row has the layers and the sequence length that the notes compute with."""
    layers = architecture.numbers.get("layers")
    sequence = architecture.sequence_length
    same_layers = "layers" not in text or layers is None or text["layers"] == layers.text
    return same_layers and (sequence is None or text.get("sequence_length") in {None, sequence.text})


def _computed_flops(text: Mapping[str, str], architecture: Architecture) -> Stated | None:
    """By the document's own formula and numbers, with the row's layers and sequence length; exact."""
    if "sequence_length" not in text:
        return None
    numbers = {key: int(stated.text) for key, stated in architecture.numbers.items()}
    numbers |= {key: int(text[key]) for key in ("layers", "sequence_length") if key in text}
    try:
        exact = FORMULAS[architecture.formula](**numbers)
    except (TypeError, OverflowError):  # the notes lack a number that the formula needs
        return None
    return replace(next(iter(architecture.numbers.values())), text=str(round(exact)))


def _scientific(number: Decimal) -> str:
    """``1.82e+15``: the document's digits, in the form that YAML takes for a number."""
    sign, digits, exponent = number.normalize().as_tuple()
    if sign or not isinstance(exponent, int):
        return str(number)
    shown = "".join(map(str, digits))
    kept = len(number.as_tuple().digits) if "E" in str(number) else len(shown)
    shown = shown.ljust(kept, "0")
    power = exponent + len(digits) - 1
    return f"{shown[0]}.{shown[1:] or '0'}e+{power:02d}"
