"""Which versions of driver, NCCL and the like a run used, by its log's own word."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.logs.scan import matching_records
from pytest_gsw.logs.text import safe_text

#: Libraries say their versions when they start.
_SEARCHED_BYTES = 4 << 20
_MARKERS = (b"NCCL version ", b"Driver Version: ", b"cudaDriverVersion ", RECIPE_MARKER)
#: By the name that a record has for it: ``NCCL version 2.21.5+cuda12.4`` (NCCL_DEBUG=VERSION), nvidia-smi's banner
#: ``Driver Version: 550.54.15    CUDA Version: 12.4``, and a recipe's own ``GSW: MODEL=… NCCL_VERSION=2.21.5``.
_PATTERNS = {
    "nccl": re.compile(rb"\bNCCL(?: version |_VERSION=)([0-9][\w.+-]{0,40})"),
    "driver": re.compile(rb"\b(?:Driver Version:\s{1,9}|DRIVER_VERSION=)([0-9][\w.+-]{0,40})"),
    "cuda": re.compile(rb"\bCUDA(?: Version:\s{1,9}|_VERSION=)([0-9][\w.+-]{0,40})"),
    "cuda_driver": re.compile(rb"\bcudaDriverVersion ([0-9]{1,9})"),
}


def versions_in(log: Path) -> dict[str, str]:
    """The versions that a log names, by what they are of; of several runs in one file, the last one's.

    Raises:
        OSError: The log cannot be read.
    """
    found: dict[str, str] = {}
    for _, record in matching_records(log, _MARKERS, stop=_SEARCHED_BYTES):
        for name, pattern in _PATTERNS.items():
            match = pattern.search(record[:8000])
            if match is not None:
                found[name] = safe_text(match[1])
    return found
