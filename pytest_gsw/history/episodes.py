"""Nights on which something was wrong, one after another: when that began, and when it was over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Episode:
    """Nights, by their numbers, on which something was wrong."""

    wrong: tuple[int, ...]
    #: The night by which it was mended, ``None`` while it lasts.
    mended: int | None
    #: The good nights in a row that it has by now, of those that would mend it.
    good: int = 0


def episodes(wrong: Sequence[bool | None], good_nights: int = 1) -> tuple[Episode, ...]:
    """When something was wrong, by whether it was on each night, ``None`` where that night cannot tell.

    It is mended by so many good nights in a row; a night that cannot tell neither mends nor raises anything.
    """
    found: list[Episode] = []
    since: list[int] = []
    good = 0
    for night, one in enumerate(wrong):
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
