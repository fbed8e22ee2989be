"""A site's plugins for the command line, loaded as by a session in this directory.

Entry points, ``-p MODULE``, and the conftest.py of the working directory's rootdir. Loading takes a few
hundred milliseconds; it happens only for a log format that is not part of pytest-gsw.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, RunError
from pytest_gsw.hooks.checks import format_problems, hook_error, not_that, wrong_answer
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.tables.model import Baseline


class _ConfigCatcher:
    """A plugin that ends pytest once the others are loaded."""

    def __init__(self) -> None:
        self.config: pytest.Config | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Keep the config, and run nothing."""
        self.config = config
        return 0


def log_format(row: Baseline, plugins: Sequence[str] = ()) -> LogFormat | None:
    """The log format of a row from a site's plugins; ``None`` if they have none.

    Raises:
        ConfigurationError: A plugin fails, or returns no log format.
    """
    config = _config(Path.cwd(), tuple(plugins))
    if config is None:
        return None
    hook = config.hook.pytest_gsw_log_format
    try:
        found: LogFormat | None = hook(config=config, baseline=row)
    except Exception as error:
        raise _configuration_error(hook_error(error, config.pluginmanager.list_name_plugin())) from None
    problems = [] if found is None else format_problems(found)
    if problems:
        raise _configuration_error(wrong_answer(hook, not_that(found, "log format", problems)))
    return found


@lru_cache
def _config(here: Path, plugins: tuple[str, ...]) -> pytest.Config | None:
    """The config of a session in this directory; ``None``, with a line on standard error, if it cannot start."""
    loaded = _ConfigCatcher()
    options = [option for plugin in plugins for option in ("-p", plugin)]
    try:
        # A conftest.py may print; that is no part of the command's output.
        with contextlib.redirect_stdout(sys.stderr):
            status = pytest.main([*options, "-s", "-p", "no:cacheprovider"], plugins=[loaded])
    except (Exception, SystemExit) as error:  # in a plugin that is being imported
        _report(f"the plugins of {here} cannot be loaded: {type(error).__name__}: {error}")
        return None
    if loaded.config is None:
        _report(f"the plugins of {here} cannot be loaded: pytest ends with {int(status)}")
    return loaded.config


def _configuration_error(error: RunError) -> ConfigurationError:
    return ConfigurationError(redact(str(error), os.environ))


def _report(line: str) -> None:
    sys.stderr.write(f"pytest-gsw: {redact(line, os.environ)}\n")
