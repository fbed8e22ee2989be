"""The contracts of a launcher and of a log format as tests for a site's own ones.

A test module subclasses :class:`LauncherContract` or :class:`LogFormatContract`, and provides its launcher or
format; pytest collects the rest. No session loads this package by itself.
"""

from pytest_gsw.testing.formats import LogFormatContract
from pytest_gsw.testing.launchers import LauncherContract

__all__ = ["LauncherContract", "LogFormatContract"]
