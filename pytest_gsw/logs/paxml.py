"""Paxml: ``[PAX STATUS]: train_step() took 7.470000 seconds.``.

Source: google/paxml, ``paxml/programs.py``, ``BaseTrainProgram.run``. Seconds of one step, without a
step number; every process prints, upstream only its first 20 steps (``log_first_n``). Lines bear absl's
prefix, ``I0411 15:03:26.866614 140737350317184 programs.py:366]``, whose third field is the thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import median_low
from typing import TYPE_CHECKING

from pytest_gsw.logs.attempts import Unnumbered, can_be, step_log
from pytest_gsw.logs.text import NUMBER, number, rank_of, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gsw.logs.model import Dialect, StepLog

_TOOK = re.compile(rb"\[PAX STATUS\]:? train_step\(\) took (-?%b) seconds" % NUMBER)
_LOSS = re.compile(rb"\[PAX STATUS\]:? step_i: (\d{1,12}), training loss: [-+]?(?:nan|inf)\b", re.IGNORECASE)
_PROGRAM_START = b"[PAX STATUS]: Program start."
_ABSL = re.compile(rb"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} {1,8}(\d{1,20}) ")


@dataclass
class _Run:
    """What one process printed, or what several did whose lines nothing tells apart."""

    starts: int = 0
    taken: list[tuple[float, int]] = field(default_factory=list)

    def steps(self) -> list[tuple[float, int]]:
        """One entry a step: where several processes share the lines, their median."""
        width = max(1, self.starts)
        groups = [self.taken[at : at + width] for at in range(0, len(self.taken), width)]
        return [(median_low(value for value, _ in group), group[0][1]) for group in groups if len(group) == width]


@dataclass(frozen=True)
class Paxml:
    """The format of Paxml."""

    name: str = "paxml"
    dialects: tuple[Dialect, ...] = ((b"[PAX STATUS]",),)
    first_index: int | None = None
    wraps: bool = False
    shows_progress: bool = True

    def parse(self, lines: Iterator[tuple[int, bytes]]) -> StepLog:
        """Read the steps of one process of the last attempt: of the one that printed most, the first of equals.

        Processes are told apart by srun's label and absl's thread. On machines that do not
        randomize addresses all have the same thread: how many they are is then known by how
        often the program started.
        """
        runs: list[_Run] = []
        current: dict[tuple[int | None, bytes], _Run] = {}
        losses: list[tuple[int, int, str]] = []
        for offset, line in lines:
            absl = _ABSL.search(line)
            key = (rank_of(line), b"" if absl is None else absl[1])
            run = current.get(key)
            if run is None or (_PROGRAM_START in line and run.taken):
                run = current[key] = _Run()
                runs.append(run)
            run.starts += _PROGRAM_START in line
            for took in _TOOK.finditer(line):
                value = number(took[1])
                if value is not None:
                    run.taken.append((value, offset))
            loss = _LOSS.search(line)
            if loss is not None:
                losses.append((offset, int(loss[1]), safe_text(loss[0])))
        attempts = _attempts([run for run in runs if run.taken])
        series = Unnumbered()
        if attempts:
            chosen = max(attempts[-1], key=lambda run: len(run.steps()))
            for value, offset in chosen.steps():
                series.add(value, offset)
            series.attempts = len(attempts)
            begin = min(run.taken[0][1] for run in attempts[-1])
            # Whichever process it was that measured it.
            taken = sorted((offset, value) for run in attempts[-1] for value, offset in run.taken)
            bad_s = next((value for _, value in taken if not can_be(value)), None)
            series.not_finite = None if bad_s is None else (None, f"step time {bad_s}")
            bad = next(((index, text) for offset, index, text in losses if offset >= begin), None)
            series.not_finite = series.not_finite or bad
        return step_log(self.name, series)


def _attempts(runs: list[_Run]) -> list[list[_Run]]:
    """Runs of processes that trained at the same time, in order: a later attempt begins when the earlier has ended."""
    attempts: list[list[_Run]] = []
    end = -1
    for run in sorted(runs, key=lambda run: run.taken[0][1]):
        if run.taken[0][1] > end:
            attempts.append([])
        attempts[-1].append(run)
        end = max(end, run.taken[-1][1])
    return attempts


FORMAT = Paxml()
