"""What a session may take of a cluster, and when it ends a job early."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much of the cluster a session may take at once; infinity is no limit."""

    jobs: float = math.inf
    gpus: float = math.inf
    #: Jobs that are pending.
    pending: float = math.inf


@dataclass(frozen=True)
class Policies:
    """When a running job is ended before its time."""

    #: Seconds without a new step; ``None`` for the default by the documented step time, infinity for never.
    stall_s: float | None = None
    #: Multiple of the documented step time that the first steps may take; infinity for any.
    slow_start: float = 3.0
