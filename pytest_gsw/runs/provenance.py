"""Which container image and which versions of driver, NCCL and the like a run used, by its log's own word.

What environments and tables say of the image is in ``tables``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_gsw.demo import FIRST_LINE
from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.logs.scan import LogFile, matching_records, opened, safe_text
from pytest_gsw.tables.images import image_name

#: Every rank says at the log's beginning who it is, and libraries say their versions when they start.
_SEARCHED_BYTES = 4 << 20
_MARKERS = (b"NCCL version ", b"Driver Version: ", b"cudaDriverVersion ", RECIPE_MARKER)
#: By the name that a record has for it: ``NCCL version 2.21.5+cuda12.4`` (NCCL_DEBUG=VERSION), nvidia-smi's banner
#: ``Driver Version: 550.54.15    CUDA Version: 12.4``, and a recipe's own ``GSW: MODEL=… NCCL_VERSION=2.21.5``, which
#: has the release of the recipe and that of the framework as well.
_VERSIONS = {
    "recipe": re.compile(rb"\bGSW: MODEL=.{1,4000}? GSW_VERSION=([0-9][\w.+-]{0,40})"),
    "framework": re.compile(rb"\bGSW: MODEL=.{1,4000}? FW_VERSION=([0-9][\w.+-]{0,40})"),
    "nccl": re.compile(rb"\bNCCL(?: version |_VERSION=)([0-9][\w.+-]{0,40})"),
    "driver": re.compile(rb"\b(?:Driver Version:\s{1,9}|DRIVER_VERSION=)([0-9][\w.+-]{0,40})"),
    "cuda": re.compile(rb"\bCUDA(?: Version:\s{1,9}|_VERSION=)([0-9][\w.+-]{0,40})"),
    "cuda_driver": re.compile(rb"\bcudaDriverVersion ([0-9]{1,9})"),
}
_IMAGE = re.compile(rb"\bGSW: MODEL=.{1,4000}? IMAGE=(?:'([^']{1,400})'|([^\s']{1,400}))")


@dataclass(frozen=True)
class Provenance:
    """What a log says of the software that its run used; of several runs in one file, the last one's."""

    image: str | None = None
    #: By what they are of: ``recipe``, ``framework``, ``nccl``, ``driver``, ``cuda``, ``cuda_driver``.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: Whether its first line says that nothing was run.
    is_simulated: bool = False


def provenance_in(log: Path | LogFile) -> Provenance:
    """The image that a recipe's own line in a log names, the versions that the log names, and whether anything was run.

    Raises:
        OSError: The log cannot be read.
    """
    image = b""
    versions: dict[str, str] = {}
    with opened(log) as file:
        for _, record in matching_records(file, _MARKERS, stop=_SEARCHED_BYTES):
            named = _IMAGE.search(record)
            # A shell that traces its commands shows the one that is to print the line, variables and all.
            if named is not None and b"$" not in named[0]:
                image = named[1] or named[2]
            for name, pattern in _VERSIONS.items():
                version = pattern.search(record[:8000])
                if version is not None:
                    versions[name] = safe_text(version[1])
        return Provenance(image_name(safe_text(image)) or None, versions, is_simulated(file))


def is_simulated(log: Path | LogFile) -> bool:
    """Whether a log's first line says that nothing was run.

    Raises:
        OSError: The log cannot be read.
    """
    with opened(log) as file:
        return file.read(0, len(FIRST_LINE)) == FIRST_LINE.encode()
