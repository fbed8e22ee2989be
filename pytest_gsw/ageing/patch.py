"""From proposals to a diff that a person reviews: nothing here changes a file."""

from __future__ import annotations

import difflib
import json
import math
import re
import shlex
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pytest_gsw.ageing.proposals import LeftOut, Proposal
from pytest_gsw.common.words import ByNumber, by_number, counted
from pytest_gsw.errors import FileError
from pytest_gsw.performance.figures import documented_peak_flops, figures_of
from pytest_gsw.tables.bundled import accepted_file, bundled_baselines
from pytest_gsw.tables.keys import (
    ACCEPTED_FIELDS,
    ACCEPTED_FIGURES,
    Key,
    accepted_beside,
    entry_key,
    read_spread,
)
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.metrics import DOCUMENTED, SAVE_TIME, TOKENS_PER_S, TOKENS_PER_S_PER_GPU, Series
from pytest_gsw.tables.model import Accepted, Baseline
from pytest_gsw.tables.stated import stated_rows


@dataclass(frozen=True)
class Patch:
    """A unified diff, with what it proposes in front of it."""

    #: Empty where there is nothing to propose.
    text: str
    #: The directory in which the diff's paths are.
    base: Path
    proposed: tuple[Proposal, ...]
    #: Proposals that their file's text does not take.
    left_out: tuple[LeftOut, ...]


