"""``-m`` and ``-k`` select rows exactly by their facts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (("-m", "gsw(gpus=64, dtype='fp8')"), 2),
        (("-m", "gsw(framework='nemo') and not proxy"), 12),
        (("-m", "gsw(gpus=65)"), 0),
        (("-k", "405b and not fp8"), 6),
    ],
)
def test_a_selection(pytester: pytest.Pytester, selection: tuple[str, str], count: int) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", "--strict-markers", *selection)
    assert len([line for line in result.outlines if "::" in line]) == count


def test_markers_are_registered(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.gsw(workload, model, size, *", "@pytest.mark.proxy: *"])
