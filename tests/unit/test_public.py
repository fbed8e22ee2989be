"""Names that a site imports from pytest_gsw, each of which is loaded when it is asked for."""

from __future__ import annotations

import pytest

import pytest_gsw


@pytest.mark.parametrize("name", pytest_gsw.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(pytest_gsw, name) is not None
