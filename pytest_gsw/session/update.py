"""What ``--gsw-update-baseline`` does at a session's end: a diff of what its cluster could accept, for review."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_gsw.ageing.patch import make_patch, proposal_text, review_text
from pytest_gsw.ageing.proposals import LeftOut, Rules, Tables, earlier_records, propose
from pytest_gsw.common.files import from_here, make_directory, write_whole
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.results.rebuild import read_run

#: Rows that a reason is given for by name; a session has hundreds, and mostly one reason.
_NAMED = 3


def update_baseline(
    target: Path, run: Path, find: Callable[[str], Path | None], max_gain: float | None = None
) -> tuple[str, ...]:
    """Write the diff, and say so.

    This session's rows count, with what the runs beside it recorded of them on the same cluster.

    Args:
        target: The file to write.
        run: This session's directory.
        find: The table that node ids call so.
        max_gain: Earlier runs whose gain was too good to be true count up to this one, as a fraction.

    Returns:
        Lines for the session's summary; why there is nothing to propose is one of them.
    """
    try:
        lines = _update(target, run, find, Rules(max_gain=max_gain))
    except OSError as error:  # a directory that is gone, or may not be looked into any more
        where = f"{error.filename}: " if error.filename else ""
        lines = (f"nothing can be proposed: {where}{error.strerror}",)
    return tuple(quoted(line, os.environ) for line in lines)


def _update(target: Path, run: Path, find: Callable[[str], Path | None], rules: Rules) -> Iterable[str]:
    records, _ = read_run(run)
    try:
        tables = Tables(find)
        earlier, unreadable = earlier_records(run, records, tables, rules)
        found = propose([*earlier, *records], tables, rules)
        patch = make_patch(found.proposed)
    except ConfigurationError as error:
        return (f"nothing can be proposed: {error}",)
    why = _reasons([*unreadable, *found.left_out, *patch.left_out], {one.row.id for one in patch.proposed})
    if not patch.text:
        there = [f"{target} is of an earlier session, and is left as it was"] if target.exists() else []
        return ("nothing can be proposed" if records else "nothing can be proposed: no row was run", *why, *there)
    try:
        make_directory(target.parent)
        write_whole(target, patch.text)
        review = review_text(patch, from_here(target))
    except OSError as error:
        return (f"{target} cannot be written: {error.strerror}",)
    return (*(proposal_text(one) for one in patch.proposed), *why, review)


def _reasons(left_out: Iterable[LeftOut], proposed: set[str]) -> list[str]:
    """Why rows have no figure, one line a reason; runs that a row can do without are not worth a line."""
    rows: dict[str, list[str]] = defaultdict(list)
    for one in left_out:
        if one.what not in proposed:
            rows[one.why].append(one.what)
    lines = []
    for why, names in rows.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        lines.append(f"left out: {', '.join(names[:_NAMED])}{more}: {why}")
    return lines
