"""The bundled tables, and the YAML files that are no tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

#: Not a table: facts that documents lack, see :mod:`pytest_gsw.importing.facts`.
FACTS_FILE = "facts.yaml"
#: The JSON Schema of tables, for editors; the importer puts it next to them.
SCHEMA_FILE = "baseline.schema.json"
#: The directory, among the bundled tables, of those that only ``--gsw-release`` selects.
RELEASES_DIRECTORY = "releases"
#: The same of the benchmarks of networks, whose rows are of one machine each: see :func:`benchmarks`.
BENCHMARKS_DIRECTORY = "nccl"
#: A table's own line, as the importer writes it.
_RELEASES = re.compile(r"releases: \[(.*)\]")


def accepted_file(table: Path) -> Path:
    """The file next to ``NAME.yaml`` with the accepted figures of clusters for its rows: ``NAME.accepted.yaml``."""
    return table.with_name(f"{table.stem}.accepted{table.suffix}")


def table_of_accepted(path: Path) -> Path | None:
    """The table that a file of accepted figures belongs to; ``None`` for any other file."""
    stem = path.stem.removesuffix(".accepted")
    return None if stem == path.stem else path.with_name(f"{stem}{path.suffix}")


def is_table(path: Path) -> bool:
    """True if a YAML file among tables is a table."""
    return path.name != FACTS_FILE and table_of_accepted(path) is None


def schema_text() -> str:
    """The JSON Schema of tables."""
    return Path(__file__).with_name(SCHEMA_FILE).read_text(encoding="utf-8")


@cache
def bundled_baselines() -> Path:
    """The directory of the bundled tables."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "baselines"
    # In a checkout (an editable install) the tables are next to the package, not in it.
    return inside if inside.is_dir() else package.parent / "baselines"


def is_of_release(path: Path, root: Path) -> bool:
    """True if a table below the bundled ones is left out unless its release, or the table itself, is selected.

    Another release has rows of the same names with other figures, and a benchmark's figures are of one network.
    """
    first = path.relative_to(root).parts[0] if root == bundled_baselines() else ""
    return first in {RELEASES_DIRECTORY, BENCHMARKS_DIRECTORY}


def benchmarks() -> tuple[Path, ...]:
    """The bundled tables of benchmarks, which are collected if an argument or a word of ``-k`` names them."""
    return tuple(sorted(filter(is_table, (bundled_baselines() / BENCHMARKS_DIRECTORY).glob("*.yaml"))))


def models_like(word: str, tables: Iterable[Path]) -> bool:
    """True if one of these tables is of the model that a word of ``-k`` names, or begins to."""
    return any(word.startswith(path.stem) or path.stem.startswith(word) for path in tables)


def has_model(keyword: str) -> bool:
    """True if a word of ``-k`` names a model of the bundled tables."""
    tables = [*bundled_baselines().rglob("*.yaml")]
    return any(models_like(word, tables) for word in re.findall(r"[\w.]{4,}", keyword))


@cache
def bundled_releases() -> Mapping[str, tuple[Path, ...]]:
    """The bundled tables of each release, sorted; releases from the oldest on.

    If several tables have one framework and name, the release's own wins: its README may state what the document lacks.
    """
    from pytest_gsw.tables.releases import by_age  # an idle session, which looks at YAML files, needs none of it

    found: dict[str, dict[tuple[str, ...], Path]] = {}
    root = bundled_baselines()
    for path in sorted(root.rglob("*.yaml"), key=lambda path: (is_of_release(path, root), path)):
        if not is_table(path):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        listed = next((match[1] for line in lines if (match := _RELEASES.fullmatch(line))), "")
        for release in re.findall(r'"([^"]+)"', listed):
            found.setdefault(release, {})[path.parts[-2:]] = path
    return {release: tuple(sorted(found[release].values())) for release in sorted(found, key=by_age)}
