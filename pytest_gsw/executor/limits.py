"""The limits of a session on its jobs: the resources they use at once, and early stops."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Most resources that a session uses at once; infinity is no limit."""

    jobs: float = math.inf
    gpus: float = math.inf
    #: Pending jobs.
    pending: float = math.inf
    #: Seconds that a job waits in the queue while no job of the session runs.
    queue_s: float = math.inf


@dataclass(frozen=True)
class Policies:
    """Conditions under which a running job is ended early."""

    #: Seconds without a new step; ``None`` for the default by the documented step time, infinity for never.
    stall_s: float | None = None
    #: Multiple of the documented step time that the first steps may take; infinity for any.
    slow_start: float = 3.0
