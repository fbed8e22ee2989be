"""The dashboards of docs/examples/grafana, and what their panels and variables ask."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "examples" / "grafana"


def dashboard(name: str) -> dict[str, Any]:
    """One of them."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def variables(name: str) -> Mapping[str, Any]:
    """The queries of its variables, by their names."""
    listed = dashboard(name)["templating"]["list"]
    return {one["name"]: one["query"] for one in listed if one["type"] == "query"}


def targets(name: str, key: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Of each panel its title, what it asks, and how."""
    for panel in dashboard(name)["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target[key], target
