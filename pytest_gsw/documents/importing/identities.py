"""What the figures of one row prove of each other, before it is written: cells repaired, columns told apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from pytest_gsw.documents.importing.cells import joined_digits
from pytest_gsw.documents.importing.draft import UNREAD, Draft
from pytest_gsw.tables.metrics import SAMPLES_PER_S, STEP_TIME, TOKENS_PER_S, TOKENS_PER_S_PER_GPU
from pytest_gsw.tables.yamlfile import Stated


def repaired(draft: Draft) -> Draft:
    """The draft with the cells that an identity proves; the others stay blank, each with a remark.

    ``8.7  5`` is 8.75 where sequence length * GBS / 8.75 s is the documented throughput to its last digit.
    """
    for name, cell in draft.values.items():
        if not name.startswith(UNREAD):
            continue
        key = name.removeprefix(UNREAD)
        draft = draft.without(name)
        digits = joined_digits(cell.text)
        proof = None if digits is None else _proof(key, digits, draft.values)
        if digits is None or proof is None:
            draft = draft.remarked(key, f"left blank: the cell reads '{cell.text}'", cell)
        else:
            draft = replace(draft, blanks={k: v for k, v in draft.blanks.items() if k != key})
            draft = draft.having(key, digits, cell)
            draft = draft.remarked(key, f"the cell reads '{cell.text}': it is {digits}, as {proof}", cell)
    return draft


def sequence_length_given(draft: Draft) -> Decimal | None:
    """tokens/s * step time / global batch size, where the row has all three."""
    needed = (TOKENS_PER_S.key, STEP_TIME.key, "global_batch_size")
    if any(key not in draft.values for key in needed):
        return None
    rate, seconds, batch = (Decimal(draft.values[key].text) for key in needed)
    return rate * seconds / batch


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


def _proof(key: str, digits: str, values: Mapping[str, Stated]) -> str | None:
    """The identity that proves a cell's digits, as text; ``None`` where there is none or it says otherwise."""
    other = {STEP_TIME.key: TOKENS_PER_S.key, TOKENS_PER_S.key: STEP_TIME.key}.get(key)
    needed = ("sequence_length", "global_batch_size", other or "")
    if other is None or any(name not in values for name in needed):
        return None
    sequence, batch, known = (values[name].text for name in needed)
    tokens = Decimal(sequence) * Decimal(batch)
    stated = known if key == STEP_TIME.key else digits
    seconds = digits if key == STEP_TIME.key else known
    unit = Decimal(1).scaleb(int(Decimal(stated).as_tuple().exponent))
    if Decimal(seconds) <= 0 or abs(tokens / Decimal(seconds) - Decimal(stated)) > unit:
        return None
    return f"{sequence} * {batch} / {seconds} = {stated}"
