"""What a history can do wrong, in words that hold no password."""

from __future__ import annotations

from pytest_gsw.errors import GswError


class HistoryError(GswError):
    """The history did not do what was asked of it. No row's outcome depends on that."""


class HistoryAwayError(HistoryError):
    """The history cannot be reached now: its server does not answer, its file is locked, its disk is full."""
