"""The contracts of a launcher and of a log format as tests that a site runs against its own.

A test module subclasses :class:`LauncherContract` or :class:`LogFormatContract`, says how its launcher or
format is made, and pytest collects the rest. No session loads this package by itself.
"""

from pytest_gsw.testing.formats import LogFormatContract
from pytest_gsw.testing.launchers import LauncherContract

__all__ = ["LauncherContract", "LogFormatContract"]
