"""Words that many messages are made of."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: ``1 row``, ``2 rows``.

    Args:
        count: How many.
        noun: What, for one.
        plural: What, for several; the noun with an "s" by default.
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
