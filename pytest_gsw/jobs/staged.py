"""Which release of the recipes is staged, by the launch scripts that are to be submitted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import counted
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.script_text import script_text, versions_in
from pytest_gsw.jobs.spec import launch_script, recipe_directory, stage_of
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.of_release import holds_for, other_release, rows_of
from pytest_gsw.tables.releases import in_words, releases_of

#: From v25.10 on, a file at the root of a checkout says it for all recipes.
_RELEASE_FILE = "release.yaml"
_LLMB_KEY = "llmb_version:"
_LLMB_VERSION = re.compile(r"^llmb_version:[ \t]*[\"']?([0-9][0-9A-Za-z.-]{0,30})[\"']?[ \t\r]*(?:#.*)?$", re.MULTILINE)
#: ``## [v25.05.02] - 2025-07-22``
_HEADING = re.compile(r"^##? \[?v?([0-9][0-9A-Za-z.-]{0,30})\b[^\n]{0,80}", re.MULTILINE)
#: How far below that a recipe may be: ``deepseek_v3/pretrain/megatron_bridge``, and some more.
_DEEPEST = 6


class Staged(NamedTuple):
    """What says which release a recipe is of."""

    version: str
    path: Path
    #: From 1.
    line: int
    text: str
    #: It is the release itself; a ``GSW_VERSION`` is that of several.
    is_release: bool = False

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that it may be."""
        return (self.version,) if self.is_release else releases_of(self.version)


def staged_release(script: Path) -> Staged | None:
    """The one release that a launch script, or its checkout, says it is of.

    ``None`` also where the script is not there, or says several.
    """
    text = script_text(script)
    if text is None:
        return None
    constants = [match for match in versions_in(text) if releases_of(match[1])]
    if constants:
        own = _said_in(text, constants, script)
        return own and (_by_changelog(script, own.releases) or own)
    files = (folder / _RELEASE_FILE for folder in script.parents[:_DEEPEST])
    # Other projects have files of that name, too.
    found = next(((file, said) for file in files if _LLMB_KEY in (said := script_text(file) or "")), None)
    return None if found is None else _said_in(found[1], list(_LLMB_VERSION.finditer(found[1])), found[0])


def _by_changelog(script: Path, possible: Sequence[str]) -> Staged | None:
    """Which of several releases the first heading of the checkout's CHANGELOG names; ``None`` if it names none."""
    for place in (folder / "CHANGELOG" for folder in script.parents[:_DEEPEST] if len(possible) > 1):
        text = script_text(place) or ""
        first = _HEADING.search(text)
        if first is not None and first[1] in possible:
            return Staged(first[1], place, text.count("\n", 0, first.start()) + 1, first[0], is_release=True)
    return None


def _said_in(text: str, found: Sequence[re.Match[str]], path: Path) -> Staged | None:
    """The one release that these places of a text name."""
    if len({match[1] for match in found}) != 1:
        return None
    first = found[0]
    return Staged(first[1], path, text.count("\n", 0, first.start()) + 1, first[0].strip())


def of_other_releases(rows: Iterable[tuple[Baseline, Path]]) -> Iterator[tuple[Baseline, Staged]]:
    """The rows whose launch script is, or may be, of another release than their figures, each with what it says."""
    staged = cache(staged_release)
    for row, script in rows:
        says_release = row.source.releases or row.source.release is not None
        found = staged(script) if says_release else None
        if found is not None and (
            holds_for(row.source, found.version, found.releases) is False or _may_be_other(row, found.releases)
        ):
            yield row, found


def _may_differ(releases: Sequence[str]) -> bool:
    return len(releases) > 1 and len({bundled_releases().get(release) for release in releases}) > 1


def _may_be_other(row: Baseline, releases: Sequence[str]) -> bool:
    """Whether a bundled row has other figures in one of the releases that may be staged."""
    rows = rows_of(row.id, releases).values() if _may_differ(releases) else ()
    return row.location in {one.location for one in rows} and len({one.judged_s for one in rows}) > 1


def release_problem(row: Baseline, staged: Staged, cluster: Cluster) -> SubmissionError:
    """Why a job of a recipe of another release could not be judged by its row's figures."""
    other = other_release(row, staged.releases, "the staged recipe", *cluster.options)
    return SubmissionError(
        other.fact,
        evidence=(("release", f"{from_here(staged.path)}:{staged.line}  {staged.text}"), other.table),
        advice=other.advice,
    )


def told_of_stage(rows: Iterable[Baseline], cluster: Cluster) -> Iterator[str]:
    """Which rows are of another release than the recipes that are staged for them, in a line for each release."""
    scripts = (
        (row, launch_script(cluster, row, recipe_directory(cluster, row, stage_of(cluster, row)))) for row in rows
    )
    others = Counter(
        (row.source.releases or (str(row.source.release),), staged.releases)
        for row, staged in of_other_releases(scripts)
    )
    for (releases, there), number in others.items():
        chosen = None if _may_differ(there) else next((one for one in there if one in bundled_releases()), None)
        advice = "" if chosen is None else f"; --gsw-release={chosen} runs the rows of that release"
        are, its = ("is", "its recipe is") if number == 1 else ("are", "their recipes are")
        yield (
            f"{counted(number, 'row')} {are} of {in_words(releases)}, and {its} staged as of "
            f"{in_words(there, 'or')}: not submitted{advice}"
        )
