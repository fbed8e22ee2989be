"""The identities between a row's columns: batch, GPUs, model FLOPs, architecture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.figures import Row, flops_of
from pytest_gsw.documents.audit.findings import Explanation, Finding, Kind, Severity, Uses
from pytest_gsw.documents.audit.published import published
from pytest_gsw.documents.audit.written import about
from pytest_gsw.tables.metrics import STEP_TIME

#: A result of floating-point arithmetic may be off by so much.
_FLOAT = Fraction(1, 10**12)


def identities(row: Row) -> Iterator[Finding | None]:
    """The identities between a row's columns: ``None`` where one holds."""
    yield from _batch(row)
    yield from _gpus(row)
    yield from _model_flops(row)


def _batch(row: Row) -> Iterator[Finding | None]:
    """Global batch size = micro batch size * accumulation steps * data-parallel ranks, by any of the conventions."""
    batch, micro = row.value("global_batch_size"), row.value("micro_batch_size")
    steps = row.value("gradient_accumulation_steps")
    if batch is None or micro is None:
        return
    ranks = _replicas(row)
    if not ranks:
        return
    ratios = [batch / (micro * (steps or 1) * number) for number, _ in ranks]
    # Where no steps are stated, they are whatever makes a whole number.
    if any(ratio == 1 if steps else ratio.denominator == 1 for ratio in ratios):
        yield None
        return
    number, words = ranks[0]
    value = micro * (steps or 1) * number
    formula = f"a multiple of micro_batch_size {micro} * {words}"
    if steps is not None:
        formula = f"micro_batch_size {micro} * gradient_accumulation_steps {steps} * {words}"
    inputs = {"micro_batch_size": micro, "gradient_accumulation_steps": steps, "dp": row.value("dp")}
    yield _refuted(row, "global_batch_size", batch, value, formula, inputs, multiple=steps is None)


def _replicas(row: Row) -> list[tuple[Fraction, str]]:
    """How many replicas share a batch, by each convention that the documents know, and in words."""
    found: list[tuple[Fraction, str]] = []
    dp, ep, gpus = row.value("dp"), row.value("ep"), row.value("gpus")
    if dp is not None:
        found.append((dp, f"dp {dp}"))
    if dp is not None and ep is not None:
        found.insert(0 if _is_multiplied(row) else 1, (dp * ep, f"ep {ep} * dp {dp}"))
    # Without both degrees, and without a word of sharded data parallelism, ranks may be of anything.
    model_known = row.value("tp") is not None and row.value("pp") is not None
    if gpus is not None and (model_known or row.value("fsdp") is not None):
        degrees = _stated(row, "tp", "pp", "cp")
        model = math.prod(degrees.values())
        if (gpus / model).denominator == 1:
            found.append((gpus / model, f"{gpus} GPUs / ({_words(degrees)})" if degrees else f"{gpus} GPUs"))
    return found


def _is_multiplied(row: Row) -> bool:
    """Whether expert parallelism is a factor of the GPU count of its own (Grok 1), and not inside of DP (Megatron)."""
    return row.value("gpus") == math.prod(_stated(row, "tp", "pp", "cp", "ep", "dp").values())


def _stated(row: Row, *keys: str) -> dict[str, Fraction]:
    """The degrees of parallelism that the row states."""
    return {key: degree for key in keys if (degree := row.value(key)) is not None}


def _words(degrees: Mapping[str, Fraction]) -> str:
    return " * ".join(f"{key} {degree}" for key, degree in degrees.items())


def _gpus(row: Row) -> Iterator[Finding | None]:
    """GPUs = TP * PP * CP * DP, expert parallelism inside of DP or a factor of its own."""
    gpus, fsdp = row.value("gpus"), row.value("fsdp")
    if gpus is None:
        return
    if fsdp is not None:
        fits = (gpus / fsdp).denominator == 1
        yield None if fits else _refuted(row, "gpus", gpus, fsdp, f"a multiple of fsdp {fsdp}", {}, multiple=True)
    stated = _stated(row, "tp", "pp", "cp", "dp")
    if not stated:
        return
    total = math.prod(stated.values(), start=Fraction(1))
    ep = row.value("ep") or Fraction(1)
    formula = _words(stated)
    # Where a document leaves a degree out, it may be any; the others must fit into the GPUs all the same.
    whole = {"tp", "pp", "dp"} <= stated.keys()
    if any(gpus == number if whole else (gpus / number).denominator == 1 for number in (total, total * ep)):
        yield None
        return
    if ep != 1 and abs(gpus - total * ep) < abs(gpus - total):
        total, formula = total * ep, f"{formula} * ep {ep}"
    yield _refuted(row, "gpus", gpus, total, formula, stated, multiple=not whole)


def _refuted(
    row: Row,
    key: str,
    documented: Fraction,
    computed: Fraction,
    formula: str,
    inputs: Mapping[str, Fraction | None],
    *,
    multiple: bool,
) -> Finding:
    """A count that is not the product of its factors; those of ``inputs`` may be wrong."""
    step = row.step_time
    uses = Uses.DOCUMENTED if step is not None and step.key != STEP_TIME.key else Uses.NEITHER
    why = explain.inputs(row, documented, computed, inputs, multiple=multiple)
    return row.finding(key, str(documented), str(computed), formula, *why, uses=uses)


def _model_flops(row: Row) -> Iterator[Finding | None]:
    """Pinned model FLOPs against the formula of the document's architecture."""
    written, value = row.numbers.get("model_flops"), row.computed_flops
    if written is None or value is None:
        return
    off = abs(written.value - value)
    if off * 2 <= written.unit or off <= value * _FLOAT:
        yield None
        return
    layers = row.value("layers") or row.value("architecture.layers")
    formula = f"the formula '{row.text('architecture.formula')}'"
    if layers is not None:
        formula += f" with {layers} layers and sequences of {row.value('sequence_length')}"
    yield row.finding(
        "model_flops",
        written.text,
        written.written_like_this(value),
        formula,
        *explain.model_flops(row, written, value),
        severity=Severity.ROUNDING if off < written.unit else Severity.by_size(written.value, value),
    )


def against_published(row: Row) -> Iterator[Finding | None]:
    """The architecture that the model FLOPs are computed from, against the published model's."""
    known = published(row.text("model"), row.text("size"))
    if known is None:
        return
    for key, value in known.numbers.items():
        written = row.numbers.get(f"architecture.{key}")
        if written is None:
            continue
        if written.value == value:
            yield None
            continue
        other = flops_of(row, other={key: value})
        effect = ""
        if other is not None and row.computed_flops is not None:
            change = 100 * (row.computed_flops / other - 1)
            effect = f"; it makes model FLOPs {about(abs(change), 2)} % {'more' if change > 0 else 'fewer'}"
        yield row.finding(
            f"architecture.{key}",
            f"{key} {written.text}",
            f"{key} {value}",
            f"the published model ({known.source})",
            Explanation(Kind.ONE_INPUT, f"the published model has {value}{effect}"),
            severity=Severity.NOTICE,
            identity="architecture",
        )
