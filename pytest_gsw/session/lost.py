"""Rows of a run that a session which resumes or replays it does not have any more: they must not be forgotten."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pytest_gsw.common.words import command, counted
from pytest_gsw.fleet.fleet import Fleet
from pytest_gsw.jobs.journal import Past, Submission
from pytest_gsw.jobs.model import scancel
from pytest_gsw.jobs.scripts import value_of
from pytest_gsw.session.item import BaselineItem
from pytest_gsw.session.node_ids import row_of
from pytest_gsw.session.stash import SETTINGS
from pytest_gsw.session.telling import TellsFact, fail
from pytest_gsw.tables.model import BLANK

#: What is to be said of jobs that are left alone on purpose.
LEFT_ALONE = pytest.StashKey[str]()


class LostRow(TellsFact, pytest.Item):
    """A row that the run had and that is not there any more: an error, with its job."""

    def __init__(self, *, text: str, path_: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._text = text
        self._where = path_

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Where the row was."""
        return self._where, None, f"{self.name} "

    def setup(self) -> NoReturn:
        """Say that it is lost."""
        fail(self._text)

    def runtest(self) -> None:
        """Nothing is left to be run."""


def find_lost(session: pytest.Session, past: Past, runnable: Sequence[str]) -> list[LostRow]:
    """An item for each row of the run that is not going to run; none where rows were left out on purpose."""
    there = set(runnable)
    missing = [node_id for node_id in past.rows if row_of(node_id) not in there]
    left_out = [node_id for node_id in missing if _selects(session.config) or not _is_named(session.config, node_id)]
    if left_out:
        session.config.stash[LEFT_ALONE] = _left_alone(past, left_out)
    return [
        LostRow.from_parent(
            session,
            name=row_of(node_id),
            nodeid=node_id,
            path_=node_id.partition("::")[0],
            text=_text(row_of(node_id), past.submissions.get(row_of(node_id)), session.config),
        )
        for node_id in missing
        if node_id not in left_out
    ]


def _selects(config: pytest.Config) -> bool:
    """Whether the command line chooses among the rows of files."""
    names = ("keyword", "markexpr", "deselect", "lf", "stepwise")
    return any(getattr(config.option, name, None) for name in names)


def _is_named(config: pytest.Config, node_id: str) -> bool:
    """Whether the command line names no file, or the row's, or a directory above it: its row would be found there."""
    given: Sequence[str] = getattr(config.option, "file_or_dir", None) or ()
    table = node_id.partition("::")[0]
    file = Path(os.path.realpath(config.rootpath / table))
    for argument in given:
        if "::" in argument:
            continue
        if f"{table}/".startswith(f"{argument.rstrip('/')}/"):
            return True
        place = os.path.realpath(config.invocation_params.dir / argument)
        if file.is_relative_to(place) and file.exists():  # tables that stand elsewhere are none of a real directory's
            return True
    return not given


def _left_alone(past: Past, missing: Sequence[str]) -> str:
    """What is said of the jobs of rows that were left out; empty where they have none."""
    jobs = _going_on(past, map(row_of, missing))
    verb = "is" if len(jobs) == 1 else "are"
    return (
        f"gsw: {counted(len(jobs), 'job')} of rows that are not selected {verb} left alone: {_ids(jobs)}"
        if jobs
        else ""
    )


def left_over(session: pytest.Session, fleet: Fleet | None) -> list[str]:
    """What a session that was interrupted says of how to go on; nothing of any other."""
    lines = _not_taken_over(session, fleet)
    if lines or fleet is None or not fleet.interrupted:
        return lines
    going_on = command("pytest", f"--gsw-resume={session.config.stash[SETTINGS].run_id}", *_files(session.config))
    return [f"next: {going_on} goes on where this session was interrupted"]


def _files(config: pytest.Config) -> list[str]:
    """The options of the command line that name files, which are to tell of the whole run in the end."""
    named = (("--junitxml", "xmlpath"), ("--gsw-report", "gsw_report"))
    return [f"{flag}={value}" for flag, name in named if (value := config.getoption(name, None))]


def _not_taken_over(session: pytest.Session, fleet: Fleet | None) -> list[str]:
    """What a session says that Ctrl-C has ended before it has taken over all jobs of the run that it resumes."""
    settings = session.config.stash[SETTINGS]
    ended_with_it = fleet is not None and not fleet.launcher.jobs_outlive_session
    if session.exitstatus != pytest.ExitCode.INTERRUPTED or settings.past is None or ended_with_it:
        return []
    rows = [item.baseline.id for item in session.items if isinstance(item, BaselineItem)]
    wanted = rows or settings.past.submissions  # Ctrl-C may have hit before any row was found
    jobs = _going_on(settings.past, (row_id for row_id in wanted if fleet is None or fleet.phase(row_id) is None))
    if not jobs:
        return []
    known = [one.job_id for one in jobs if one.job_id]
    end = f"; {_scancel(session.config, *known)} ends {'it' if len(known) == 1 else 'them'}" if known else ""
    return [
        f"gsw: {counted(len(jobs), 'job')} of the run may run on: {_ids(jobs)}",
        f"next: pytest --gsw-resume={settings.run_id} goes on with {'it' if len(jobs) == 1 else 'them'}{end}",
    ]


def _going_on(past: Past, row_ids: Iterable[str]) -> list[Submission]:
    """Submissions of these rows whose jobs have not ended, as far as is known."""
    submissions = [past.submissions[row_id] for row_id in row_ids if row_id in past.submissions]
    return [one for one in submissions if one.ended is None and (one.job_id is not None or one.intended_s)]


def _ids(submissions: Iterable[Submission]) -> str:
    return ", ".join(one.job_id or f"one called {one.name}" for one in submissions)


def _scancel(config: pytest.Config, *ids: str) -> str:
    """The command line that ends jobs of the session's cluster."""
    cluster = config.stash[SETTINGS].cluster
    return scancel(value_of(() if cluster is None else cluster.sbatch, "clusters") or "", *ids)


def _text(row_id: str, past: Submission | None, config: pytest.Config) -> str:
    fact = f"{row_id} was a row of this run, and is not there any more: renamed, removed or skipped"
    if config.stash[SETTINGS].replay is not None:
        return f"{fact}\n\nnext       name the tables of that run: --gsw-baselines, --gsw-release or --gsw-suite"
    if past is None or (past.job_id is None and not past.intended_s):
        # Filled in, a row with a blank has another name.
        advice = "run the row anew" if BLANK in row_id else "give the row its name back, and resume again"
        return f"{fact}; it was never submitted\n\nnext       {advice}"
    if past.job_id is None:
        fate = "whether it was submitted is not known"
        end = f"look for its job: squeue --me --name={past.name}"
    elif past.ended is not None:
        fate = f"its job {past.job_id} has ended {past.ended.state.value}, and is judged by nobody"
        end = ""
    else:
        fate = f"its job {past.job_id} may still run"
        end = f"end its job: {_scancel(config, past.job_id)}"
    advice = "give the row its name back, and resume again" + (f"; or {end}" if end else "")
    return f"{fact}; {fate}\n\nnext       {advice}"
