"""nccl-tests: a table of sizes, with the time and the bandwidth of a collective out of place and in place.

::

    # Collective test starting: all_reduce_perf
    # nThread 1 nGpus 1 minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 20 … validation: 1 …
    #  Rank  0 Group  0 Pid 4242 on node7 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
    #       size        count   type  redop   root    time  algbw   busbw #wrong     time   algbw   busbw #wrong
     17179869184   4294967296  float    sum     -1 64248.1 267.40  501.37      0  64251.0  267.39  501.35      0
    # Out of bounds values : 0 OK
    # Avg bus bandwidth    : 213.118

Source: NVIDIA/nccl-tests, ``src/common.cu`` and ``src/util.cu``; AMD's rccl-tests prints the same. Columns are found by
their names: ``redop`` and ``root`` are missing in old versions, and ``#wrong`` is ``error`` before 2.13, a deviation
that the summary judges. Microseconds, and 1e9 bytes per second. A size that is no multiple of what the ranks need is
rounded down; figures are named by the size that was asked for. In place, some collectives are not verified: ``N/A``.

Old versions do not name the collective: then the command does, if the recipe prints it, or else what the rows show.

A run is valid if every size has its row, none has a wrong value, the summary agrees, and the mean of the rows is the
average that it states: a row that another process has overwritten may still look like one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.model import Identity, StepLog
from pytest_gsw.logs.scan import NUMBER, number, rank_of, safe_text

_TYPES = (
    *("float", "half", "bfloat16", "double", "int8", "uint8", "int32", "uint32", "int64", "uint64"),
    *("fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"),
)
#: Collectives by what their rows show: if they have an operation, and a root; and bus over algorithm bandwidth of n
#: ranks, in shares of (n - 1) / n, 0 for 1 (``doc/PERFORMANCE.md``).
_COLLECTIVES = (
    *(("all_reduce", True, False, 2), ("reduce_scatter", True, False, 1), ("sendrecv", True, False, 0)),
    *(("all_gather", False, False, 1), ("alltoall", False, False, 1), ("reduce", True, True, 0)),
    *(("broadcast", False, True, 0), ("gather", False, True, 1), ("scatter", False, True, 1)),
)
_NAMES = "|".join(name for name, *_ in _COLLECTIVES).encode()
_COLLECTIVE = re.compile(
    rb"\bCollective test starting: ([a-z0-9_]{1,40})_perf\b|\b(%b)_perf\b.{0,80}? -[befg] {0,2}\d" % _NAMES
)
_START = re.compile(
    rb"\bnThread \d{1,6} nGpus \d{1,6} minBytes (\d{1,18}) maxBytes (\d{1,18}) step: (\d{1,18})\((factor|bytes)\)"
    rb".{0,200}?\bvalidation: (\d)"
)
_REDUCED = re.compile(rb"\bReducing maxBytes to (\d{1,18}) due to memory limitation")
_RANK = re.compile(
    rb"# {1,4}Rank {1,8}(\d{1,7}) .{0,40}\bPid (?:.{1,300}?\bdevice {1,4}\d{1,4} \[[^\]]{1,24}\] {1,4}([^#]{1,80}))?"
)
_HEADING = re.compile(rb"\bsize {1,40}count {1,40}type (?: {0,40}[#\w]{1,20}){4,30}")
_ROW = re.compile(rb"(?:^|[\s:>])(\d{1,18} {1,20}\d{1,18} {1,20}(?:%s) .{1,400})" % "|".join(_TYPES).encode())
_WRONG = re.compile(rb"Out of bounds values {1,8}: (?:(0 OK)\b|.{1,40})")
_AVERAGE = re.compile(rb"Avg bus bandwidth {1,8}: (-?%b)(?: {1,4}(FAILED))?" % NUMBER)

#: Columns that are figures, and their units in keys.
_UNITS = {"time": "us", "algbw": "gbs", "busbw": "gbs"}
_IN_PLACE = "_in_place"
#: A size is rounded down to a multiple of 16 bytes for each rank.
_ROUNDED_BYTES = 16
_MOST_RANKS = 1 << 17


def size_text(size_bytes: int) -> str:
    """A size as tables write it, in the largest unit of which it is a multiple: ``16 GiB``, ``1250 MiB``, ``12 B``."""
    units = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
    shift, unit = next((one for one in units if size_bytes and size_bytes % (1 << one[0]) == 0), (0, "B"))
    return f"{size_bytes >> shift} {unit}"


@dataclass
class _Test:
    """One run of a test, as far as it was read."""

    #: Smallest and largest size in bytes, and the step to the next one; unknown if the log begins later.
    first: int = 0
    last: int = 0
    step: int = 0
    is_factor: bool = False
    is_checked: bool = True
    #: The launcher's label of the process that prints.
    label: int | None = None
    #: The collective by name, and the devices of the ranks.
    collective: str | None = None
    ranks: dict[int, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    #: Type, operation and root of the rows, and the size that comes next.
    kind: tuple[str | None, ...] = ()
    due: int = 0
    #: Offsets of the first lines that state fields of the identity.
    places: dict[str, int] = field(default_factory=dict)
    figures: dict[str, list[float]] = field(default_factory=dict)
    busbw: list[float] = field(default_factory=list)
    is_right: bool = False
    average: float | None = None
    fault: str | None = None

    def add_row(self, record: bytes, words: list[str]) -> None:
        """Read a size's row: the line, and its columns."""
        row = dict(zip(self.columns, words, strict=False))
        if not self.step or not row or len(row) < len(self.columns):
            self.fail("a row without the sizes of the run, its heading or its last columns")
        if self.fault is not None:
            return
        size, kind = int(row["size"]), tuple(row.get(name) for name in ("type", "redop", "root"))
        self.kind = self.kind or kind
        if self.due > self.last:
            self.due = self.first  # the next cycle of --run_cycles
        at = size_text(self.due)
        if kind != self.kind or rank_of(record) != self.label:
            self.fail(f"rows of several types, operations or processes at {size_text(size)}")
        elif not 0 <= self.due - size < _ROUNDED_BYTES * (len(self.ranks) or _MOST_RANKS):
            self.fail(f"a row of {size_text(size)}, where that of {at} comes next")
        for column, text in row.items():
            self._add_value(column, text, at)
        self.due = self.due * self.step if self.is_factor else self.due + self.step

    def _add_value(self, column: str, text: str, at: str) -> None:
        name, value = column.removesuffix(_IN_PLACE), number(text.encode())
        is_possible = value is not None and 0 <= value < math.inf
        if name in {"#wrong", "error"}:
            is_unknown = text == "N/A" and (name != column or not self.is_checked)
            is_possible = is_unknown or (value == 0 if name == "#wrong" else is_possible)
        elif name not in _UNITS:
            return
        elif value:
            self.figures.setdefault(f"{column}_{_UNITS[name]} at {at}", []).append(value)
        if name == "busbw":
            self.busbw.append(value or 0)
        if not is_possible:
            self.fail(f"{column} {text!r} at {at}")

    def fail(self, text: str) -> None:
        """Record a fault; the first one counts."""
        self.fault = self.fault or safe_text(text.encode())

    def _shown(self) -> list[str]:
        """The collectives whose rows look like these."""
        look = (self.kind[1] not in {None, "none"}, self.kind[2] not in {None, "-1"})
        rates = [values[-1] for key, values in self.figures.items() if key.startswith(("algbw_gbs ", "busbw_gbs "))]
        algbw, busbw = (0.0, 0.0, *rates)[-2:]  # of the largest size
        share = 1 - 1 / max(len(self.ranks), 1)
        factor = min((2 * share, share, 1.0), key=lambda bus_factor: abs(busbw - algbw * bus_factor))
        return [name for name, *of, shares in _COLLECTIVES if (*of,) == look and factor in {shares * share or 1.0, 0.0}]

    def identity(self) -> Identity:
        """The run as its lines state it, or else as its rows show it."""
        dtype, operation, _ = self.kind or (None, None, None)
        names = [self.collective] if self.collective else self._shown() if self.kind else []
        remarks = (
            "" if self.is_checked else "validation was off",
            "" if operation in {None, "none", "sum"} else f"reduction {operation}",
            "" if len(names) == 1 else "collective not known",
            "" if self.ranks else "number of ranks not known",
        )
        return Identity(
            model=" or ".join(names) or None,
            dtype=dtype,
            accelerator=", ".join(dict.fromkeys(filter(None, self.ranks.values()))) or None,
            gpus=len(self.ranks) or None,
            settings={"validation": str(int(self.is_checked)), "reduction": operation or "none"},
            remarks=tuple(filter(None, remarks)),
            places=self.places,
        )

    def final_fault(self) -> str | None:
        """Why the test is invalid, or not complete."""
        if self.fault is not None:
            return self.fault
        if not self.figures or self.due <= self.last:
            return f"the log ends before the row of {size_text(self.due)}"
        if not self.is_right or self.average is None:
            return "the log ends before 'Out of bounds values : 0 OK' and the average bus bandwidth"
        mean = sum(self.busbw) / max(len(self.busbw), 1)
        if not math.isclose(mean, self.average, rel_tol=1e-3, abs_tol=0.006):
            return f"average bus bandwidth {self.average:g} GB/s, but {mean:.6g} GB/s of the rows"
        return None


