"""A log of another release of the recipe than its row's: which one it is, and where that one's figures stand."""

from __future__ import annotations

from pytest_gsw.common.files import from_here
from pytest_gsw.runs.problem import Problem
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.of_release import table_with
from pytest_gsw.tables.releases import in_words, releases_of


def other_release(baseline: Baseline, version: str) -> Problem:
    """What is said of a log whose ``GSW_VERSION`` is none of the row's releases."""
    ran = releases_of(version)
    source = baseline.source
    wanted = source.releases or (str(source.release),)
    fact = f"the log is of release {' or '.join(ran)}, and the row's figures are of {in_words(wanted)}"
    evidence = (("release", f"GSW_VERSION={version} in the log"),)
    found = table_with(baseline.id, ran)
    if found is None:
        advice = (
            f"stage the recipe of {wanted[-1]}, or write the figures of {ran[0]} into a table of your own, with "
            f'releases: ["{ran[0]}"], and name it with --gsw-baselines'
        )
        return Problem(fact, advice, (*evidence, ("table", f"no bundled table has this row for {' or '.join(ran)}")))
    release, path = found
    advice = f"judge it by that release's figures, with --gsw-release={release}, or stage the recipe of {wanted[-1]}"
    return Problem(fact, advice, (*evidence, ("table", f"{from_here(path)} has this row's figures of {release}")))
