"""What all tests share: how Hypothesis looks for examples, and what the sessions that they start are told."""

from __future__ import annotations

import os
import signal
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

# pytest reads this file for the README's first command, too, where nothing is installed but the plugin.
if find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    #: A submission must not fail because a machine is slow, nor for an example that no other run tries.
    _STEADY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
    #: As with parameter sets (tests/sample.py).
    _EXAMPLES = {"one-of-each": 5, "all": 30}.get(os.environ.get("GSW_TESTS", ""), 10)
    settings.register_profile("steady", derandomize=True, max_examples=_EXAMPLES, **_STEADY)
    #: ``HYPOTHESIS_PROFILE=nightly`` looks further, at other examples each time.
    settings.register_profile("nightly", max_examples=300, **_STEADY)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """A shell lets what it runs in the background ignore SIGINT, and so would every process that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Untested(ET.Element):
    """An element whose truth is not to be asked for: it has none from some Python on, and is false before if empty."""

    def __bool__(self) -> bool:
        raise AssertionError(f"the truth of the element {self.tag} was asked for")


@pytest.fixture(scope="session", autouse=True)
def _no_element_has_a_truth() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ET, "Element", Untested)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_ci() -> Iterator[None]:
    """Where a CI says that it is one, pytest repeats each message whole in its summary: tests see what a desk sees."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "BUILD_NUMBER"):
            patch.delenv(name, raising=False)
        yield
