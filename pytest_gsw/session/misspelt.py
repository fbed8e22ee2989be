"""Misspelt options: pytest says that it does not know them, and this, which may be meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from pytest_gsw.session.options import OPTIONS
from pytest_gsw.tables.fields import misspelt

#: The beginning that all options share, by which any word would be like any option.
_PREFIX = re.compile(r"--g\w{0,3}[-_]")


def hint(parser: pytest.Parser, words: Sequence[str]) -> None:
    """Have pytest's message of unknown options name the nearest one; where it knows them all, nobody reads this."""
    names = {option.name: option for option in OPTIONS}
    for word in words:
        given = word.partition("=")[0]
        prefix = _PREFIX.match(given)
        if prefix and given not in {option.flag for option in OPTIONS}:
            for name in misspelt(given[prefix.end() :], names):
                parser.extra_info[given] = f"did you mean {names[name].flag}?"
