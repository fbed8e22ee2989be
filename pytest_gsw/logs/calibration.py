"""What a recipe says of the machine's own speed: the FLOP/s that a matrix product reached in the same job."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from pytest_gsw.logs.text import NUMBER, number

#: What a recipe's line holds, and how one looks.
MARKER = b"GSW: CALIBRATION_FLOPS="
EXAMPLE = f"{MARKER.decode()}9.5e+10"

_FLOPS = re.compile(rb"\bGSW: CALIBRATION_FLOPS=(%b)(?:\s|$)" % NUMBER)


def calibration_flops(records: Iterable[bytes]) -> float | None:
    """The FLOP/s of one GPU or core that the last of these records tells; ``None`` where it is no number above 0.

    Args:
        records: What follows the last step of a run: a recipe calibrates when it has trained.
    """
    found = None
    for record in records:
        line = _FLOPS.search(record)
        flops = None if line is None else number(line[1])
        if flops is not None:
            found = flops if 0 < flops < math.inf else None
    return found
