"""What a machine must have for some tests, which skip without it, or fail where it is required."""

from __future__ import annotations

import os

import pytest


def require(variable: str, problem: str | None) -> None:
    """Skip what a machine cannot run, or fail if the variable is 1: where everything is to be tested, as by CI.

    Args:
        variable: Says that it is required, such as ``GSW_REQUIRE_SLURM``.
        problem: What is missing; ``None`` if nothing is.
    """
    if problem is None:
        return
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable}=1, but {problem}")
    pytest.skip(problem)
