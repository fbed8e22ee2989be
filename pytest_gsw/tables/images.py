"""Names of container images: one image has one name, wherever it is said and by whom."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from pytest_gsw.common.redact import masked_text

#: The variable by which all recipes from release 24.11 on let their image be chosen.
IMAGE_VARIABLE = "RUN_CONF_IMAGE"

#: ``docker://user:password@``, and what a token in a query leaves; the "@" of a digest is part of the name.
_USER_INFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#]+@(?!sha\d)")
_QUERY = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]{0,30}://[^?]*)\?.*$")
#: ``user@registry#image``, as container tools take it without a scheme.
_BARE_USER_INFO = re.compile(r"^[^\s/?#]+@(?!sha\d)(?=[^\s/#]+[/#])")


def image_name(image: str) -> str:
    """An image's name: of a file its own, without the staging area that it lies in; of a registry the whole.

    It depends on nothing but the text: who runs a job, and with which password, changes no definition.
    """
    line = " ".join(image.split())
    if line.startswith(("/", "./", "../", "~")):
        # The staging area is another on every cluster, and its name no part of what was run.
        line = PurePosixPath(line).name.strip()
    for pattern, kept in ((_USER_INFO, r"\1"), (_QUERY, r"\1"), (_BARE_USER_INFO, "")):
        line = pattern.sub(kept, line)
    return masked_text(line)


def image_of(environment: Mapping[str, str]) -> str | None:
    """The image that a job's environment chooses."""
    chosen = environment.get(IMAGE_VARIABLE, "")
    return image_name(chosen) if chosen.strip() else None
