"""``pytest-gsw baseline propose``: measured runs become a diff, for review."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_gsw.baseline_updates import LeftOut, Proposal, Rules, make_patch, proposal_text, propose, review_text
from pytest_gsw.cli.arguments import Ini
from pytest_gsw.cli.output import Answer, write_answer
from pytest_gsw.cli.run_arguments import known_history, records_in, run_directory
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.history.store import History
from pytest_gsw.results.junit import read_run
from pytest_gsw.results.record import Record
from pytest_gsw.tables import bundled, load
from pytest_gsw.tables.model import row_matches
from pytest_gsw.tables.value_types import nearest


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    if args.output is not None and args.output.suffix not in {".diff", ".patch"}:
        raise ConfigurationError(f"-o: got '{args.output}', wanted a file whose name ends in .diff or .patch")
    with known_history(args) as history:
        records, unreadable = _read_runs(args.ini, args.runs, history)
    chosen = [record for record in records if row_matches(args.row, record.row.row_id)]
    chosen = [record for record in chosen if args.cluster in {None, record.run.cluster}]
    if records and not chosen:
        raise ConfigurationError(_not_recorded(args, records))
    find = _finder(args.ini.tables(args.baselines))
    rules = Rules(
        min_jobs=args.min_jobs or Rules.min_jobs,
        max_spread=args.max_spread or Rules.max_spread,
        max_gain=args.max_gain,
        documented=args.documented,
    )
    found = propose(chosen, find, rules)
    if args.documented:
        _check_one_cluster(found.proposed)
    patch = make_patch(found.proposed, documented=args.documented)
    left_out = [redact(str(one), os.environ) for one in sorted([*unreadable, *found.left_out, *patch.left_out])]
    if not patch.proposed:
        raise RunError("\n".join(["nothing can be proposed", *(f"  {line}" for line in left_out)]))
    for line in left_out:
        sys.stderr.write(f"pytest-gsw baseline: left out: {line}\n")
    diff = patch.text.removesuffix("\n")
    if args.output is None:
        return Answer(diff)
    write_answer(args.output, diff)
    lines = [proposal_text(one, documented=args.documented) for one in patch.proposed]
    return Answer("\n".join([*lines, review_text(patch, args.output)]))


def _not_recorded(args: argparse.Namespace, records: Iterable[Record]) -> str:
    """The error for a cluster or row without records, with those that have some."""
    if args.cluster is not None and args.cluster not in {record.run.cluster for record in records}:
        clusters = sorted({record.run.cluster for record in records})
        near = nearest(args.cluster, clusters)
        return f"--cluster: these runs are of {', '.join(clusters)}, not of {args.cluster}{near}"
    rows = sorted({record.row.row_id for record in records if args.cluster in {None, record.run.cluster}})
    return f"--row: no run is of the row '{args.row}'{nearest(str(args.row), rows)}"


def _check_one_cluster(proposed: Iterable[Proposal]) -> None:
    """A row has one documented figure, and may have been measured on several clusters."""
    clusters: dict[tuple[Path, str], str] = {}
    for one in proposed:
        first = clusters.setdefault((one.row.location.path, one.row.id), one.accepted.cluster)
        if first != one.accepted.cluster:
            both = f"{first} and on {one.accepted.cluster}"
            raise ConfigurationError(f"--documented: {one.row.id} was measured on {both}; name one with --cluster")


def _read_runs(ini: Ini, runs: Sequence[str], history: History | None) -> tuple[list[Record], list[LeftOut]]:
    """The records of all runs, and those that cannot be read; a run without a directory is from the history."""
    records: list[Record] = []
    left_out: list[LeftOut] = []
    for run in runs:
        directory = run_directory(ini, run)
        if directory is None:
            records += records_in(ini, history, run)
            continue
        of_run, unreadable = read_run(directory)
        records += of_run
        left_out += (LeftOut(str(directory / name), "", why) for name, why in unreadable.items())
        if not of_run and not unreadable:
            left_out.append(LeftOut(str(directory), "", "has no records"))
    return records, left_out


def _finder(given: Sequence[Path] | None) -> Callable[[str], Path | None]:
    """Finds the table that a record names: among the given ones, else as seen from here, else the bundled one."""
    roots = given or [bundled.bundled_baselines()]
    tables = [(path, path.relative_to(root.parent).as_posix()) for root in roots for path in load.table_files(root)]

    def find(name: str) -> Path | None:
        here = Path(name)
        if given is None and here.is_file():
            return here
        same = [path for path, below in tables if below == name]
        # Named from another directory, when it was run or now.
        alike = [path for path, below in tables if f"/{below}".endswith(f"/{name}") or f"/{name}".endswith(f"/{below}")]
        found = same or alike
        return found[0] if len(found) == 1 else None

    return find
