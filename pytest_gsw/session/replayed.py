"""What ``--gsw-replay`` names that is no path by itself: a staging area for each recipe, the newest of several jobs."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.replay import LAST, RECIPE


def replayed_place(given: Path) -> tuple[Path, bool]:
    """Where logs are, and whether of several jobs of a row the newest that completed is meant.

    Raises:
        ConfigurationError: There is no such place.
    """
    path = Path(str(given).removesuffix(LAST))
    before, recipe, _ = str(path).partition(RECIPE)  # the recipe's directory is each row's own
    if not (Path(before).is_dir() if recipe else path.exists()):
        raise ConfigurationError(f"--gsw-replay: there is no file or directory {path}")
    return path, path != given
