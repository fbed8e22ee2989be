"""A part's budget: a JSON file beside it with what each function may be called, made by ``python -m tests.budget --write``.

Figures are made on one Python and one pytest, which the file names: another Python calls other functions of its own.
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.budget.counting import is_own

#: A figure may grow by this fraction of its budget.
GROWTH = 0.10
#: The Python that budgets are made on.
PYTHON = (3, 11)
#: How many functions a failure names.
_MOST_NAMED = 15
_BESIDE = Path(__file__).parent

#: By what was counted (``calls``, ``modules``), by function or module, how many.
Figures: TypeAlias = Mapping[str, Mapping[str, int]]


def why_not_compared() -> str:
    """Why budgets are not compared on this Python; "" where they are."""
    wanted = ".".join(map(str, PYTHON))
    return (
        "" if sys.version_info[:2] == PYTHON else f"budgets are of Python {wanted}, this is {platform.python_version()}"
    )


def excess(part: str, figures: Figures) -> str:
    """What to say where a figure of a part has grown beyond its budget, and by which functions; else "".

    With another pytest than the budget's, only what is pytest-gsw's own is compared.
    """
    budget = json.loads(_path(part).read_text())
    own_alone = budget["pytest"] != _pytest()
    said = (
        _growth(f"{part}: {what}", _of(today, own_alone), _of(budget["figures"].get(what, {}), own_alone))
        for what, today in figures.items()
    )
    return "\n".join(text for text in said if text)


def write_budget(part: str, figures: Figures) -> None:
    """Make a part's figures its budget."""
    text = json.dumps(
        {"python": platform.python_version(), "pytest": _pytest(), "figures": figures}, indent=1, sort_keys=True
    )
    _path(part).write_text(f"{text}\n")


def lines(part: str, figures: Figures) -> list[str]:
    """Today's figures beside their budgets, a line each."""
    budget = json.loads(_path(part).read_text())["figures"] if _path(part).is_file() else {}
    totals = {what: (sum(today.values()), sum(budget.get(what, {}).values())) for what, today in figures.items()}
    return [f"{part:<8} {what:<24} {now:>12,}   budget {then:>12,}" for what, (now, then) in totals.items()]


def _path(part: str) -> Path:
    return _BESIDE / f"{part}.json"


def _pytest() -> str:
    return ".".join(pytest.__version__.split(".")[:2])


def _of(counts: Mapping[str, int], own_alone: bool) -> Mapping[str, int]:
    return {name: number for name, number in counts.items() if not own_alone or is_own(name)}


def _growth(what: str, today: Mapping[str, int], budget: Mapping[str, int]) -> str:
    now, then = sum(today.values()), sum(budget.values())
    if now <= then * (1 + GROWTH):
        return ""
    more = Counter({name: today.get(name, 0) - budget.get(name, 0) for name in {*today, *budget}})
    named = [f"  {number:+9,}  {name}" for name, number in more.most_common(_MOST_NAMED) if number > 0]
    percent = f"{(now / then - 1) * 100:+.0f} %" if then else "new"
    return "\n".join(
        [
            f"{what}: {now:,}, the budget is {then:,} ({percent}); more than before:",
            *named,
            "next: spend less, or accept it with python -m tests.budget --write",
        ]
    )
