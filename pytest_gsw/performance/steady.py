"""The steady state of one run: its steps after warm-up, and how even they are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: The run has settled at the first of so many steps in a row that are this near to the median of its second half.
#: Of 572 published runs of Megatron-LM half had settled at step 2, and nine of ten at step 11.
_IN_A_ROW = 3
_NEARNESS = 0.10
#: A steady state of fewer steps is none, unless the whole run has no more.
MIN_STEPS = 10
#: A step that takes over this multiple of the median is a spike: a checkpoint, an evaluation, a hiccup.
SPIKE = 1.2


@dataclass(frozen=True)
class Steady:
    """The steps of a run without those before it had settled; times are in seconds."""

    #: Steps before the steady state, which are not in it.
    warm_up_steps: int
    #: Steps in it.
    steps: int
    median_s: float
    mean_s: float
    p90_s: float
    #: The share of its steps that are spikes.
    spike_fraction: float


def steady(series_s: Sequence[float]) -> Steady:
    """The steady state of a run; of one that never settles it is the last steps, as few as make a steady state.

    Where most steps are slower than those it is the whole run.

    Raises:
        ValueError: There are no steps.
    """
    if not series_s:
        raise ValueError("there are no steps")
    first = _settled_at(series_s)
    chosen = series_s[first:]
    median_s = statistics.median(chosen)
    spikes = sum([seconds > SPIKE * median_s for seconds in chosen])
    mean_s = math.fsum([seconds / len(chosen) for seconds in chosen])  # the sum of what a log says may have no float
    return Steady(first, len(chosen), median_s, mean_s, p90(chosen), spikes / len(chosen))


def p90(values: Sequence[float]) -> float:
    """The 90th percentile by nearest rank: a value that was really measured."""
    return sorted(values)[max(0, math.ceil(0.9 * len(values)) - 1)]


def _settled_at(series_s: Sequence[float]) -> int:
    """How many steps there are before the steady state."""
    last_start = max(0, len(series_s) - MIN_STEPS)
    usual_s = statistics.median(series_s[len(series_s) // 2 :])
    near = [abs(seconds - usual_s) <= _NEARNESS * usual_s for seconds in series_s]
    first = next((start for start in range(last_start) if all(near[start : start + _IN_A_ROW])), last_start)
    # No warm-up is most of a run.
    is_most = statistics.median_low(series_s) > (1 + _NEARNESS) * statistics.median(series_s[first:])
    return 0 if is_most else first