def make_patch(proposals: Iterable[Proposal], *, documented: bool = False) -> Patch:
    """The diff that would put these figures into the files beside their tables, or into the tables' documented ones."""
    by_table: dict[Path, list[Proposal]] = {}
    for proposal in proposals:
        path = proposal.row.location.path
        # The file beside a table that is a link is beside the link.
        by_table.setdefault(path.parent.resolve() / path.name, []).append(proposal)
    base = _base([file.resolve() for table in by_table for file in (table, accepted_file(table))])
    proposed: list[Proposal] = []
    left_out: list[LeftOut] = []
    diffs: list[str] = []
    for table, of_table in sorted(by_table.items()):
        try:
            free, taken = _by_place(table, of_table)
            diffs += [
                _diff(path.relative_to(base), *texts) for path, *texts in _files(table, free, documented=documented)
            ]
        except (ValueError, FileError, OSError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            why = f"{table} cannot be changed: {problem}"
            left_out += (LeftOut(one.row.id, one.accepted.cluster, why) for one in of_table)
        else:
            proposed += free
            left_out += taken
    head = [f"# {proposal_text(proposal, documented=documented)}\n" for proposal in proposed]
    if any(_is_installed(path.resolve()) for path in by_table):
        head.append("# These tables are part of an installed package: apply this where they come from.\n")
    return Patch("".join([*head, *diffs]), base, tuple(proposed), tuple(left_out))


def proposal_text(proposal: Proposal, *, documented: bool = False) -> str:
    """A proposal in one line: where, how much, beside what, made of what."""
    accepted, documented_s = proposal.accepted, proposal.documented_s
    change = accepted.judged_s / documented_s - 1
    than_documented = f"{abs(change) * 100:.1f} % {'longer' if change > 0 else 'shorter'}"
    jobs = counted(accepted.jobs, "job")
    beside = "in place of" if documented else "beside"
    old = proposal.row.accepted.get(accepted.cluster)
    before, of_date = "", ""
    if old is not None:
        taken_out = " and of the" if documented else ""
        before, of_date = f",{taken_out} {old.judged_s:.4g} s accepted on {old.date}", f" of {accepted.date}"
    return (
        f"{proposal.row.id} on {accepted.cluster}: {accepted.judged_s:.4g} s{of_date} {beside} the documented "
        f"{documented_s:.4g} s ({than_documented}){before}; median of {jobs} from {proposal.fastest_s:.4g} to "
        f"{proposal.slowest_s:.4g} s, spread {accepted.spread * 100:.2g} %"
    )


def review_text(patch: Patch, path: Path) -> str:
    """What to do with a patch that was written to a file."""
    if any(_is_installed(one.row.location.path.resolve()) for one in patch.proposed):
        return f"for review: {path}; it is of tables of an installed package: apply it where they come from"
    return f"for review: {path}; then {shlex.join(apply_command(patch, path))}"


def apply_command(patch: Patch, path: Path) -> list[str]:
    """The command that applies a patch that was written to a file."""
    here = patch.base == Path.cwd()
    file = str(path if here else path.resolve())
    if (patch.base / ".git").exists() or not any((parent / ".git").exists() for parent in patch.base.parents):
        return ["git", *([] if here else ["-C", str(patch.base)]), "apply", file]
    # Below the top of a work tree git leaves out, without a word, what is not there as seen from the top.
    return ["patch", *([] if here else ["-d", str(patch.base)]), "-p1", "-i", file]


def _by_place(table: Path, proposals: Iterable[Proposal]) -> tuple[list[Proposal], list[LeftOut]]:
    """Proposals, less those whose row and cluster have a figure in the table itself, which only people change."""
    beside = accepted_file(table)
    keys = {entry_key(entry.value) for entry in accepted_beside(table)}
    why = f"the accepted figure stands in {table} itself; move its list 'accepted' to {beside.name} beside it first"
    free: list[Proposal] = []
    left_out: list[LeftOut] = []
    for one in proposals:
        row, cluster = one.row, one.accepted.cluster
        if cluster in row.accepted and (row.id, cluster) not in keys:
            left_out.append(LeftOut(row.id, cluster, why))
        else:
            free.append(one)
    return free, left_out


def _files(table: Path, proposals: Sequence[Proposal], *, documented: bool) -> list[tuple[Path, str, str]]:
    """The files that are to be others, as they are and as they are to be, checked: the table, and the one beside it."""
    if not proposals:
        return []
    beside = accepted_file(table)
    # With the line ends that they have.
    text, old = (path.read_bytes().decode("utf-8") if path.exists() else "" for path in (table, beside))
    if documented:
        new_text = with_documented(table, text, [(one.row, _documented(one), one.accepted) for one in proposals])
        new = accepted_text(table, [], {(one.row.id, one.accepted.cluster) for one in proposals})
    else:
        new_text, new = text, accepted_text(table, [(one.row, one.accepted) for one in proposals])
    check(table, new_text, new, _rows_after(proposals, documented=documented))
    files = ((table.resolve(), text, new_text), (beside.resolve(), old, new))
    return [(path, before, after) for path, before, after in files if before != after]


def _rows_after(proposals: Iterable[Proposal], *, documented: bool) -> dict[str, Baseline]:
    """The rows of proposals, by id, as they are to be."""
    rows: dict[str, Baseline] = {}
    for one in proposals:
        row = rows.get(one.row.id, one.row)
        accepted = {**row.accepted, one.accepted.cluster: one.accepted}
        figures = row.documented
        if documented:
            del accepted[one.accepted.cluster]
            values = _documented(one)
            stated = {key: values.get(key, old) for key, old in vars(figures).items() if old is not None}
            figures = replace(figures, **stated)
        rows[row.id] = replace(row, accepted=accepted, documented=figures)
    return rows


def check(table: Path, text: str, accepted: str, wanted: Mapping[str, Baseline]) -> None:
    """Make sure that changed files say what was meant, and for all other rows what they say now.

    Args:
        table: The table as it is.
        text: What it would be.
        accepted: What the file beside it would be, "" for none.
        wanted: Rows as they are to be, by id; documented figures may differ from them in the last digits.

    Raises:
        EditError: They do not.
    """
    expected = {**{row.id: row for row in load_table(table)}, **wanted}
    with tempfile.TemporaryDirectory() as directory:
        draft = Path(directory, table.name)
        draft.write_bytes(text.encode("utf-8"))
        if accepted:
            accepted_file(draft).write_bytes(accepted.encode("utf-8"))
        try:
            found = {row.id: row for row in load_table(draft)}
        except FileError as error:
            raise EditError(f"the changed text would be wrong: {error.faults[0]}") from None
    different = [row_id for row_id in {**expected, **found} if not _same(expected.get(row_id), found.get(row_id))]
    if different:
        raise EditError(f"the changed text would not say what was meant of {different[0]}")


def _same(expected: Baseline | None, found: Baseline | None) -> bool:
    if expected is None or found is None:
        return False
    documented = vars(found.documented)
    close = all(_close(value, documented[key]) for key, value in vars(expected.documented).items())
    return close and expected == replace(found, location=expected.location, documented=expected.documented)


def _close(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and math.isclose(one, other, rel_tol=1e-3))


def _documented(proposal: Proposal) -> dict[str, float]:
    """Every figure that a document may state, from a proposal's seconds."""
    row, judged_s = proposal.row, proposal.accepted.judged_s
    all_figures = vars(figures_of(row, judged_s, documented_peak_flops(row)))
    found = {name: value for name, value in all_figures.items() if value is not None}
    if TOKENS_PER_S.key in found:
        found[TOKENS_PER_S_PER_GPU] = found[TOKENS_PER_S.key] / row.gpus
    return found


def _base(paths: Iterable[Path]) -> Path:
    """The directory in which a patch of these files applies.

    That is their repository, else the working directory, else what they share. Tables of an installed
    package are named as in the repository that they come from.
    """
    files = list(paths)
    if files and all(_is_installed(path) for path in files):
        return bundled_baselines().resolve().parent
    parents = files[0].parents if files else ()
    candidates = [parent for parent in parents if (parent / ".git").exists()]
    for candidate in (*candidates, Path.cwd(), *(parent.parent for parent in parents)):
        if all(path.is_relative_to(candidate) for path in files):
            return candidate
    return Path("/")


def _is_installed(path: Path) -> bool:
    return "site-packages" in path.parts and path.is_relative_to(bundled_baselines().resolve())


def _diff(path: Path, old: str, new: str) -> str:
    name = path.as_posix()
    if not name.isprintable() or any(character in name for character in '"\\'):
        raise EditError("its name cannot stand in a diff")
    end = "\t" if " " in name else ""  # without it, patch(1) takes a name's first word
    before, after = (f"{side}/{name}{end}" if text else "/dev/null" for side, text in (("a", old), ("b", new)))
    lines = difflib.unified_diff(_lines(old), _lines(new), before, after)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Lines as patch(1) and git count them: by line feeds alone."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


# -- the file of accepted figures, written whole ---------------------------------------------------


_HEAD = "# Written whole by pytest-gsw baseline propose, by row and cluster: what else is written here is lost.\n"
#: A text that YAML takes as it stands, whatever stands around it; row ids have brackets behind their first letter.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._+/-]*(\[[A-Za-z0-9._-]*\])?")
#: Words that YAML takes for something else.
_NOT_PLAIN = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def accepted_text(table: Path, new: Iterable[tuple[Baseline, Accepted]], without: Collection[Key] = ()) -> str:
    """The text of the file beside a table once it has these figures, "" where none is left.

    Args:
        table: The table's file.
        new: Figures, each in place of that of the same row and cluster.
        without: Rows and clusters whose figures are taken out.

    Raises:
        FileError: The file that is there is wrong.
    """
    there = (entry.value for entry in accepted_beside(table))
    figures = {entry_key(entry): {key: value.value for key, value in entry.items()} for entry in there}
    for row, accepted in new:
        judged = {ACCEPTED_FIGURES[row.metric]: accepted.judged_s}
        figures[row.id, accepted.cluster] = {"row": row.id, **judged, **vars(accepted)}
    entries = [_entry(values) for key, values in sorted(figures.items(), key=_place) if key not in without]
    return "".join([_HEAD, "accepted:\n", *entries]) if entries else ""


def _place(figure: tuple[Key, Mapping[str, Any]]) -> tuple[ByNumber, str]:
    (row, cluster), _ = figure
    return by_number(row), cluster


def _entry(values: Mapping[str, Any]) -> str:
    keys = [key for key in ACCEPTED_FIELDS if values.get(key) is not None]
    lines = "\n    ".join(f"{key}: {_written(key, values[key])}" for key in keys)
    return f"  - {lines}\n"


def _written(key: str, value: Any) -> str:
    """A value so that it is read as what it is, to the last digit."""
    if key in {"row", "cluster", "image"} and _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
        return str(value)
    if key == "spread":
        short = f"{value * 100:.2f}%"
        return short if read_spread(short) == value else f"{(Decimal(repr(value)) * 100).normalize():f}%"
    if isinstance(value, float):
        short = f"{value:.6g}"
        return short if float(short) == value else repr(value)
    # Twelve digits, or digits around an "e", would be a number to other readers of YAML.
    return str(value) if key in {"jobs", "date"} else json.dumps(value, ensure_ascii=False)


# -- a site's own document, edited where its figures stand -----------------------------------------


#: A number or percentage as tables have it, quoted or not.
_TOKEN = re.compile(r"""(?P<quote>["']?)(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?P<unit> ?%)?(?P=quote)""")
#: The comment above a documented figure that was measured, as :func:`with_documented` writes it.
_MEASURED = re.compile(r"[ \t]*# measured on [A-Za-z0-9._-]+, \d{4}-\d\d-\d\d: median of ")
#: Figures are written with this many digits at least; documents have four.
_DIGITS = 4

#: What a row's document may state; all of it follows from the step time.
_STEP_FIGURES = tuple(key for key in DOCUMENTED if key != SAVE_TIME.key)


class EditError(ValueError):
    """The file cannot be changed; the message says why, for the one who edits it by hand."""


def with_documented(path: Path, text: str, changes: Sequence[tuple[Baseline, Mapping[str, float], Accepted]]) -> str:
    """A table's text with other documented figures, and a comment above each row that says what they are made of.

    The text is edited, and not written anew from its rows: the table is somebody's own document, whose comments, order
    and alignment no reader of YAML keeps. Places come from the loader, never from a guess at the file's style, and
    :func:`pytest_gsw.ageing.patch.check` makes sure that the new text says what was meant and nothing else.

    Args:
        path: The table.
        text: Its text.
        changes: A row, the new values of all figures that its document may state (fractions for percentages),
            and what they were measured by.

    Raises:
        EditError: A figure of the row does not follow from its step time, or is not written at the row itself.
        FileError: The file is wrong.
    """
    lines = text.splitlines(keepends=True)
    stated = {row.id: row.values for row in stated_rows(path)}
    comments: dict[int, list[str]] = {}
    edits: list[tuple[int, int, str, float]] = []
    for row, figures, accepted in changes:
        judged = row.judged_by
        for key in (judged.key,) if judged.series is Series.SAVES else _STEP_FIGURES:
            place = stated[row.id].get(key)
            if place is None:
                continue
            if (place.line, place.column) < (row.location.line, row.location.column):
                raise EditError(f"{key} of {row.id} is not written at the row itself")
            if key not in figures:
                raise EditError(f"nothing says what {key} of {row.id} would be")
            edits.append((place.line - 1, place.column - 1, key, figures[key]))
        comments.setdefault(_row_line(lines, row), []).append(_measured_by(accepted))
    # From the last to the first, so that places before stay where they are.
    for number, column, key, value in sorted(edits, reverse=True):
        lines[number] = _with_token(lines[number], column, key, value)
    for number in sorted(comments, reverse=True):
        line = lines[number]
        indent, end = line[: len(line) - len(line.lstrip(" "))], "\r\n" if line.endswith("\r\n") else "\n"
        old = number > 0 and _MEASURED.match(lines[number - 1]) is not None
        lines[number - old : number] = [f"{indent}{comment}{end}" for comment in comments[number]]
    return "".join(lines)


def _row_line(lines: Sequence[str], row: Baseline) -> int:
    """The line above which a row's comment goes: its own, or that of a dash that stands alone above it."""
    number = row.location.line - 1
    alone = not lines[number][: row.location.column - 1].strip() and lines[number - 1].strip() == "-"
    return number - 1 if number > 0 and alone else number


def _measured_by(accepted: Accepted) -> str:
    image = "" if accepted.image is None else f", image {accepted.image}"
    median = (
        f"median of {counted(accepted.jobs, 'job')}, spread {accepted.spread * 100:.2f} % ({accepted.job_ids}){image}"
    )
    return f"# measured on {accepted.cluster}, {accepted.date}: {median}"


def _with_token(line: str, column: int, key: str, value: float) -> str:
    match = _TOKEN.match(line, column)
    if match is None:
        raise EditError(f"{key} is not written as a plain number")
    number = value * 100 if match["unit"] else value
    quote = match["quote"]
    new = f"{quote}{_like(match['number'], number)}{match['unit'] or ''}{quote}"
    # Tables are often aligned: a number ends where the old one ended, as long as one of the blanks before it is left.
    before = line[: min(len(line[:column].rstrip(" ")) + 1, column)]
    return f"{before}{new.rjust(match.end() - len(before))}{line[match.end() :]}"


def _like(old: str, value: float) -> str:
    """A number with as many decimals as the one that it replaces has, and with four digits at least."""
    if "e" in old.lower():
        return f"{value:.6g}"
    decimals = len(old.partition(".")[2])
    digits_before = math.floor(math.log10(value)) + 1
    return f"{value:.{max(decimals, _DIGITS - digits_before, 0)}f}"
