"""Shares of few jobs: how sure it is that one is higher than another."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

#: Steps of a bisection, each of which halves what is left: more than a float can tell apart.
_STEPS = 60
#: What changes no sum any more.
_NEGLIGIBLE = 1e-17


def log_tail(count: int, of: int, share: float) -> float:
    """The logarithm of how likely so many or more of them are, each of which has this share by itself.

    Args:
        count: How many.
        of: Of how many.
        share: From 0 to 1.
    """
    if count <= 0 or share >= 1:
        return 0.0
    if share <= 0:
        return -math.inf
    if count > of * share:
        return min(0.0, _log_sum(count, of, share))
    # The other tail is the shorter one: so many or more of those that have not.
    return math.log1p(-min(1.0, math.exp(_log_sum(of - count + 1, of, 1 - share))))


def _log_sum(count: int, of: int, share: float) -> float:
    """The logarithm of the sum of a binomial's terms from one on behind which they fall."""
    first = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
    first += count * math.log(share) + (of - count) * math.log1p(-share)
    term, total = 1.0, 1.0
    for k in range(count, of):
        term *= (of - k) / (k + 1) * share / (1 - share)
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return first + math.log(total)


@lru_cache(maxsize=4096)
def clopper_pearson(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval that holds a share in at least so many cases, whatever it is, of ``count`` seen among ``of``.

    C. J. Clopper and E. S. Pearson, Biometrika 26 (1934), p. 404: the shares by which so many or more, and so many or
    fewer, are as unlikely as one half of what is left.
    """
    if of <= 0:
        return 0.0, 1.0
    odd = math.log((1 - confidence) / 2)
    low = 0.0 if count <= 0 else _where(lambda share: log_tail(count, of, share) >= odd)
    high = 1.0 if count >= of else _where(lambda share: log_tail(of - count, of, 1 - share) < odd)
    return low, high


def _where(is_above: Callable[[float], bool]) -> float:
    """Where from 0 to 1 something becomes true."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return (low + high) / 2
