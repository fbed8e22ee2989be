"""Releases of the recipes: how one is named, which of them a recipe's ``GSW_VERSION`` stands for.

A release is a tag of the recipes' repository without its ``v``: ``25.01.1``. ``GSW_VERSION`` is a constant of the
launch scripts that not every release has changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from pytest_gsw.common.words import enumerated
from pytest_gsw.tables import fields as f

#: A release, as tables, clusters and ``--gsw-release`` name it.
_NAME = re.compile(r"[0-9][0-9A-Za-z.-]{0,30}")
_WANTED = "a release without its v, such as 25.02.01"

#: By ``GSW_VERSION``, the releases whose scripts have it: NVIDIA/dgxc-benchmarking, ``launch.sh`` of each tag.
_SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "24.11": ("24.11.1",),
    "25.01": ("25.01", "25.01.1"),
    "25.02": ("25.02", "25.02.01", "25.02.02", "25.03"),
    "25.04.01": ("25.04.01", "25.04.02"),
    "25.05.01": ("25.05.01", "25.05.02", "25.05.03"),
    "25.05.04": ("25.05.04", "25.05.05"),
    "25.08": ("25.08", "25.08.01", "25.08.02"),
    "25.10": ("25.10", "25.10.01", "25.10.02"),
}


def releases_of(version: str) -> tuple[str, ...]:
    """The releases whose scripts have this ``GSW_VERSION``; none where it names no release, as ``demo`` does not."""
    version = version.removeprefix("v")
    known = _SCRIPTS.get(version)
    return known if known is not None else (version,) if _NAME.fullmatch(version) else ()


def in_words(releases: Sequence[str], word: Literal["and", "or"] = "and") -> str:
    """Releases as a sentence names them: ``25.01 and 25.01.1``, and of many the first and the last, as listed."""
    if len(releases) > 3:
        return f"{releases[0]} to {releases[-1]}"
    return enumerated(releases, word)


def read_release(raw: str) -> str:
    """The name of a release; a ValueError says what is wanted."""
    if _NAME.fullmatch(raw) is None:
        raise ValueError(f"got '{raw}', wanted {_WANTED}")
    return raw


def release_field(help_: str) -> f.Field:
    """A key that holds the name of a release."""
    schema = {"type": "string", "pattern": f"^{_NAME.pattern}$"}
    return f.Field(read_release, _WANTED, help_, schema)
