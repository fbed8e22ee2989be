"""Which container image a run used: by its log's own word, else by the environment that it was started with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.logs.text import safe_text

#: The variable by which all recipes from release 24.11 on let their image be chosen.
IMAGE_VARIABLE = "RUN_CONF_IMAGE"

#: Every rank says at the log's beginning who it is.
_SEARCHED_BYTES = 4 << 20
_IMAGE = re.compile(rb"\bGSW: MODEL=.{1,4000}? IMAGE=(?:'([^']{1,400})'|([^\s']{1,400}))")


def image_in(log: Path) -> str | None:
    """The image that a recipe's own line in a log names; of several runs in one file, the last one's.

    Raises:
        OSError: The log cannot be read.
    """
    named = None
    for _, record in matching_records(log, (RECIPE_MARKER,), stop=_SEARCHED_BYTES):
        match = _IMAGE.search(record)
        # A shell that traces its commands shows the one that is to print the line, variables and all.
        if match is not None and b"$" not in match[0]:
            named = match[1] or match[2]
    return None if named is None else image_name(safe_text(named)) or None


def image_of(environment: Mapping[str, str]) -> str | None:
    """The image that a job's environment chooses."""
    chosen = environment.get(IMAGE_VARIABLE, "")
    return image_name(chosen) if chosen.strip() else None


def image_name(image: str) -> str:
    """An image's name: of a file its own, without the staging area that it lies in; of a registry the whole."""
    # The staging area is another on every cluster, and its name no part of what was run.
    line = " ".join(image.split())
    return PurePosixPath(line).name if line.startswith(("/", "./", "../", "~")) else line
