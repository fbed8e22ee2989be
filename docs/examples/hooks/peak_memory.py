"""A metric of lines such as ``step 12 | max memory 58.31 GiB``. Copy it as conftest.py."""

import re

from pytest_gsw import Direction, Metric


def peak_memory(log):
    for line in log.lines(b"max memory "):
        found = re.search(rb"max memory (\S+) GiB", line)
        if found:
            yield found[1]


def pytest_gsw_metrics():
    memory = Metric(
        key="peak_memory_gib",
        unit="GiB",
        direction=Direction.LOWER_IS_BETTER,
        label="peak memory",
        read=peak_memory,
        statistic="max",
    )
    return [memory]
