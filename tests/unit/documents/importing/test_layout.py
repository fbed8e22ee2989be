"""The room's picture of itself."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_gsw.documents import importing


def test_what_the_walk_names_is_there() -> None:
    named = re.findall(r"``([a-z_]+)``", importing.__doc__ or "")
    modules = {path.stem for path in Path(importing.__file__).parent.glob("*.py")} - {"__init__"}
    assert len(named) == len(set(named))
    assert set(named) <= modules
