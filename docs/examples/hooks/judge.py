"""Full-size models must keep within half the tolerance. Copy it as conftest.py."""

from pytest_gsw import verdict_of


def pytest_gsw_judge(baseline, measurement, tolerance):
    return verdict_of(baseline, measurement, tolerance if baseline.workload.proxy else tolerance / 2)