class _Parser(FigureParser):
    def __init__(self) -> None:
        super().__init__("nccl-tests")
        self._test = _Test()
        self._collective: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        test = self._test
        if (match := _COLLECTIVE.search(record)) is not None:
            self._collective = (match[1] or match[2]).decode()
        elif (match := _START.search(record)) is not None:
            first, last, step = (int(text) for text in match.groups()[:3])
            is_factor, is_checked = match[4] == b"factor", match[5] != b"0"
            self._test = _Test(first, last, step, is_factor, is_checked, rank_of(record), self._collective, due=first)
            self._test.places |= dict.fromkeys(("model", "validation"), offset)
            self._collective = None
            self.attempts += 1
            if step <= is_factor or first <= 0:
                self._test.fail(f"sizes from {first} to {last} by {step}")
        elif (match := _REDUCED.search(record)) is not None:
            test.last = int(match[1])
        elif (match := _RANK.search(record)) is not None:
            test.ranks[int(match[1])] = safe_text(match[2] or b"")
            test.places |= dict.fromkeys(("gpus", "accelerator"), offset)
        elif (match := _HEADING.search(record)) is not None:
            names = match[0].decode().split()
            test.columns = [name + _IN_PLACE if name in names[:at] else name for at, name in enumerate(names)]
        else:
            self._feed_result(test, offset, record)

    def _feed_result(self, test: _Test, offset: int, record: bytes) -> None:
        row, wrong, average = _ROW.search(record), _WRONG.search(record), _AVERAGE.search(record)
        if row is not None:
            self.attempts = max(self.attempts, 1)  # a log whose beginning is missing
            test.places |= dict.fromkeys(("dtype", "reduction"), offset)
            test.add_row(record, row[1].decode("ascii", "replace").split())
        if wrong is not None and wrong[1] is None:
            test.fail(wrong[0].decode("ascii", "replace"))
        test.is_right = test.is_right or wrong is not None
        if average is not None:
            test.average = number(average[1])
            if average[2] is not None:
                test.fail(average[0].decode())

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        average = {"busbw_avg_gbs": [self._test.average]} if self._test.average else {}
        return {**self._test.figures, **average}, self._test.final_fault()

    def log(self) -> StepLog:
        """The contents of all records fed so far."""
        return replace(super().log(), identity=self._test.identity())


NCCL_TESTS = BuiltIn(
    "nccl-tests",
    (
        (
            *(b"Collective test starting: ", (b"_perf ", b" -"), (b"+ ", b"_perf ", b" -")),
            *(b" minBytes ", b"Reducing maxBytes", (b" Rank ", b" device ")),
            *((b" count ", b" busbw "), b"Out of bounds values", b"Avg bus bandwidth"),
            *(f" {name} ".encode() for name in _TYPES),
        ),
    ),
    _Parser,
    shows_progress=False,
    content="figure",
)
