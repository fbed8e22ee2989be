"""A row and a release of the recipes that ran, or is to run: whether its figures are of it, else where such are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.common.files import from_here
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline, Source
from pytest_gsw.tables.releases import in_words, releases_of

_TAG = re.compile(r"v?(\d\d)\.(\d\d)(?:\.\d{1,3})?")


class OtherRelease(NamedTuple):
    """What is said of a row whose figures are not of the release that runs."""

    fact: str
    #: Which bundled table has the row's figures for that release.
    table: tuple[str, str]
    advice: str


def holds_for(source: Source, version: str) -> bool | None:
    """Whether a row's figures are of the release of this ``GSW_VERSION``; ``None`` where one of the two is not said."""
    ran = releases_of(version)
    if source.releases:
        return not set(ran).isdisjoint(source.releases) if ran else None
    # The tag of the document alone says year and month.
    wanted, months = _month(source.release or ""), set(map(_month, ran))
    return None if wanted is None or months <= {None} else wanted in months


def other_release(baseline: Baseline, version: str, what: str) -> OtherRelease:
    """What is said of ``what``, a log or a recipe, whose ``GSW_VERSION`` is none of the row's releases."""
    ran = releases_of(version)
    wanted = baseline.source.releases or (str(baseline.source.release),)
    fact = f"{what} is of release {in_words(ran, 'or')}, and the row's figures are of {in_words(wanted)}"
    found = _table_with(baseline.id, ran)
    if found is None:
        advice = (
            f"stage the recipe of {wanted[-1]}, or write the figures of {ran[0]} into a table of your own, with "
            f'releases: ["{ran[0]}"], and name it with --gsw-baselines'
        )
        return OtherRelease(fact, ("table", f"no bundled table has this row for {in_words(ran, 'or')}"), advice)
    release, path = found
    advice = f"take that release's figures, with --gsw-release={release}, or stage the recipe of {wanted[-1]}"
    return OtherRelease(fact, ("table", f"{from_here(path)} has this row's figures of {release}"), advice)


def _table_with(row_id: str, releases: Iterable[str]) -> tuple[str, Path] | None:
    """The first of these releases for which a bundled table has the row, and that table; ``None`` where none has."""
    known = bundled_releases()
    return next(
        ((release, path) for release in releases for path in known.get(release, ()) if row_id in _rows(path, release)),
        None,
    )


@cache
def _rows(path: Path, release: str) -> frozenset[str]:
    try:
        return frozenset(row.id for row in load_table(path) if release in row.source.releases)
    except ConfigurationError:  # it is not what the session is about
        return frozenset()


def _month(release: str) -> tuple[str, str] | None:
    found = _TAG.fullmatch(release)
    return None if found is None else (found[1], found[2])
