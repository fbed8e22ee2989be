"""``pytest-gsw history exclude RUN`` and ``include RUN``: which runs say nothing of their rows."""

from __future__ import annotations

import os
import time

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.events import EXCLUDE, REVOKE, Event
from pytest_gsw.history.store import History
from pytest_gsw.results.run_id import LAST
from pytest_gsw.tables.fields import nearest

#: What stands in the place of rows.
WORDS = ("exclude", "include")


def decide(history: History, word: str, runs: list[str], why: str | None) -> str:
    """Leave runs out of what their rows are held against, or take that back; what was done.

    Raises:
        ConfigurationError: There is no such run, it says nothing new, or nobody says why.
    """
    if not runs:
        raise ConfigurationError(f"history {word}: name a run\nnext: pytest-gsw history --csv")
    if not why:
        raise ConfigurationError(f"history {word}: the history keeps the reason; add --why=TEXT")
    clusters = {one.run_id: one.cluster for one in history.runs()}
    runs = [max(clusters) if run == LAST and clusters else run for run in runs]
    excluded = {one.subject: one for one in history.events(kind=EXCLUDE)}
    for run in runs:
        if run not in clusters:
            fact = f"the history {history.shown} has no run '{run}'{nearest(run, clusters)}"
            raise ConfigurationError(f"{fact}\nnext: pytest-gsw history --csv")
        if (run in excluded) == (word == "exclude"):
            state = f"excluded already: {excluded[run].body.get('why', '')}" if run in excluded else "not excluded"
            raise ConfigurationError(quoted(f"run {run} is {state}", os.environ))
    for run in dict.fromkeys(runs):
        kind, revokes = (EXCLUDE, None) if word == "exclude" else (REVOKE, excluded[run].id)
        history.decide(Event(kind, run, clusters[run], time.time(), {"why": quoted(why, os.environ)}, revokes))
    names, are = ", ".join(dict.fromkeys(runs)), "counts" if len(set(runs)) == 1 else "count"
    if word == "include":
        return f"{history.shown}: {names} {are} again"
    back = f"pytest-gsw history include {' '.join(runs)} --why=TEXT"
    return f"{history.shown}: {names} {are} no more; to take that back: {back}"


def excluded_lines(history: History, runs: set[str]) -> list[str]:
    """The runs of those that are shown which do not count, and why, a line each."""
    return [
        f"not counted: run {one.subject}: {one.body.get('why', '')}"
        for one in history.events(kind=EXCLUDE)
        if one.subject in runs
    ]
