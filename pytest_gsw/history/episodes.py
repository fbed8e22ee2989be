"""Nights on which something was wrong, one after another: when that began, and when it was over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gsw.performance.figures import SECONDS_PER_DAY

#: What comes back so soon after it was mended was not: some nights are of one weekday.
AGAIN_S = 7 * SECONDS_PER_DAY


@dataclass(frozen=True)
class Episode:
    """Nights, by their numbers, on which something was wrong."""

    wrong: tuple[int, ...]
    #: The night by which it was mended, ``None`` while it lasts.
    mended: int | None
    #: The good nights in a row that it has by now, of those that would mend it.
    good: int = 0


def episodes(wrong: Sequence[bool | None], good_nights: int = 1, times_s: Sequence[float] = ()) -> tuple[Episode, ...]:
    """When something was wrong, by whether it was on each night, ``None`` where that night cannot tell.

    It is mended by so many good nights in a row; a night that cannot tell neither mends nor raises anything. What is
    back within :data:`AGAIN_S` goes on, where the times of the nights are known.
    """
    found: list[Episode] = []
    since: list[int] = []
    good = 0
    for night, one in enumerate(wrong):
        if one and not since and found and times_s and times_s[night] - times_s[found[-1].mended or 0] <= AGAIN_S:
            since = [*found.pop().wrong]
        if one or (one is None and since):
            since.append(night)
        if one:
            good = 0
        elif one is False and since:
            good += 1
            if good == good_nights:
                found.append(Episode(tuple(since), night))
                since, good = [], 0
    return (*found, Episode(tuple(since), None, good)) if since else tuple(found)
