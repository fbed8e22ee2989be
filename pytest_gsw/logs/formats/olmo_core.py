"""OLMo-core: a block of lines for each logged step, with the tokens per second of a device.

::

    … INFO  [step=12/500,epoch=1,eta=0:10:12]
        train/CE loss=7.812
        optim/total grad norm=1.314
        throughput/device/TPS=12,345

Source: allenai/OLMo-core, ``train/callbacks/console_logger.py``, ``speed_monitor.py``, ``utils.py`` (``format_float``).
The first rank prints. Steps count from 1; the first step of a process has no rate.
"""

from __future__ import annotations

import math
import re

from pytest_gsw.logs.formats.base import BuiltIn, SeriesParser
from pytest_gsw.logs.scan import number, rank_of, safe_text
from pytest_gsw.logs.steps import SingleRankSteps, StepRecord, Unit

_STEP = re.compile(rb"\[step=(\d{1,12})/(\d{1,12}|\?\?\?),epoch=\d{1,9}[,\]]")
_METRIC = re.compile(rb"\s(train/CE loss|optim/total grad norm|throughput/device/TPS)=(\S{1,60})\s{0,8}$")


class _Parser(SeriesParser):
    def __init__(self) -> None:
        self._series = SingleRankSteps(Unit.TOKENS_PER_S_PER_GPU)
        super().__init__("olmo-core", self._series)
        self._step = 0
        #: Of the current block.
        self._loss: float | None = None
        self._problem: str | None = None
        self._is_zero = False

    def feed(self, offset: int, record: bytes) -> None:
        step, metric = _STEP.search(record), _METRIC.search(record)
        if step is not None:
            self._step, self.total_steps = int(step[1]), int(step[2]) if step[2].isdigit() else 0
            self._loss, self._problem, self._is_zero = None, None, False
        elif metric is not None and self._step:
            value = number(metric[2])
            value = math.nan if value is None else value
            if metric[1] == b"throughput/device/TPS":
                known = (self._problem, self._loss, True)
                self._series.add(
                    StepRecord(offset, self._step, value, rank_of(record), *known, zero_norm=self._is_zero)
                )
            elif not math.isfinite(value):
                self._problem = self._problem or safe_text(metric[0])
                self._series.lose(self._step, self._problem)
            elif metric[1] == b"train/CE loss":
                self._loss = value
            else:
                self._is_zero = value == 0


OLMO_CORE = BuiltIn(
    "olmo-core",
    ((b"[step=", b"train/CE loss=", b"optim/total grad norm=", b"throughput/device/TPS="),),
    _Parser,
    first_index=1,
)
