"""A metric that is better the higher it is, of lines such as ``generated 1834.2 tokens/s``. Copy it as conftest.py."""

import re

from pytest_gsw import Direction, Metric


def output_tokens(log):
    lines = (re.search(rb"generated (\S+) tokens/s", line) for line in log.lines(b"generated "))
    return [found[1] for found in lines if found]


def pytest_gsw_metrics():
    higher = Direction.HIGHER_IS_BETTER
    return [Metric("output_tokens_per_s", "tokens/s", higher, "output", read=output_tokens, statistic="median")]
