"""The recipe's directory below the repository's root, by its README's place and by what the README itself says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_gsw.documents.importing.row import CONVENTION
from pytest_gsw.tables.model import Recipe
from pytest_gsw.tables.yamlfile import Stated

#: Directories of the recipes of frameworks that have one for all models; the others have one for each model.
RECIPE_DIRECTORIES: Mapping[str, str] = {"paxml": "paxml", "maxtext": "maxtext"}

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}"
#: A directory that is named after a task is part of a recipe's, and so is the one above it.
_TASK = re.compile(r"(?:pre-?|fine-?)?(?:train|tun)(?:ing|e)?|sft|lora|peft|rl|dpo|inference", re.IGNORECASE)
#: ``cd $REPOSITORY/deepseek_v3/pretraining/``.
_CHANGED_TO = re.compile(rf"(?<![A-Za-z0-9_])cd +[\"']?(?:[$<~.][^/\s]{{0,80}}/)?(?P<path>{_NAME}(?:/{_NAME}){{0,5}})")


def recipe_directory(path: Path, lines: Sequence[str]) -> Stated | None:
    """The directory of a README's recipe, such as ``deepseek_v3/pretraining``; ``None`` of other documents.

    Where the repository begins is not to be seen: a README may have been copied out of it. What the document says
    (``cd $REPOSITORY/grok1``) counts where the README does lie in a directory of that path, or beside one that holds a
    launch script: then the repository begins where the README is.
    """
    if not path.name.lower().startswith("readme"):
        return None
    here = path.resolve().parent
    for number, line in enumerate(lines, 1):
        for match in _CHANGED_TO.finditer(line[:300]):
            said = match["path"].rstrip(".")
            if here.parts[-said.count("/") - 1 :] == tuple(said.split("/")) or _has_script(here / said):
                return Stated(said, number, 1)
    usual = _by_place(here.parts)
    return Stated(usual, CONVENTION, 1) if usual else None


def _has_script(directory: Path) -> bool:
    return os.access(directory / Recipe.script, os.F_OK)


def _by_place(place: Sequence[str]) -> str:
    """The README's own directory; where one of the last two is named after a task, from the one above that on."""
    depth = next((n for n in (3, 2) if len(place) >= n and _TASK.fullmatch(place[1 - n])), 1)
    names = place[-depth:]
    return "/".join(names) if all(re.fullmatch(_NAME, name) for name in names) else ""
