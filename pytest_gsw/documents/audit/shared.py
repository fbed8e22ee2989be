"""One change that makes all rows of a table right: an input that they share, a peak, or a factor.

What is wrong in each row of a table is seldom wrong for each row's own reason. A change is told where it makes the
figures of several rows right and no figure wrong that was right before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.agreement import BySteps, Comparison, compare, comparisons, differing, wrong
from pytest_gsw.documents.audit.figures import DERIVED, Law, Row, laws
from pytest_gsw.documents.audit.findings import Explanation, Kind
from pytest_gsw.documents.audit.written import about, decimal
from pytest_gsw.tables.metrics import MFU

#: Rows that another input is computed from: the first may be wrong in more than one way.
_ASKED = 3
#: Sequence lengths that are no power of two are multiples of this.
_SEQUENCE_STEP = 128
_LARGEST = 2**40


@dataclass(frozen=True)
class _Change:
    """Something that may be other than the rows say."""

    kind: Kind
    #: What gives the documented figures, in words.
    words: str
    rows: Sequence[Row]
    #: The figures of a row that the change concerns, computed with it.
    figures: Callable[[Row], Mapping[str, Comparison]]
    #: What it is, in words, where it may be right for most of the rows; empty where all of them have to fit.
    for_most: str = ""


def shared_changes(rows: Sequence[Row]) -> dict[str, dict[str, Explanation]]:
    """By row and figure, the change that makes it right together with the other rows of its workload."""
    workloads: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        workloads.setdefault(row.workload, []).append(row)
    found: dict[str, dict[str, Explanation]] = {}
    for group in workloads.values():
        suspects = [row for row in group if wrong(row)]
        if len(suspects) < 2:
            continue
        for change in itertools.chain(_inputs(group, suspects), _peaks(group), _factors(group, suspects)):
            for row, key, explanation in _told(change):
                found.setdefault(row.id, {}).setdefault(key, explanation)
    return found


def _told(change: _Change) -> list[tuple[Row, str, Explanation]]:
    """What the change explains; nothing where it makes a figure wrong, or does not make enough rows right."""
    concerned, right, cured = 0, 0, 0
    explained: list[tuple[Row, Comparison]] = []
    for row in change.rows:
        after = change.figures(row)
        still = differing(after)
        before = wrong(row) & after.keys()
        if still - before:
            return []
        concerned += bool(after)
        right += bool(after) and not still
        cured += bool(before) and not still
        explained += [(row, after[key]) for key in before]
    enough = right == concerned or (change.for_most and 2 * right > concerned)
    if cured < 2 or not enough:
        return []
    where = f"{right} of {concerned} rows"
    if right == concerned:
        where = "both rows" if right == 2 else f"all {right} rows"
    return [(row, one.key, Explanation(change.kind, _words(change, one, where))) for row, one in explained]


def _words(change: _Change, one: Comparison, where: str) -> str:
    if not one.differs:
        return f"{change.words}, in {where}"
    return f"{change.for_most}, which fits {where}, gives {one.written.written_like_this(one.value)}"


def _inputs(group: Sequence[Row], suspects: Sequence[Row]) -> Iterator[_Change]:
    """Another sequence length or batch in the rows that have the same one."""
    for key in ("sequence_length", "global_batch_size"):
        for text, value in dict.fromkeys(_candidates(key, suspects)):
            rows = [row for row in group if row.text(key) == text]
            name = f"{key} {value}"
            yield _Change(Kind.ONE_INPUT, f"{name} gives it", rows, _with_input(key, value), name)


def _candidates(key: str, suspects: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """An input as written, and what it would have to be for a figure of the first rows that are wrong."""
    for row in suspects[:_ASKED]:
        own, figures = row.value(key), comparisons(row)
        for one in (figures[name] for name in figures if name in wrong(row)):
            if own is None or not isinstance(one.source, BySteps):
                continue
            ratio = one.written.value / one.value
            for text in _inputs_near(key, own / ratio if one.source.law.grows else own * ratio):
                if Fraction(text) != own:
                    yield row.text(key), text


def _inputs_near(key: str, value: Fraction) -> tuple[str, ...]:
    """What an input may be where about this value is needed: model FLOPs, which have three digits, or a count."""
    if key == "model_flops":
        return (f"{decimal(value):.2e}",) if value < 10**60 else ()
    if not 1 <= value < _LARGEST:
        return ()
    if key == "global_batch_size":
        return (str(round(value)),)
    return str(2 ** round(math.log2(value))), str(max(1, round(value / _SEQUENCE_STEP)) * _SEQUENCE_STEP)


def _with_input(key: str, text: str) -> Callable[[Row], Mapping[str, Comparison]]:
    def figures(row: Row) -> Mapping[str, Comparison]:
        before, after = comparisons(row), comparisons(row.with_value(key, text))
        return {name: one for name, one in after.items() if name in before and one.value != before[name].value}

    return figures


def _with_law(key: str, law: Callable[[Row], Mapping[str, Law]]) -> Callable[[Row], Mapping[str, Comparison]]:
    def figures(row: Row) -> Mapping[str, Comparison]:
        one = comparisons(row).get(key)
        other = law(row).get(key)
        changed = compare(row, key, other) if one is not None and other is not None else None
        return {} if changed is None else {key: changed}

    return figures


def _peaks(group: Sequence[Row]) -> Iterator[_Change]:
    """Other peaks. All rows of a workload have one accelerator and one dtype."""
    for peak, words in explain.other_peaks(group[0]):
        yield _Change(Kind.WRONG_PEAK, f"{words} gives it", group, _with_law(MFU.key, partial(laws, peak=peak)))


def _factors(group: Sequence[Row], suspects: Sequence[Row]) -> Iterator[_Change]:
    """Factors of one figure in all rows; then any other model FLOPs, which are a factor as well."""
    for key in DERIVED:
        if not any(key in wrong(row) for row in suspects):
            continue
        for factor, words in explain.factors(group[0], key).items():
            yield _Change(Kind.FACTOR, f"it is {words}", group, _with_law(key, partial(_scaled, factor)))
    for text, value in dict.fromkeys(_candidates("model_flops", suspects)):
        rows = [row for row in group if row.text("model_flops") == text]
        words = f"model_flops {about(Fraction(value))} gives it"
        yield _Change(Kind.ONE_INPUT, words, rows, _with_input("model_flops", value))


def _scaled(factor: Fraction, row: Row) -> Mapping[str, Law]:
    return {key: replace(law, coefficient=law.coefficient * factor) for key, law in row.laws.items()}
