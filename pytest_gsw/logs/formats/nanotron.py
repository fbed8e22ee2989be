"""Nanotron: a line for each iteration, with numbers of three digits and a letter for thousands.

::

    … [INFO|DP=0|PP=0|TP=0]: iteration: 7 / 500 | … | elapsed_time_per_iteration_ms: 1.25K | … | lm_loss: 8.31 | …

Source: huggingface/nanotron, ``src/nanotron/trainer.py`` (``train_step_logs``) and ``src/nanotron/logging``
(``human_format``). One process prints; iterations count from 1.
"""

from __future__ import annotations

import re

from pytest_gsw.logs.formats.base import BuiltIn, LineFormat, StepLine
from pytest_gsw.logs.scan import NUMBER, number

_LINE = re.compile(
    rb"\biteration: (\d{1,12}) / (\d{1,12}) \|.{1,200}?\belapsed_time_per_iteration_ms: ([-+]?%b)([KM]?) \|"
    rb"(?:.{1,400}?\blm_loss: ([-+]?%b)[KMGT]? \|)?" % (NUMBER, NUMBER)
)
_SCALES = {b"": 1.0, b"K": 1e3, b"M": 1e6}


class _Nanotron(LineFormat):
    name = "nanotron"
    unit = "milliseconds"
    always_has_loss = True

    def step(self, line: bytes) -> StepLine | None:
        match = _LINE.search(line)
        value = None if match is None else number(match[3])
        if match is None or value is None:
            return None
        return StepLine(int(match[1]), value * _SCALES[match[4]], match[5], total=int(match[2]))


NANOTRON = BuiltIn("nanotron", ((b"elapsed_time_per_iteration_ms: ",),), _Nanotron().reader, first_index=1)
