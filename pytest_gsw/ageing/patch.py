"""From proposals to a diff that a person reviews: nothing here changes a table."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.ageing import edit
from pytest_gsw.ageing.proposals import LeftOut, Proposal
from pytest_gsw.common.words import counted
from pytest_gsw.errors import FileError
from pytest_gsw.performance.figures import figures_of
from pytest_gsw.performance.peaks import documented_peak_flops
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.metrics import TOKENS_PER_S, TOKENS_PER_S_PER_GPU
from pytest_gsw.tables.model import Baseline


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
    """The diff that would put these figures into their tables.

    Args:
        proposals: The figures.
        documented: Change the documented figures themselves, and put none beside them.
    """
    by_file: dict[Path, list[Proposal]] = {}
    for proposal in proposals:
        by_file.setdefault(proposal.row.location.path.resolve(), []).append(proposal)
    base = _base(by_file)
    proposed: list[Proposal] = []
    left_out: list[LeftOut] = []
    diffs = []
    for path, of_file in sorted(by_file.items()):
        try:
            old, new = edit.read_text(path), _edited(path, of_file, documented=documented)
            diffs.append(_diff(path.relative_to(base).as_posix(), old, new))
        except (edit.EditError, FileError, OSError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            why = f"{path} cannot be changed: {problem}"
            left_out += (LeftOut(one.row.id, one.accepted.cluster, why) for one in of_file)
        else:
            proposed += of_file
    head = [f"# {proposal_text(proposal, documented=documented)}\n" for proposal in proposed]
    if any(_is_installed(path) for path in by_file):
        head.append("# These tables are part of an installed package: apply this where they come from.\n")
    return Patch("".join([*head, *diffs]), base, tuple(proposed), tuple(left_out))


def proposal_text(proposal: Proposal, *, documented: bool = False) -> str:
    """A proposal in one line: where, how much, beside what, made of what."""
    accepted, documented_s = proposal.accepted, proposal.documented_s
    change = accepted.judged_s / documented_s - 1
    jobs = counted(accepted.jobs, "job")
    beside = "in place of" if documented else "beside"
    old = proposal.row.accepted.get(accepted.cluster)
    before, of_date = "", ""
    if old is not None:
        taken_out = " and of the" if documented else ""
        before, of_date = f",{taken_out} {old.judged_s:.4g} s accepted on {old.date}", f" of {accepted.date}"
    return (
        f"{proposal.row.id} on {accepted.cluster}: {accepted.judged_s:.4g} s{of_date} {beside} the documented "
        f"{documented_s:.4g} s ({change * 100:+.1f} %){before}; median of {jobs} from {proposal.fastest_s:.4g} to "
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


def _edited(path: Path, proposals: Sequence[Proposal], *, documented: bool) -> str:
    """The text that a file would have, checked."""
    if documented:
        changes = [(one, _documented(one)) for one in proposals]
        text = edit.with_documented(path, [(one.row, values, one.accepted) for one, values in changes])
        wanted: Iterable[Baseline] = [
            edit.expected_after(one.row, values, without=one.accepted.cluster) for one, values in changes
        ]
    else:
        text = edit.with_accepted(path, [(one.row, one.accepted) for one in proposals])
        wanted = _with_all_accepted(proposals)
    edit.check(path, text, wanted)
    return text


def _with_all_accepted(proposals: Iterable[Proposal]) -> Iterable[Baseline]:
    rows: dict[str, Baseline] = {}
    for one in proposals:
        row = rows.get(one.row.id, one.row)
        rows[row.id] = replace(row, accepted={**row.accepted, one.accepted.cluster: one.accepted})
    return rows.values()


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


def _diff(name: str, old: str, new: str) -> str:
    if not name.isprintable() or any(character in name for character in '"\\'):
        raise edit.EditError("its name cannot stand in a diff")
    end = "\t" if " " in name else ""  # without it, patch(1) takes a name's first word
    lines = difflib.unified_diff(_lines(old), _lines(new), f"a/{name}{end}", f"b/{name}{end}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Lines as patch(1) and git count them: by line feeds alone."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]
