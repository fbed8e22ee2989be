"""A log format: ``tick 12 took 0.731 s, loss 9.021``, for tables with ``log_format: tick``. Copy it as conftest.py."""

import re

from pytest_gsw import LineFormat, StepLine


class TickFormat(LineFormat):
    name = "tick"
    dialects = ((b"tick ",),)
    first_index = 1
    always_has_loss = True

    def step(self, line):
        found = re.search(rb"tick (\d+) took (\S+) s, loss (\S+)", line)
        return found and StepLine(int(found[1]), found[2], loss=found[3])


def pytest_gsw_log_format(baseline):
    return TickFormat() if baseline.workload.log_format == "tick" else None
