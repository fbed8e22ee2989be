"""Where the tables are that come with pytest-gsw."""

from __future__ import annotations

from pathlib import Path

#: Not a table: what documents do not say, see :mod:`pytest_gsw.documents.importing.facts`.
FACTS_FILE = "facts.yaml"


def bundled_baselines() -> Path:
    """The directory of the tables that come with pytest-gsw."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "baselines"
    # In a checkout (an editable install) the tables stand beside the package, not in it.
    return inside if inside.is_dir() else package.parent / "baselines"
