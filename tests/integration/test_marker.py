"""``-m`` and ``-k`` select rows exactly by their facts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("selection", "count"),
    [(("-m", "gsw(framework='nemo', dtype='fp8') and not proxy"), 6), (("-k", "405b and not fp8"), 6)],
)
def test_a_selection(pytester: pytest.Pytester, selection: tuple[str, str], count: int) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", "--strict-markers", *selection)
    assert len([line for line in result.outlines if "::" in line]) == count
