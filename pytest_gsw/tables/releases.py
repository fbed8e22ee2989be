"""Releases: their names, the recipes' releases of a ``GSW_VERSION``, the container of an image.

A release of the recipes is a tag of their repository without its ``v``: ``25.01.1``. ``GSW_VERSION`` is a constant of
the launch scripts that not every release has changed. A release of the NeMo container is named like its image,
``nemo:26.06.01``: the recipes' release 26.06.01 runs in ``nemo:26.04.01``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pytest_gsw.common.text import ByNumber, by_number, enumerated
from pytest_gsw.tables import value_types as f

#: Prefix of a release of the NeMo container.
NEMO = "nemo:"
#: The first release of the recipes whose READMEs have no figures: NVIDIA/dgxc-benchmarking, tag v25.07.
NO_FIGURES_SINCE = "25.07"
#: A release, as in tables, clusters and ``--gsw-release``.
_NAME = re.compile(rf"(?:{NEMO})?[0-9][0-9A-Za-z.-]{{0,30}}")
_WANTED = "a release without its v, such as 25.02.01, or a container, such as nemo:26.06"
#: The end of an image's name: ``nvcr.io#nvidia/nemo:26.04.00``, and ``nvidia+nemo+26.04.00.sqsh`` of the recipes.
_IMAGE = re.compile(r"(?:^|[/#+])nemo[:+](\d\d\.\d\d(?:\.(?!sqsh$)[0-9a-z]{1,8})?)(?:\.sqsh)?$")

#: By ``GSW_VERSION``, the releases whose scripts have it: NVIDIA/dgxc-benchmarking, ``launch.sh`` of each tag; from
#: v25.10 on, ``llmb_version`` of ``release.yaml`` as well, which llmb-run writes next to a log.
_SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "24.11": ("24.11.1",),
    "25.01": ("25.01", "25.01.1"),
    "25.02": ("25.02", "25.02.01", "25.02.02", "25.03"),
    "25.04.01": ("25.04.01", "25.04.02"),
    "25.05.01": ("25.05.01", "25.05.02", "25.05.03"),
    "25.05.04": ("25.05.04", "25.05.05"),
    "25.08": ("25.08", "25.08.01", "25.08.02"),
    "25.10": ("25.10", "25.10.01", "25.10.02"),
    "25.10.1": ("25.10",),  # llama3.1 alone
    "25.12": ("25.12", "25.12.01", "25.12.02"),
    "26.05.00": ("26.05",),
    "26.06.00": ("26.06.00", "26.06.01"),
}


def releases_of(version: str) -> tuple[str, ...]:
    """The releases whose scripts have this ``GSW_VERSION``; none if it names no release, such as ``demo``."""
    version = version.removeprefix("v")
    if version in _SCRIPTS:
        return _SCRIPTS[version]
    return (version,) if _NAME.fullmatch(version) and not is_container(version) else ()


def is_container(release: str) -> bool:
    """True if a release is one of the NeMo container, and not of the recipes."""
    return release.startswith(NEMO)


def by_age(release: str) -> ByNumber:
    """Sort key of releases, the newest last: recipes and containers are both named by year and month."""
    return by_number(release.removeprefix(NEMO))


def container_of(image: str) -> str | None:
    """The release of the NeMo container in an image; ``None`` if the name has none.

    ``nemo:26.04.00`` is 26.04 in documents.
    """
    found = _IMAGE.search(image.strip())
    return None if found is None else f"{NEMO}{found[1].removesuffix('.00')}"


def format_releases(releases: Sequence[str], word: Literal["and", "or"] = "and") -> str:
    """Releases for a sentence: ``25.01 and 25.01.1``, and of many the first and the last, as listed."""
    if len(releases) > 3:
        return f"{releases[0]} to {releases[-1]}"
    return enumerated(releases, word)


def release_field(help_: str) -> f.Field:
    """A key that holds the name of a release."""
    schema = {"type": "string", "pattern": f"^{_NAME.pattern}$"}
    return replace(f.pattern(_NAME.pattern, _WANTED, help_), schema=schema)
