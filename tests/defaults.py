"""The settings of all clusters in a test's project."""

from __future__ import annotations

import json
from pathlib import Path


def set_defaults(directory: Path, **settings: str | float | bool) -> None:
    """Write these ``defaults`` into the project's ``clusters.yaml``, in place of others."""
    path = directory / "clusters.yaml"
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    others = [line for line in lines if not line.startswith("defaults:")]
    path.write_text("".join([f"defaults: {json.dumps(settings)}\n", *others]))
