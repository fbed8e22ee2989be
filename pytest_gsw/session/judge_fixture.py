"""The fixture ``gsw_judge``: logs judged in the tests of others, with properties as rows have them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from pytest_gsw.common.redact import redact
from pytest_gsw.errors import GswError
from pytest_gsw.results import junit, outcomes
from pytest_gsw.session.judging import JudgedLog, judge
from pytest_gsw.tables.model import Baseline


def judge_for(config: pytest.Config, item: pytest.Item) -> Callable[..., JudgedLog]:
    """The judge of a test, to which it adds properties.

    Args:
        config: The config of its session, whose tables, cluster, limits and plugins count.
        item: The test.
    """

    def gsw_judge(log: str | os.PathLike[str], row: str | Baseline, *, check: bool = True, **given: Any) -> JudgedLog:
        __tracebackhide__ = True
        try:
            judged = judge(log, row, config=config, **given)
        except GswError as error:
            name = row.id if isinstance(row, Baseline) else row
            fact = str(getattr(error, "fact", error)).partition("\n")[0]
            facts = {"gsw_row": name, "gsw_outcome": outcomes.ERROR.word, "gsw_fact": fact}
            item.user_properties.extend(redact(facts, os.environ).items())
            raise error.with_traceback(None) from None
        item.user_properties.extend(junit.properties(judged.record))
        if check and judged.status != outcomes.GREEN:
            pytest.fail(judged.text, pytrace=False)
        return judged

    return gsw_judge
