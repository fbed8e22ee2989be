"""What a site's plugins know, for the command line: they are loaded as a session that starts here loads them.

Entry points, ``-p MODULE``, and the conftest.py of the working directory's rootdir. It costs a few
hundred milliseconds, so that it is asked only for what does not come with pytest-gsw.
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


class _Loaded:
    """A plugin that ends pytest once the others are loaded."""

    def __init__(self) -> None:
        self.config: pytest.Config | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Keep the config, and run nothing."""
        self.config = config
        return 0


def log_format(row: Baseline, plugins: Sequence[str] = ()) -> LogFormat | None:
    """How a site's plugins read the logs of a row; ``None`` where they do not.

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
        raise _failed(hook_error(error, config.pluginmanager.list_name_plugin())) from None
    problems = [] if found is None else format_problems(found)
    if problems:
        raise _failed(wrong_answer(hook, not_that(found, "log format", problems)))
    return found


@lru_cache
def _config(here: Path, plugins: tuple[str, ...]) -> pytest.Config | None:
    """The config of a session that would start here; ``None``, said on the standard error, where none can."""
    loaded = _Loaded()
    options = [option for plugin in plugins for option in ("-p", plugin)]
    try:
        # What a conftest.py prints is no part of the answer.
        with contextlib.redirect_stdout(sys.stderr):
            status = pytest.main([*options, "-s", "-p", "no:cacheprovider"], plugins=[loaded])
    except (Exception, SystemExit) as error:  # of a plugin that is being imported
        _say(f"the plugins of {here} cannot be loaded: {type(error).__name__}: {error}")
        return None
    if loaded.config is None:
        _say(f"the plugins of {here} cannot be loaded: pytest ends with {int(status)}")
    return loaded.config


def _failed(error: RunError) -> ConfigurationError:
    return ConfigurationError(redact(str(error), os.environ))


def _say(line: str) -> None:
    sys.stderr.write(f"pytest-gsw: {redact(line, os.environ)}\n")
