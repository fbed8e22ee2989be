"""The project's own tests; the plugin itself is loaded by its entry point."""

import gc
import os
import tempfile

import pytest

pytest_plugins = ["pytester", "tests.rerun", "tests.sample"]


def pytest_configure(config: pytest.Config) -> None:
    """Local jobs are counted in the user's home; those of tests are not."""
    state = tempfile.TemporaryDirectory(prefix="gsw-state-")
    config.add_cleanup(state.cleanup)
    os.environ["XDG_STATE_HOME"] = state.name


def pytest_collection_finish() -> None:
    """Leave the thousands of collected items out of Python's garbage collections.

    Every session that a test starts within this process ends with several of them.
    """
    gc.collect()
    gc.freeze()
