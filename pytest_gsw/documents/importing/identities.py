"""What the figures of one row prove of each other, before it is written: cells read, columns told apart.

The formulas are the audit's (:mod:`pytest_gsw.documents.audit.figures`): import has none of its own.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from pytest_gsw.documents.audit.agreement import BySteps, Comparison, comparisons
from pytest_gsw.documents.audit.figures import Row, above_zero, read_row, seconds_text
from pytest_gsw.documents.importing.cells import is_either_comma
from pytest_gsw.documents.importing.draft import UNREAD, Draft
from pytest_gsw.tables.metrics import (
    DAYS_TO_TRAIN,
    SAMPLES_PER_S,
    STEP_TIME,
    THROUGHPUTS,
    TOKENS_PER_S,
    TOKENS_PER_S_PER_GPU,
)
from pytest_gsw.tables.stated import StatedRow
from pytest_gsw.tables.yamlfile import Stated

#: What all throughputs follow from.
_INPUTS = frozenset({STEP_TIME.key, "global_batch_size", "sequence_length"})
#: More ways to read the cells of one row are not tried: a row of so many unreadable cells proves nothing.
_MOST_READINGS = 256


def numbers_of(values: Mapping[str, Stated]) -> Row:
    """A row's values as the audit computes with them."""
    return read_row(StatedRow("", "", {k: stated for k, stated in values.items() if not k.startswith(UNREAD)}, {}))


def repaired(draft: Draft) -> Draft:
    """The draft with the cells that an identity proves; the others stay blank, each with a remark.

    ``8.7  5`` is 8.75 where sequence length * GBS / 8.75 s is the documented throughput to its last digit; ``8,309`` is
    8.309 or 8309, and ``37556 (36108)`` is one of the two, by the same rule.
    """
    unread = {name.removeprefix(UNREAD): cell for name, cell in draft.values.items() if name.startswith(UNREAD)}
    plain = replace(draft, values={k: v for k, v in draft.values.items() if not k.startswith(UNREAD)})
    for key, (text, proof) in _proven_readings(draft, plain, unread).items():
        cell = unread.get(key) or plain.values[key]
        plain = replace(plain, blanks={k: v for k, v in plain.blanks.items() if k != key})
        message = f"the cell reads '{cell.text}': it is {text}, as {proof}"
        plain = plain.having(key, text, cell)
        if not (is_either_comma(cell.text) and text == draft.readings[key][-1]):  # a thousands separator is none
            plain = plain.remarked(key, message, cell)
    for key, cell in unread.items():
        if key not in plain.values:
            plain = plain.remarked(key, f"left blank: {plain.blanks[key]}", cell)
    return plain


def _proven_readings(draft: Draft, plain: Draft, unread: Mapping[str, Stated]) -> dict[str, tuple[str, str]]:
    """The one way to read all cells, or all that can be read, that the row's figures agree with; with its proofs."""
    refuted = any(one.differs for one in comparisons(numbers_of(plain.values)).values())
    doubted = {key for key, texts in draft.readings.items() if texts and (refuted or unread) and key not in unread}
    options = {key: draft.readings.get(key, ()) for key in unread}
    options |= {key: (plain.values[key].text, *draft.readings[key]) for key in doubted if key in plain.values}
    options = {key: texts for key, texts in options.items() if texts}
    if not options or math.prod(len(texts) for texts in options.values()) > _MOST_READINGS:
        return {}
    # All of them at once, or else each by itself.
    for keys in ([*options], *([key] for key in unread if key in options)):
        found = [proofs for proofs in _readings(plain, {key: options[key] for key in keys}) if proofs]
        if len(found) == 1:
            return {
                key: proof for key, proof in found[0].items() if key in unread or proof[0] != plain.values[key].text
            }
    return {}


def _readings(plain: Draft, options: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, tuple[str, str]]]:
    """Each way to read some cells with its proofs, by key; empty where there is no proof of one of them."""
    for texts in itertools.product(*options.values()):
        chosen = dict(zip(options, texts, strict=True))
        row = numbers_of({**plain.values, **{key: Stated(text, 1, 1) for key, text in chosen.items()}})
        proofs = {key: proof_of(row, key) for key in chosen}
        yield {key: (chosen[key], proof) for key, proof in proofs.items() if proof} if all(proofs.values()) else {}


def proof_of(row: Row, key: str) -> str:
    """The equation that shows a cell to be right, where no figure of the row contradicts it; empty without one."""
    found = comparisons(row)
    arithmetic = [found[name] for name in (*THROUGHPUTS[1:], *THROUGHPUTS[:1], DAYS_TO_TRAIN.key) if name in found]
    if any(one.differs for one in arithmetic):
        return ""
    of_key = arithmetic if key in _INPUTS else [found[key]] if key in found else []
    return next((equation(one) for one in of_key if _is_exact(one)), "")


def _is_exact(one: Comparison) -> bool:
    """Whether a figure is what a step time gives that rounds to the documented one."""
    if isinstance(one.source, str):
        return False
    given = one.source.law.span(above_zero(one.source.step.rounded))
    return given.overlap(one.written.either) is not None


def equation(one: Comparison) -> str:
    """``4096 * 128 / 2.048 = 256000``: how a figure follows from the step time."""
    assert isinstance(one.source, BySteps)
    law, seconds = one.source.law, seconds_text(one.source.step)
    return f"{law.text} {'*' if law.grows else '/'} {seconds} = {one.written.text}"


def proven(draft: Draft) -> bool:
    """Whether the figures of a row agree with each other, so that none of its cells is of another column.

    Two of them are enough: the step time, and a throughput that follows from it to within one percent.
    """
    numbers = {
        key: Decimal(stated.text) for key, stated in draft.values.items() if re.fullmatch(r"[0-9.]+", stated.text)
    }
    seconds, batch = numbers.get(STEP_TIME.key), numbers.get("global_batch_size")
    if seconds is None or batch is None or seconds <= 0:
        return False
    tokens = batch * numbers.get("sequence_length", Decimal(0))
    follows = {
        SAMPLES_PER_S.key: batch / seconds,
        TOKENS_PER_S.key: tokens / seconds,
        TOKENS_PER_S_PER_GPU: tokens / seconds / (numbers.get("gpus") or 1),
    }
    stated = [key for key in follows if key in numbers]
    return bool(stated) and all(
        abs(numbers[key] / follows[key] - 1) < Decimal("0.01") for key in stated if follows[key]
    )
