"""Proposals of figures for a cluster to accept, from records of runs, each with its sources.

One job is one point: the steps of one run do not predict the next one. Points are only runs that were measured,
that may be compared, and whose row is unchanged; everything left out has a reason.
"""

from __future__ import annotations

import difflib
import io
import json
import math
import re
import shlex
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pytest_gsw.common.groups import grouped
from pytest_gsw.common.masks import MASK
from pytest_gsw.common.text import by_number, calendar, enumerated, percent, plural
from pytest_gsw.common.typed_json import facts
from pytest_gsw.errors import FileError
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import CLUSTER_NAME, NO_CLUSTER, Record, ran_with
from pytest_gsw.stats.figures import documented_peak_flops, figures_of
from pytest_gsw.stats.noise import ACCEPTED_JOBS
from pytest_gsw.stats.verdict import FORBIDS, Reason
from pytest_gsw.tables import bundled, load, metrics, schema
from pytest_gsw.tables.model import Accepted, Baseline, definition_hash, image_name
from pytest_gsw.tables.stated_rows import stated_rows
from pytest_gsw.tables.value_types import LARGEST, SMALLEST

#: A row whose jobs spread by 3 % fails a tolerance of 5 % in one run of twenty without any change.
MAX_SPREAD = 0.03

_JOB_ID = re.compile(r"[A-Za-z0-9._:/-]{1,100}")


@dataclass(frozen=True)
class Rules:
    """Requirements on the jobs behind a figure."""

    min_jobs: int = ACCEPTED_JOBS
    #: Largest standard deviation of the jobs over their median, as a fraction.
    max_spread: float = MAX_SPREAD
    #: Runs with an implausible gain count up to this gain, as a fraction; ``None`` excludes them all.
    max_gain: float | None = None
    #: True to change the documented figure, not the accepted one.
    documented: bool = False


@dataclass(frozen=True)
class Proposal:
    """A figure that a cluster may accept for a row."""

    #: The row in its current table.
    row: Baseline
    accepted: Accepted
    #: The lowest and the highest figure of its jobs.
    low: float
    high: float

    @property
    def documented(self) -> float:
        """The documented figure, which stays."""
        assert self.row.judged is not None  # a row without one is no point
        return self.row.judged


@dataclass(frozen=True, order=True)
class LeftOut:
    """Runs that are no points, or points without a figure, and the reason."""

    #: A row's id, or another subject.
    what: str
    #: The cluster; "" without one.
    cluster: str
    why: str
    #: Number of runs; 0 if it concerns the row as a whole.
    runs: int = 0

    def __str__(self) -> str:
        where = f" on {self.cluster}" if self.cluster else ""
        runs = f" ({plural(self.runs, 'run')})" if self.runs else ""
        return f"{self.what}{where}: {self.why}{runs}"


