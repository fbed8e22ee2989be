"""YAML files that are tables, and their node ids; used by every session that encounters a YAML file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import bundled_baselines, is_of_release, is_table


def node_id_of(path: Path, config: pytest.Config, roots: Iterable[Path]) -> str | None:
    """The node id of a baseline file that pytest encounters, or ``None`` for any other YAML file."""
    for root in roots:
        if path == root or (root in path.parents and is_table(path) and not is_of_release(path, root)):
            return node_id_below(path, root, config.rootpath)
    named = {argument.partition("::")[0] for argument in config.args}
    if any((config.invocation_params.dir / name) == path for name in named):
        return node_id_below(path, path, config.rootpath)
    return None


def node_id_below(path: Path, root: Path, rootpath: Path) -> str:
    """A table's node id: its path from the rootdir, as everywhere in pytest.

    Tables elsewhere (the bundled ones of an installed package) are named from their own directory, to have the same
    ids on every machine.
    """
    inside = path.is_relative_to(rootpath) and "site-packages" not in path.parts
    bundled = bundled_baselines()
    home = bundled if root == path and path.is_relative_to(bundled) else root
    return path.relative_to(rootpath if inside else home.parent).as_posix()


def row_of(node_id: str) -> str:
    """The row's id in a node id."""
    return node_id.partition("::")[2]
