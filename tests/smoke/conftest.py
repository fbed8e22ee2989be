"""What the tests of the recipe that really trains need: PyTorch with Transformers, and a cluster of two nodes."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest

from tests.requirements import require
from tests.slurm.cluster import SlurmCluster
from tests.slurm.conftest import start

_REQUIRED = "GSW_REQUIRE_SMOKE"
_MISSING = [name for name in ("torch", "transformers", "accelerate") if importlib.util.find_spec(name) is None]

# It cannot even be imported without them; where they are required, that is to be seen.
collect_ignore = ["test_model_flops.py"] if _MISSING and os.environ.get(_REQUIRED) != "1" else []


@pytest.fixture(scope="session", autouse=True)
def frameworks() -> None:
    """The packages that train."""
    problem = f"training needs {', '.join(_MISSING)}: pip install '.[smoke]'" if _MISSING else None
    require(_REQUIRED, problem)


@pytest.fixture(scope="session")
def slurm2() -> Iterator[SlurmCluster]:
    """Two nodes."""
    yield from start(2, gpus_per_node=0, accounting=False)
