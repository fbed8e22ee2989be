"""How the rooms of the package hang together: a room is a folder or a module of the package's root."""

from __future__ import annotations

from pathlib import Path

import grimp

import pytest_gsw
from tests.budget.budgets import Figures

_PACKAGE = Path(pytest_gsw.__file__).parent


def measure(_directory: Path) -> Figures:
    """The rooms, and the arrows between them."""
    graph = grimp.build_graph(_PACKAGE.name, cache_dir=None)
    imports = {
        (_room(module), _room(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    }
    return {
        "rooms": dict.fromkeys(sorted({_room(module) for module in graph.modules} - {""}), 1),
        "arrows": {f"{room} -> {other}": 1 for room, other in sorted(imports) if room != other and room and other},
    }


def _room(module: str) -> str:
    """The room of a module; "" of the package itself."""
    return module.partition(".")[2].partition(".")[0]
