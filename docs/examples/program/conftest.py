"""The peak memory of a program, relative to the memory of its base: a further figure of the rows."""

from pytest_gsw import Direction, Metric


def ratios(log):
    """The figure of each pair, from lines such as ``peak memory: 1.0213 of base``."""
    return [line.split()[2] for line in log.lines(b"peak memory: ")]


def pytest_gsw_metrics():
    lower = Direction.LOWER_IS_BETTER
    return [Metric("peak_memory", "x", lower, "peak memory", read=ratios, statistic="median")]
