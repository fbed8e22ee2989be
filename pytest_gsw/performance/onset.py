"""With which night a loss may have begun, where it was first beyond what is allowed on another one.

A loss is found on the first night whose noise does not hide it, which is the night of the change in some cases only.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

#: How many nights before and after are looked at, and how many before those tell the level before, at most.
WINDOW = 21
_BEFORE = 30

#: Fewest nights that tell the level before: with fewer, the night on which it was found is all that is known.
_FEWEST = 3

#: How much less likely than the best one a first night may be, as a logarithm.
PLAUSIBLE = 3.0

#: Standard deviations of a night by which the level since is above the one before, at least.
_LEAST_STEP = 1.0

#: The mean distance of normal values from their mean, in standard deviations.
_MEAN_DEVIATION = math.sqrt(2 / math.pi)


def onset(logs: Sequence[float], found: int, sigma: float, earliest: int = 0) -> tuple[int, int]:
    """The first and the last night, by their indices, with which a loss may have begun.

    Each night is tried as the first of the level since, by the likelihood of Laplace noise, in which a single odd night
    moves little (S. Kotz, T. J. Kozubowski, K. Podgórski, The Laplace Distribution and Generalizations (2001), ch. 2).

    Args:
        logs: The natural logarithm of each night's step time, the oldest first.
        found: The night on which the loss was found; it has lasted since.
        sigma: The standard deviation of nights while nothing changes.
        earliest: The first night with which it may have begun.
    """
    begin, end = max(earliest, found - WINDOW), min(len(logs), found + WINDOW + 1)
    before = logs[max(0, found - _BEFORE) : found]
    if len(before) < _FEWEST or sigma <= 0:
        return found, found
    level, since = statistics.median(before), statistics.median(logs[found:])
    if since - level < _LEAST_STEP * sigma:  # the nights before were as slow, and allowed
        return found, found
    # Nights up to the first one are held against the level before, those from it on against the level since.
    gains = [abs(value - level) - abs(value - since) for value in logs[begin:end]]
    worse = list(itertools.accumulate(gains, initial=0.0))[: end - begin]
    most = min(worse) + PLAUSIBLE * _MEAN_DEVIATION * sigma
    plausible = [begin + number for number, one in enumerate(worse) if one <= most]
    return min(found, plausible[0]), max(found, plausible[-1])
