"""Bundled rows by their release, and rows with figures of another release than the one that runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import command
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.hardware import is_same
from pytest_gsw.tables.bundled import RELEASES_DIRECTORY, benchmarks, bundled_baselines, bundled_releases
from pytest_gsw.tables.load import load_table, table_files
from pytest_gsw.tables.model import Baseline, Source
from pytest_gsw.tables.releases import NO_FIGURES_SINCE, format_releases, is_container, releases_of

_TAG = re.compile(r"v?(\d\d)\.(\d\d)(?:\.\d{1,3})?")


class OtherRelease(NamedTuple):
    """The error for a row whose figures are not of the release that runs."""

    fact: str
    #: The bundled table with the row's figures for that release.
    table: tuple[str, str]
    advice: str


def holds_for(source: Source, version: str, among: Sequence[str] | None = None) -> bool | None:
    """True if a row's figures are of this ``GSW_VERSION``'s release, or of one of ``among``.

    A user's own table may name it as the script does. ``None`` if the row or the run names no release.
    """
    versions = releases_of(version) if among is None else among
    if source.releases:
        # The name of a recipes' release does not show its container.
        wanted = {release for release in source.releases if not is_container(release)}
        return not wanted.isdisjoint((version.removeprefix("v"), *versions)) if versions and wanted else None
    # The tag of a document has year and month alone.
    month, months = _month(source.release or ""), set(map(_month, versions))
    return None if month is None or months <= {None} else month in months


@cache
def releases_for(accelerator: str) -> tuple[str, ...]:
    """The releases with rows for an accelerator that can run, the newest last; "" behind them: the documents' own."""
    tables = {**bundled_releases(), "": table_files(bundled_baselines())}
    return tuple(release for release, paths in tables.items() if any(_has(accelerator, path) for path in paths))


def directories_for(accelerator: str) -> tuple[Path, ...]:
    """The directories of bundled tables of no release with rows for an accelerator: a path selects them."""
    released = {path for paths in bundled_releases().values() for path in paths}
    tables = (path for path in table_files(bundled_baselines() / RELEASES_DIRECTORY) if path not in released)
    return tuple(sorted({path.parent.parent for path in tables if _has(accelerator, path)}))


def _has(accelerator: str, path: Path) -> bool:
    """True if a table has rows for an accelerator; one that does not name it need not be parsed."""
    is_named = accelerator.partition("-")[0].lower() in path.read_text(encoding="utf-8").lower()
    return is_named and any(is_same(row.accelerator, accelerator) for row in _rows(path))


def benchmarks_for(accelerator: str) -> tuple[str, ...]:
    """The benchmarks of networks with rows for an accelerator, by the words of ``-k`` that select them."""
    rows = (row for path in benchmarks() for row in _rows(path))
    return tuple(sorted({row.workload.model for row in rows if is_same(row.accelerator, accelerator)}))


def states_none(release: str) -> bool:
    """True if a release is one of the recipes' whose READMEs have no figures any more."""
    return _TAG.fullmatch(release) is not None and release >= NO_FIGURES_SINCE


def other_release(baseline: Baseline, run_releases: Sequence[str], what: str, *where: str) -> OtherRelease:
    """The error for ``what``, a log or a recipe, of one of ``run_releases``, which are not certainly the row's.

    ``where`` are the options of pytest that name the log, or the cluster with the recipe.
    """
    wanted = baseline.source.releases or (str(baseline.source.release),)
    ran = format_releases(run_releases, "or")
    fact = f"{what} is of release {ran}, and the row's figures are of {format_releases(wanted)}"
    found = rows_of(baseline.id, run_releases)
    if not found:
        advice = (
            f"stage the recipe of {wanted[-1]}, or write the figures of {run_releases[0]} into a table of your own, "
            f'with releases: ["{run_releases[0]}"], and name it with --gsw-baselines'
        )
        return OtherRelease(fact, ("table", f"no bundled table has this row for {ran}"), advice)
    if len({row.judged for row in found.values()}) > 1:
        figures = (f"{getattr(row.documented, row.judged_by.field):g} of {release}" for release, row in found.items())
        several = f"several: {baseline.judged_by.key} {', '.join(figures)}"
        return OtherRelease(fact, ("table", several), "stage a checkout of one release, whose CHANGELOG names it")
    release, path = next((release, row.location.path) for release, row in found.items())
    # The row of this node id is the other table's: the option alone does not select that table.
    judged = command("pytest", *where, f"--gsw-release={release}", f"{_argument(path)}::{baseline.id}")
    advice = f"stage the recipe of {wanted[-1]}, or take that release's figures: {judged}"
    return OtherRelease(fact, ("table", f"{relative_path(path)} has this row's figures of {release}"), advice)


def rows_of(row_id: str, releases: Iterable[str]) -> dict[str, Baseline]:
    """The bundled rows of an id, by release."""
    known = bundled_releases()
    rows = ((release, row) for release in releases for path in known.get(release, ()) for row in _rows(path))
    return {release: row for release, row in rows if row.id == row_id and release in row.source.releases}


@cache
def _rows(path: Path) -> tuple[Baseline, ...]:
    try:
        return load_table(path)
    except ConfigurationError:  # a faulty table is not an error of this session
        return ()


def _argument(path: Path) -> str:
    """A bundled table as an argument of pytest: as a file from here, else as its node ids name it."""
    here = relative_path(path)
    is_file = not here.is_absolute() and "site-packages" not in path.parts
    return (here if is_file else path.relative_to(bundled_baselines().parent)).as_posix()


def _month(release: str) -> tuple[str, str] | None:
    found = _TAG.fullmatch(release)
    return None if found is None else (found[1], found[2])
