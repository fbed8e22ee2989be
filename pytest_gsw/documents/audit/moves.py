"""How the figures of one configuration move from one release to the next."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.findings import Explanation, Finding, Kind, Severity, Uses
from pytest_gsw.documents.audit.groups import Run, run_of
from pytest_gsw.documents.audit.written import share

#: A move beyond this share of the throughput is told: the usual tolerance.
_MOVED = Fraction(1, 20)
#: What makes two rows the same of two releases; how they are made parallel is what a release may change.
_SAME = (
    *("model", "size", "framework", "dtype", "accelerator", "gpus", "layers", "sequence_length", "global_batch_size"),
    *("proxy", "metric"),
)


def moves(rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Throughputs that differ from those of the release before, by more than a row is judged by."""
    series: dict[tuple[str, ...], dict[str, list[Run]]] = {}
    for row in rows:
        release, run = _release(row), run_of(row)
        if release and run is not None:
            same = (run.unit, _case(row, release), *(row.text(key) for key in _SAME))
            series.setdefault(same, {}).setdefault(release, []).append(run)
    for releases in series.values():
        # Several rows of one release are told apart by nothing that two releases share.
        alone = {release: runs[0] for release, runs in releases.items() if len(runs) == 1}
        for before, after in itertools.pairwise(sorted(alone, key=_order)):
            moved = alone[after].throughput / alone[before].throughput - 1
            yield _finding(alone[before], before, alone[after], after, moved) if abs(moved) > _MOVED else None


def _release(row: Row) -> str:
    """The release that a row's figures are of: the first one where they hold for several."""
    return row.text("release").removeprefix("v")


def _case(row: Row, release: str) -> str:
    """What tells the row from others of its release: its case without the release in front."""
    return row.text("case").removeprefix(release).removeprefix("-")


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", release))


def _finding(before: Run, old: str, after: Run, new: str, moved: Fraction) -> Finding:
    notes = after.row.text("notes")
    text = (
        f"the throughput of release {new} is {share(abs(moved))} {'more' if moved > 0 else 'less'} than that of {old}"
    )
    return after.row.finding(
        after.key,
        after.documented,
        before.documented,
        f"the same in release {old}, {before.row.id}",
        Explanation(Kind.ANOTHER_RUN, f"{text}; noted there: {notes}" if notes else text),
        severity=Severity.NOTICE,
        uses=Uses.DOCUMENTED,
        identity="release",
    )