@dataclass(frozen=True)
class Proposals:
    """Possible proposals, and rows without one, with the reason."""

    proposed: tuple[Proposal, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


#: Finds a table by its name, the same as in pytest's node ids and in records.
Find = Callable[[str], Path | None]


def propose(records: Iterable[Record], find: Find, rules: Rules | None = None) -> Proposals:
    """Figures that clusters may accept by these runs, of any rows and clusters; records of one job count once."""
    rules = rules or Rules()
    tables = cache(lambda name: _rows_in(find(name), name))
    # A job is identified by its end as well: ids alone may return, after years or in another database.
    clusters: dict[tuple[Path, str, str, float | None], str] = {}
    # Two tables may have rows with the same id.
    points: dict[tuple[Path, str, str], list[Record]] = {}
    rows: dict[tuple[Path, str], Baseline] = {}
    refused: Counter[tuple[str, str, str]] = Counter()
    # A job belongs to its first record: a replay, on any cluster, records it again.
    for record in sorted(records, key=lambda record: record.run.id):
        row, cluster = _row_of_point(record, tables, rules), record.run.cluster
        if isinstance(row, str):
            refused[record.row.row_id, cluster, row] += 1
            continue
        key = row.location.path, row.id
        rows[key] = row
        for of_job in _split_jobs(record):
            assert of_job.jobs.last is not None  # else it is no point
            job = *key, of_job.jobs.last.id, _ended_s(of_job)
            if job not in clusters:
                clusters[job] = cluster
                points.setdefault((*key, cluster), []).append(of_job)
            elif clusters[job] != cluster:
                refused[row.id, cluster, f"is of a job that was recorded on {clusters[job]} before"] += 1
    proposed: list[Proposal] = []
    left_out = [LeftOut(*why, runs) for why, runs in refused.items()]
    for (path, row_id, cluster), of_cluster in points.items():
        of_cluster.sort(key=lambda record: (_ended_s(record) or 0.0, record.run.id))
        newest = of_cluster[-1]
        # All match the current row: they can differ in the image only.
        same = [record for record in of_cluster if record.row.definition == newest.row.definition]
        if len(same) < len(of_cluster):
            why = f"ran another image than the newest run, {newest.run.image or 'an image that is not known'}"
            left_out.append(LeftOut(row_id, cluster, why, len(of_cluster) - len(same)))
        proposal = _figure(rows[path, row_id], same, rules)
        if isinstance(proposal, str):
            left_out.append(LeftOut(row_id, cluster, proposal))
        else:
            proposed.append(proposal)
    proposed.sort(key=lambda one: (one.row.location.path, one.row.location.line, one.accepted.cluster))
    return Proposals(tuple(proposed), tuple(left_out))


def _rows_in(table: Path | None, name: str) -> Mapping[str, Baseline] | str:
    """The rows of a table by id, or the reason why there are none."""
    if table is None:
        return f"there is no table {name} here; go to where it is, or name it with --baselines=PATH"
    try:
        return {row.id: row for row in load.load_table(table)}
    except FileError as error:
        return f"{error.path} is wrong: {error.faults[0]}"


def _split_jobs(record: Record) -> Iterator[Record]:
    """A record for each of the jobs of a median, as if each had been the only one."""
    judged = record.judged_metric.field
    for job in record.measured_jobs:
        measured = {**record.figures.measured, judged: job.judged}
        alone = replace(record.jobs, last=job, repeats=())
        yield replace(record, jobs=alone, figures=replace(record.figures, measured=measured))


def _row_of_point(
    record: Record, tables: Callable[[str], Mapping[str, Baseline] | str], rules: Rules
) -> Baseline | str:
    """The current row of a record, or the reason why the record is no point."""
    why = _not_a_point(record, rules)
    if why is not None:
        return why
    table, _, _ = record.row.baseline.rpartition(":")
    rows = tables(table)
    if isinstance(rows, str):
        return rows
    row = rows.get(record.row.id)
    if row is None:
        return f"{table} has no such row any more"
    documented = record.judged_of(record.figures.documented)
    if row.judged is None or documented is None or not math.isclose(row.judged, documented, rel_tol=1e-9):
        was, now = (f"{value:g} {row.judged_by.unit}" if value else "none" for value in (documented, row.judged))
        return f"the documented figure has changed since, from {was} to {now}"
    definition = definition_hash(row, record.run.image)
    if definition != record.row.definition and MASK in (record.run.image or ""):
        return "has an image that is hidden as a secret, so that nothing can be compared with it"
    if definition != record.row.definition:
        return f"the row's definition has changed since, from {record.row.definition} to {definition}"
    named = row.recipe.image
    if named is not None and record.run.image_from in {"", "table"} and image_name(named) != record.run.image:
        return f"ran the image {record.run.image}, and the table names {image_name(named)} now"
    return row


def _not_a_point(record: Record, rules: Rules) -> str | None:
    """The reason why a record is no evidence of a row's speed on a cluster."""
    measured, judged = record.measured, record.judged
    is_plausible = (
        record.reason == Reason.TOO_GOOD.value
        and judged is not None
        and judged.greatest_gain <= (rules.max_gain or 0.0)
    )
    reasons = {
        "is simulated, and its figures are made up": record.run.simulated,
        FORBIDS[Reason.TILE.value]: bool(record.row.tile),
        FORBIDS.get(record.reason, ""): record.reason in FORBIDS and not is_plausible,
        f"is not comparable, because of {record.not_comparable}": record.not_comparable is not None,
        f"was not measured and judged, but ended as '{record.outcome}'": record.outcome not in outcomes.JUDGED,
        "was replayed without its cluster; add --gsw-cluster=NAME to the replay": record.run.cluster == NO_CLUSTER,
        "has only a log; the end of its job is unknown": record.jobs.last is None
        or record.jobs.last.state is not JobState.COMPLETED
        or _JOB_ID.fullmatch(record.jobs.last.id) is None,
        "has no figure": measured is None or not 0 < measured < math.inf,
        f"has no figure that a table takes, from {SMALLEST:g} to {LARGEST:g} {record.judged_metric.unit}": bool(
            measured
        )
        and not SMALLEST <= (measured or 1) <= LARGEST,
        "has a job that ended on no day": _ended_s(record) is not None and _day(_ended_s(record)) is None,
        "has a cluster whose name no table takes": CLUSTER_NAME.fullmatch(record.run.cluster) is None,
        "has an image whose name no table takes": not (record.run.image or "-").isprintable(),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _figure(row: Baseline, records: Sequence[Record], rules: Rules) -> Proposal | str:
    """The figure of one row's points, or the reason why there is none."""
    values = [record.measured for record in records if record.measured is not None]
    jobs = len(values)
    if jobs < rules.min_jobs:
        return f"{plural(jobs, 'job')}, at least {rules.min_jobs} needed (--min-jobs)"
    median = statistics.median(values)
    # Not a robust measure on purpose: if two jobs of five are 10 % slower than the other three, the median absolute
    # deviation is 0, and that cluster is not quiet. Nor the range, which grows with the number of jobs.
    spread = statistics.stdev(values) / median if jobs > 1 else 0.0
    if spread > rules.max_spread:
        limits = row.judged_by.span(min(values), max(values))
        allowed = f"at most {rules.max_spread * 100:g} % allowed (--max-spread)"
        spread_text = f"{_percent_above(spread, rules.max_spread)} % ({limits}), {allowed}"
        return f"the spread of {plural(jobs, 'job')} is {spread_text}{_differences_text(records)}"
    date = _date(records[-1])
    if date is None:
        return "no record has the time at which its job ended"
    accepted = Accepted(
        cluster=records[-1].run.cluster,
        # The written figure is the one used for verdicts, to the last digit.
        judged=float(f"{median:.6g}"),
        jobs=jobs,
        spread=round(spread, 4),
        job_ids=", ".join(record.jobs.last.id for record in records if record.jobs.last is not None),
        date=date,
        definition=records[-1].row.definition,
        image=records[-1].run.image,
        documented=row.judged,
    )
    old = row.accepted.get(accepted.cluster)
    if old == accepted and not rules.documented:
        return f"the figure of {plural(jobs, 'job')} is accepted already"
    if old is not None and date < old.date:
        return f"the newest of {plural(jobs, 'job')} ended on {date}, and the accepted figure is of {old.date}"
    return Proposal(row, accepted, min(values), max(values))


def _differences_text(records: Sequence[Record]) -> str:
    """Differences between the jobs of a spread that is too large; two states of a cluster have no common figure."""
    facts = ran_with(*(record.run for record in records))
    names = sorted({name for of_job in facts for name in of_job})
    differ = [name for name in names if len({of_job[name] for of_job in facts if of_job.get(name)}) > 1]
    return f"; they ran with different {enumerated(differ)}: name the runs since the last change" if differ else ""


def _percent_above(fraction: float, limit: float) -> str:
    """A fraction above a limit, in percent, with enough digits to distinguish the two."""
    texts = (f"{fraction * 100:.{digits}f}" for digits in range(1, 15))
    return next((text for text in texts if float(text) > limit * 100), f"{fraction * 100}")


def _ended_s(record: Record) -> float | None:
    return None if record.jobs.last is None else record.jobs.last.known_end_s


def _date(record: Record) -> str | None:
    """The day (UTC) of the end of a record's job; for a job without times, that of its session."""
    ended_s = _ended_s(record)
    if ended_s is not None:
        return _day(ended_s)
    match = re.match(r"(\d{4})(\d\d)(\d\d)-", record.run.id)
    return "-".join(match.groups()) if match else None


def _day(seconds: float | None) -> str | None:
    """The day (UTC) of a time since the epoch; ``None`` if out of the calendar's range."""
    moment = calendar(seconds, timezone.utc)
    return None if moment is None else moment.date().isoformat()


# -- from proposals to a diff that a person reviews: this module changes no file -------------------


@dataclass(frozen=True)
class Patch:
    """A unified diff, with its proposals as comments before it."""

    #: Empty if there is nothing to propose.
    text: str
    #: The directory that the diff's paths are relative to.
    base: Path
    proposed: tuple[Proposal, ...]
    #: Proposals that cannot be written into their file.
    left_out: tuple[LeftOut, ...]


def make_patch(proposals: Iterable[Proposal], *, documented: bool = False) -> Patch:
    """The diff of these figures, for the files next to their tables, or for the tables' documented figures."""
    paths = ((proposal.row.location.path, proposal) for proposal in proposals)
    # For a table that is a link, the file is next to the link.
    by_table = grouped([(path.parent.resolve() / path.name, proposal) for path, proposal in paths])
    base = _base([file.resolve() for table in by_table for file in (table, bundled.accepted_file(table))])
    proposed: list[Proposal] = []
    left_out: list[LeftOut] = []
    diffs: list[str] = []
    for table, of_table in sorted(by_table.items()):
        try:
            diffs += [
                _diff(path.relative_to(base), *texts) for path, *texts in _files(table, of_table, documented=documented)
            ]
        except (ValueError, FileError, OSError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            why = f"{table} cannot be changed: {problem}"
            left_out += (LeftOut(changed.row.id, changed.accepted.cluster, why) for changed in of_table)
        else:
            proposed += of_table
    head = [f"# {proposal_text(proposal, documented=documented)}\n" for proposal in proposed]
    if any(_is_installed(path.resolve()) for path in by_table):
        head.append("# These tables are part of an installed package: apply this to copies of them.\n")
    return Patch("".join([*head, *diffs]), base, tuple(proposed), tuple(left_out))


def proposal_text(proposal: Proposal, *, documented: bool = False) -> str:
    """A proposal in one line: row, cluster, figure, documented figure, and jobs."""
    accepted, metric = proposal.accepted, proposal.row.judged_by
    change = percent(metric.change(accepted.judged, proposal.documented))
    jobs = plural(accepted.jobs, "job")
    accepted_path = "in place of" if documented else "beside"
    old = proposal.row.accepted.get(accepted.cluster)
    before, of_date = "", ""
    if old is not None:
        taken_out = " and of the" if documented else ""
        before, of_date = f",{taken_out} {metric.text(old.judged)} accepted on {old.date}", f" of {accepted.date}"
    return (
        f"{proposal.row.id} on {accepted.cluster}: {metric.text(accepted.judged)}{of_date} {accepted_path} the "
        f"documented {metric.text(proposal.documented)} ({metric.change_label} {change}){before}; median of {jobs} "
        f"from {metric.span(proposal.low, proposal.high)}, spread {accepted.spread * 100:.2g} %"
    )


def review_text(patch: Patch, path: Path) -> str:
    """The next step for a patch in a file."""
    installed = {one.row.location.path for one in patch.proposed if _is_installed(one.row.location.path.resolve())}
    if installed:
        places = {table: str(table.resolve().relative_to(patch.base).parent) for table in sorted(installed)}
        copies = [
            ["mkdir", "-p", *dict.fromkeys(places.values())],
            *(["cp", str(source), to] for source, to in places.items()),
        ]
        steps = " && ".join(map(shlex.join, [*copies, ["patch", "-p1", "-i", str(path)]]))
        why = "its tables are part of an installed package, which no diff changes; to use copies of them with"
        return f"for review: {path}; {why} --gsw-baselines=baselines: {steps}"
    return f"for review: {path}; then {shlex.join(apply_command(patch, path))}"


def apply_command(patch: Patch, path: Path) -> list[str]:
    """The command that applies a patch in a file."""
    here = patch.base == Path.cwd()
    file = str(path if here else path.resolve())
    if (patch.base / ".git").exists() or not any((parent / ".git").exists() for parent in patch.base.parents):
        return ["git", *([] if here else ["-C", str(patch.base)]), "apply", file]
    # Below the top of a work tree, git silently skips paths that do not exist from the top.
    return ["patch", *([] if here else ["-d", str(patch.base)]), "-p1", "-i", file]


def _files(table: Path, proposals: Sequence[Proposal], *, documented: bool) -> list[tuple[Path, str, str]]:
    """The changed files with old and new text, checked: the table, and the file next to it."""
    accepted_path = bundled.accepted_file(table)
    # With their own line ends.
    text, old = (path.read_bytes().decode("utf-8") if path.exists() else "" for path in (table, accepted_path))
    if documented:
        new_text = with_documented(table, text, [(one.row, _documented(one), one.accepted) for one in proposals])
        new = accepted_text(table, [], {(proposal.row.id, proposal.accepted.cluster) for proposal in proposals})
    else:
        new_text, new = text, accepted_text(table, [(proposal.row, proposal.accepted) for proposal in proposals])
    check(table, new_text, new, _rows_after(proposals, documented=documented))
    files = ((table.resolve(), text, new_text), (accepted_path.resolve(), old, new))
    return [(path, before, after) for path, before, after in files if before != after]


def _rows_after(proposals: Iterable[Proposal], *, documented: bool) -> dict[str, Baseline]:
    """The rows after the proposals, by id."""
    rows: dict[str, Baseline] = {}
    for proposal in proposals:
        row = rows.get(proposal.row.id, proposal.row)
        accepted = {**row.accepted, proposal.accepted.cluster: proposal.accepted}
        figures = row.documented
        if documented:
            del accepted[proposal.accepted.cluster]
            values = _documented(proposal)
            stated = {key: values.get(key, old) for key, old in vars(figures).items() if old is not None}
            figures = replace(figures, **stated)
        rows[row.id] = replace(row, accepted=accepted, documented=figures)
    return rows


def check(table: Path, text: str, accepted: str, wanted: Mapping[str, Baseline]) -> None:
    """Check that changed files have the intended rows, and all other rows unchanged.

    Args:
        table: The current table.
        text: Its new text.
        accepted: The new text of the file next to it, "" for none.
        wanted: Rows after the change, by id; documented figures may differ from them in the last digits.

    Raises:
        EditError: They do not.
    """
    expected = {**{row.id: row for row in load.load_table(table)}, **wanted}
    with tempfile.TemporaryDirectory() as directory:
        draft = Path(directory, table.name)
        draft.write_bytes(text.encode("utf-8"))
        if accepted:
            bundled.accepted_file(draft).write_bytes(accepted.encode("utf-8"))
        try:
            rows = {row.id: row for row in load.load_table(draft)}
        except FileError as error:
            raise EditError(f"the changed text would be wrong: {error.faults[0]}") from None
    different = [row_id for row_id in {**expected, **rows} if not _same(expected.get(row_id), rows.get(row_id))]
    if different:
        raise EditError(f"the changed text would not say what was meant of {different[0]}")


def _same(expected: Baseline | None, found: Baseline | None) -> bool:
    if expected is None or found is None:
        return False
    figures = zip(vars(expected.documented).values(), vars(found.documented).values(), strict=True)
    close = all(math.isclose(figure or 0.0, other or 0.0, rel_tol=1e-3) for figure, other in figures)
    source, place = expected.source, expected.location
    if (source.document, source.line) == (place.path.name, place.line):  # the table is its own document
        expected = replace(expected, source=replace(source, line=found.location.line))
    return close and expected == replace(found, location=place, documented=expected.documented)


def _documented(proposal: Proposal) -> dict[str, float]:
    """Every figure that a document may state, from a proposal's."""
    row = proposal.row
    all_figures = vars(figures_of(row, proposal.accepted.judged, documented_peak_flops(row)))
    figures = {name: value for name, value in all_figures.items() if value is not None}
    if metrics.TOKENS_PER_S.key in figures:
        figures[metrics.TOKENS_PER_S_PER_GPU] = figures[metrics.TOKENS_PER_S.key] / row.gpus
    return figures


def _base(paths: Iterable[Path]) -> Path:
    """The directory in which a patch of these files applies.

    It is their repository, else the working directory, else their common parent. Tables of an installed
    package are named as in the repository that they come from.
    """
    files = list(paths)
    if files and all(_is_installed(path) for path in files):
        return bundled.bundled_baselines().resolve().parent
    parents = files[0].parents if files else ()
    candidates = [parent for parent in parents if (parent / ".git").exists()]
    for candidate in (*candidates, Path.cwd(), *(parent.parent for parent in parents)):
        if all(path.is_relative_to(candidate) for path in files):
            return candidate
    return Path("/")


def _is_installed(path: Path) -> bool:
    return "site-packages" in path.parts and path.is_relative_to(bundled.bundled_baselines().resolve())


def _diff(path: Path, old: str, new: str) -> str:
    name = path.as_posix()
    if not name.isprintable() or any(character in name for character in '"\\'):
        raise EditError("its name is not allowed in a diff")
    end = "\t" if " " in name else ""  # without it, patch(1) uses a name's first word
    before, after = (f"{side}/{name}{end}" if text else "/dev/null" for side, text in (("a", old), ("b", new)))
    # Lines as counted by patch(1) and git: separated by line feeds alone.
    old_lines, new_lines = ([*io.StringIO(text, newline="\n")] for text in (old, new))
    lines = difflib.unified_diff(old_lines, new_lines, before, after)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


# -- the file of accepted figures, rewritten as a whole --------------------------------------------


_HEAD = "# Written whole by pytest-gsw baseline propose, by row and cluster: what else is written here is lost.\n"
#: A text that YAML reads unchanged in any context; row ids have brackets after their first letter.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._+/-]*(\[[A-Za-z0-9._-]*\])?")
#: Words that YAML reads as other types.
_NOT_PLAIN = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def accepted_text(table: Path, new: Iterable[tuple[Baseline, Accepted]], without: Collection[schema.Key] = ()) -> str:
    """The new text of the file next to a table with these figures, "" if none is left.

    Args:
        table: The table's file.
        new: Figures, each replacing that of the same row and cluster.
        without: Rows and clusters whose figures are removed.

    Raises:
        FileError: The existing file is invalid.
    """
    there = (entry.value for entry in schema.accepted_of_table(table))
    figures = {schema.entry_key(entry): {key: value.value for key, value in entry.items()} for entry in there}
    for row, accepted in new:
        judged = {row.judged_by.field: accepted.judged}
        figures[row.id, accepted.cluster] = {"row": row.id, **judged, **facts(Accepted, accepted)}
    entries = []
    for key in sorted(figures.keys() - set(without), key=lambda key: (by_number(key[0]), key[1])):
        fields = {name: value for name in schema.ACCEPTED_FIELDS if (value := figures[key].get(name)) is not None}
        lines = "\n    ".join(f"{name}: {_yaml_value(name, value)}" for name, value in fields.items())
        entries.append(f"  - {lines}\n")
    return "".join([_HEAD, "accepted:\n", *entries]) if entries else ""


def _yaml_value(key: str, value: Any) -> str:
    """A value in a form that YAML reads back unchanged, to the last digit."""
    if key in {"row", "cluster", "image"} and _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
        return str(value)
    if key == "spread":
        short = f"{value * 100:.2f}%"
        return short if schema.read_spread(short) == value else f"{(Decimal(repr(value)) * 100).normalize():f}%"
    if isinstance(value, float):
        short = f"{value:.6g}"
        return short if float(short) == value else repr(value)
    # Other YAML readers would read twelve digits, or digits around an "e", as a number.
    return str(value) if key in {"jobs", "date"} else json.dumps(value, ensure_ascii=False)


# -- edits of a site's own document in place -------------------------------------------------------


#: A number or percentage in a table, quoted or not.
_TOKEN = re.compile(r"""(?P<quote>["']?)(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?P<unit> ?%)?(?P=quote)""")
#: The comment of :func:`with_documented` above a documented figure that was measured.
_MEASURED = re.compile(r"[ \t]*# measured on [A-Za-z0-9._-]+, \d{4}-\d\d-\d\d: median of ")
#: Fewest digits of a written figure; documents have four.
_DIGITS = 4

#: Figures that a row's document may state; all follow from the step time.
_STEP_FIGURES = tuple(key for key in metrics.DOCUMENTED if key != metrics.SAVE_TIME.key)


class EditError(ValueError):
    """The file cannot be changed; the message has the reason, for an edit by hand."""


def with_documented(path: Path, text: str, changes: Sequence[tuple[Baseline, Mapping[str, float], Accepted]]) -> str:
    """A table's text with other documented figures, and a comment with their source above each row.

    The text is edited in place, not regenerated: the table is a site's own document, whose comments, order and
    alignment no YAML reader keeps. Places come from the loader, never from a guess at the file's style, and
    :func:`pytest_gsw.baseline_updates.check` verifies the new text.

    Args:
        path: The table.
        text: Its text.
        changes: A row, the new values of all figures that its document may state (fractions for percentages),
            and the accepted figure that they come from.

    Raises:
        EditError: A figure of the row does not follow from its step time, or is not written at the row itself.
        FileError: The file is invalid.
    """
    lines = text.splitlines(keepends=True)
    stated = {row.id: row.values for row in stated_rows(path)}
    comments = grouped((row.location.line - 1, _measured_by(accepted)) for row, _, accepted in changes)
    edits: list[tuple[int, int, str, float]] = []
    for row, figures, _ in changes:
        judged = row.judged_by
        for key in _STEP_FIGURES if judged.series is metrics.Series.STEPS else (judged.field,):
            place = stated[row.id].get(key)
            if place is None:
                continue
            if (place.line, place.column) < (row.location.line, row.location.column):
                raise EditError(f"{key} of {row.id} is not written at the row itself")
            if key not in figures:
                raise EditError(f"there is no new value for {key} of {row.id}")
            edits.append((place.line - 1, place.column - 1, key, figures[key]))
    # From the last to the first: edits do not move the places before them.
    for number, column, key, value in sorted(edits, reverse=True):
        lines[number] = _with_token(lines[number], column, key, value)
    for number in sorted(comments, reverse=True):
        line = lines[number]
        indent, end = line[: len(line) - len(line.lstrip(" "))], "\r\n" if line.endswith("\r\n") else "\n"
        old = number > 0 and _MEASURED.match(lines[number - 1]) is not None
        lines[number - old : number] = [f"{indent}{comment}{end}" for comment in comments[number]]
    return "".join(lines)


def _measured_by(accepted: Accepted) -> str:
    image = "" if accepted.image is None else f", image {accepted.image}"
    median = (
        f"median of {plural(accepted.jobs, 'job')}, spread {accepted.spread * 100:.2f} % ({accepted.job_ids}){image}"
    )
    return f"# measured on {accepted.cluster}, {accepted.date}: {median}"


def _with_token(line: str, column: int, key: str, value: float) -> str:
    match = _TOKEN.match(line, column)
    if match is None:
        raise EditError(f"{key} is not written as a plain number")
    number = value * 100 if match["unit"] else value
    quote = match["quote"]
    new = f"{quote}{_format_like(match['number'], number)}{match['unit'] or ''}{quote}"
    # Tables are often aligned: a number ends in the column of the old one, if at least one blank before it is left.
    before = line[: min(len(line[:column].rstrip(" ")) + 1, column)]
    return f"{before}{new.rjust(match.end() - len(before))}{line[match.end() :]}"


def _format_like(old: str, value: float) -> str:
    """A number with as many decimals as the one that it replaces, and with four digits at least."""
    if "e" in old.lower():
        return f"{value:.6g}"
    decimals = len(old.partition(".")[2])
    digits_before = math.floor(math.log10(value)) + 1
    return f"{value:.{max(decimals, _DIGITS - digits_before, 0)}f}"
