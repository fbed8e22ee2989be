"""GPU counts that two identities of a row prove, and its cell does not say."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import prod

from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.written import Span
from pytest_gsw.tables.metrics import TOKENS_PER_S, TOKENS_PER_S_PER_GPU


def proven_gpus(row: Row) -> tuple[str, str] | None:
    """The GPU count of a row and its proof, where its settings and its rates give one, and not the documented one.

    What is made of settings alone may rest on one wrong degree, and what is made of rates on one wrong rate.
    """
    stated, counts = row.value("gpus"), dict(_of_settings(row))
    rates = _of_rates(row)
    if stated is None or rates is None or len(set(counts.values())) != 1:
        return None
    span, of_rates = rates
    (settings, count), *_ = counts.items()
    if count.denominator > 1 or count not in span or stated == count or stated in span:
        return None
    return str(count), f"{settings} = {count}, and {of_rates} = {count}"


def _of_settings(row: Row) -> Iterator[tuple[str, Fraction]]:
    """What the degrees of parallelism multiply to, and what the batch is made of."""
    degrees = {key: degree for key in ("tp", "pp", "cp") if (degree := row.value(key)) is not None}
    if not {"tp", "pp"} <= degrees.keys():
        return
    model = prod(degrees.values())
    words = " * ".join(f"{key} {degree}" for key, degree in degrees.items())
    data, ep = row.value("dp"), row.value("ep")
    if data is not None and ep in {None, 1}:
        yield f"dp {data} * {words}", data * model
    keys = ("global_batch_size", "micro_batch_size", "gradient_accumulation_steps")
    batch, micro, steps = (row.value(key) for key in keys)
    if batch is not None and micro and steps:
        formula = f"global_batch_size {batch} / (micro_batch_size {micro} * gradient_accumulation_steps {steps})"
        yield f"{formula} * {words}", batch * model / (micro * steps)


def _of_rates(row: Row) -> tuple[Span, str] | None:
    """What the whole job's throughput is of one GPU's."""
    whole, each = row.numbers.get(TOKENS_PER_S.key), row.numbers.get(TOKENS_PER_S_PER_GPU)
    if whole is None or each is None or each.either.low <= 0:
        return None
    span = Span(whole.either.low / each.either.high, whole.either.high / each.either.low)
    return span, f"{whole.text} / {each.text}"
