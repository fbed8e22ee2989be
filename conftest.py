"""The project's own tests; the plugin itself is loaded by its entry point."""

import gc

pytest_plugins = ["pytester"]


def pytest_collection_finish() -> None:
    """Leave the thousands of collected items out of Python's garbage collections.

    Every session that a test starts within this process ends with several of them.
    """
    gc.collect()
    gc.freeze()
