"""What a history can do wrong, in words that hold no password."""

from __future__ import annotations

from pytest_gsw.errors import GswError


class HistoryError(GswError):
    """The history did not do what was asked of it. A row is judged all the same, by its tolerance alone."""


class HistoryAwayError(HistoryError):
    """The history cannot be reached now: its server does not answer, its file is locked, its disk is full."""


class HistoryUnusableError(HistoryError):
    """What is there is no history that this release can use, and says what to do about it; records wait meanwhile."""
