"""The ids of runs."""

from __future__ import annotations

import time
import uuid


def new_run_id() -> str:
    """An id for a run that begins now: day, time, and six hexadecimal digits that no other run has.

    The first three count within the second, so that runs of one machine are by name in the order in which they began.
    """
    now_s = time.time()
    begun = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_s))
    return f"{begun}-{int(now_s % 1 * 0x1000):03x}{uuid.uuid4().hex[:3]}"
