"""A row and a release of the recipes that ran, or is to run: whether its figures are of it, else where such are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import command
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.accelerators import is_same
from pytest_gsw.tables.bundled import bundled_baselines, bundled_releases
from pytest_gsw.tables.load import load_table, table_files
from pytest_gsw.tables.model import Baseline, Source
from pytest_gsw.tables.releases import NO_FIGURES_SINCE, in_words, is_container, releases_of

_TAG = re.compile(r"v?(\d\d)\.(\d\d)(?:\.\d{1,3})?")


class OtherRelease(NamedTuple):
    """What is said of a row whose figures are not of the release that runs."""

    fact: str
    #: Which bundled table has the row's figures for that release.
    table: tuple[str, str]
    advice: str


def holds_for(source: Source, version: str, among: Sequence[str] | None = None) -> bool | None:
    """Whether a row's figures are of the release of this ``GSW_VERSION``, or of one of these that it may be.

    A table of one's own may name it as the script does. ``None`` if the row or the run names no release.
    """
    ran = releases_of(version) if among is None else among
    if source.releases:
        # Which container a release of the recipes runs in its name does not tell.
        wanted = {release for release in source.releases if not is_container(release)}
        return not wanted.isdisjoint((version.removeprefix("v"), *ran)) if ran and wanted else None
    # The tag of the document alone says year and month.
    month, months = _month(source.release or ""), set(map(_month, ran))
    return None if month is None or months <= {None} else month in months


@cache
def releases_for(accelerator: str) -> tuple[str, ...]:
    """The releases with rows for an accelerator that can run, the newest last; "" behind them: the documents' own."""
    named = accelerator.partition("-")[0].lower()

    def has(path: Path) -> bool:  # a table that does not name it need not be parsed
        is_named = named in path.read_text(encoding="utf-8").lower()
        return is_named and any(is_same(row.accelerator, accelerator) for row in _rows(path))

    tables = {**bundled_releases(), "": table_files(bundled_baselines())}
    return tuple(release for release, paths in tables.items() if any(map(has, paths)))


def states_none(release: str) -> bool:
    """True if a release is one of the recipes' whose READMEs have no figures any more."""
    return _TAG.fullmatch(release) is not None and release >= NO_FIGURES_SINCE


def other_release(baseline: Baseline, ran: Sequence[str], what: str, *where: str) -> OtherRelease:
    """What is said of ``what``, a log or a recipe, which is of one of these releases and not certainly of the row's.

    ``where`` are the options of pytest that name the log, or the cluster that has the recipe.
    """
    wanted = baseline.source.releases or (str(baseline.source.release),)
    fact = f"{what} is of release {in_words(ran, 'or')}, and the row's figures are of {in_words(wanted)}"
    found = rows_of(baseline.id, ran)
    if not found:
        advice = (
            f"stage the recipe of {wanted[-1]}, or write the figures of {ran[0]} into a table of your own, with "
            f'releases: ["{ran[0]}"], and name it with --gsw-baselines'
        )
        return OtherRelease(fact, ("table", f"no bundled table has this row for {in_words(ran, 'or')}"), advice)
    if len({row.judged_s for row in found.values()}) > 1:
        figures = (f"{row.judged_s:g} of {release}" for release, row in found.items())
        said = f"several: {baseline.judged_by.key} {', '.join(figures)}"
        return OtherRelease(fact, ("table", said), "stage a checkout of one release, whose CHANGELOG says which it is")
    release, path = next((release, row.location.path) for release, row in found.items())
    # The row of this node id is the other table's: the option alone does not make it that one's.
    judged = command("pytest", *where, f"--gsw-release={release}", f"{_argument(path)}::{baseline.id}")
    advice = f"stage the recipe of {wanted[-1]}, or take that release's figures: {judged}"
    return OtherRelease(fact, ("table", f"{from_here(path)} has this row's figures of {release}"), advice)


def rows_of(row_id: str, releases: Iterable[str]) -> dict[str, Baseline]:
    """The bundled rows of an id, by release."""
    known = bundled_releases()
    rows = ((release, row) for release in releases for path in known.get(release, ()) for row in _rows(path))
    return {release: row for release, row in rows if row.id == row_id and release in row.source.releases}


@cache
def _rows(path: Path) -> tuple[Baseline, ...]:
    try:
        return load_table(path)
    except ConfigurationError:  # it is not what the session is about
        return ()


def _argument(path: Path) -> str:
    """A bundled table as an argument of pytest: as a file from here, else as its node ids name it."""
    here = from_here(path)
    is_file = not here.is_absolute() and "site-packages" not in path.parts
    return (here if is_file else path.relative_to(bundled_baselines().parent)).as_posix()


def _month(release: str) -> tuple[str, str] | None:
    found = _TAG.fullmatch(release)
    return None if found is None else (found[1], found[2])
