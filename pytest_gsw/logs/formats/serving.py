"""Serving benchmarks of vLLM (``vllm bench serve``) and SGLang (``sglang.bench_serving``): a block for each run.

::

    Namespace(backend='vllm', …, num_prompts=1000, …)
    ============ Serving Benchmark Result ============
    Successful requests:                     1000
    Failed requests:                         0
    Maximum request concurrency:             256
    Output token throughput (tok/s):         1996.53
    ---------------Time to First Token----------------
    Mean TTFT (ms):                          39.54
    ==================================================

Source: vllm-project/vllm, ``vllm/benchmarks/serve.py``; sgl-project/sglang, ``python/sglang/bench_serving.py``. The
arguments come first, then a test of a few requests or a warm-up (``Warmup run completed.``), which has no block, then a
bar of the requests. A recipe may warm up by a whole run of its own: one whose arguments follow a line that begins with
"warm-up" is not measured, and must be followed by a run that is.

Blocks of different concurrency are the points of one run; a concurrency that is repeated begins a new one. A run is
valid if no request failed, as many succeeded as its arguments and its bar state, and every run that begins has its
block. Old versions print no failed requests: without arguments, command and bar, nobody knows how many were sent, and
rates and latencies of those that succeeded decide nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from pytest_gsw.logs.formats.base import BuiltIn, FigureParser
from pytest_gsw.logs.model import Identity
from pytest_gsw.logs.scan import number, safe_text

_HEADING = re.compile(rb"={4,40} Serving Benchmark Result ={4,40}")
_END = b"=" * 50
_LINE = re.compile(
    rb"(?:^|[\s:>|#])([A-Z][A-Za-z0-9 .]{2,40}(?: \([\w/]{1,8}\))?): {1,60}(\S{1,40})(?:\s{0,60}$| set\s)"
)
_ARGUMENTS = re.compile(rb"\bNamespace\(.{0,4000}?\bnum_prompts=(\d{1,12})\b")
#: Other signs of how many requests a run is to do: its command, if the recipe prints it, and its bar.
_WANTED = re.compile(
    rb"--num[-_]prompts[ =](\d{1,12})\b"
    rb"|^(?: {0,8}\d{1,7}: )?\s{0,8}\d{1,3}%\|[^|]{0,1200}\| {0,4}\d{1,12}/(\d{1,12}) \["
)
#: An argument, in a namespace or in a command, and how much of a line is searched for them.
_ARGUMENT = re.compile(
    rb"(?:[(\s](?=[a-z_]{1,40}=)|--)(model|dataset[-_]name|max[-_]concurrency|request[-_]rate"
    rb"|(?:[a-z]{1,20}[-_])?(?:in|out)put[-_]len)[= ]['\"]?([^\s,'\")]{1,300})"
)
_MOST_ARGUMENTS_BYTES = 8000
_ARGUMENT_NAMES = {"model": ("model",), "concurrency": ("max_concurrency",), "request rate": ("request_rate",)}
#: The totals of tokens in a run's block.
_TOKENS = {"input": "Total input tokens", "output": "Total generated tokens"}
#: A recipe's heading, or the report of a benchmark that its own warm-up has ended, before the run that counts.
_WARM_UP = re.compile(
    rb"^(?: {0,8}\d{1,7}: )?\W{0,80}warm[- ]?up\b([^\n]{0,40}\b(?:completed?|done|ended|finished)\b)?", re.IGNORECASE
)
_LATENCY = re.compile(r"(Mean|Median|P\d{1,2}(?:\.\d{1,2})?) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)")
_NAMES = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "E2EL": "e2e", "E2E Latency": "e2e"}
_KEYS = {
    "Successful requests": "successful_requests",
    "Request throughput (req/s)": "requests_per_s",
    "Input token throughput (tok/s)": "input_tokens_per_s",
    "Output token throughput (tok/s)": "output_tokens_per_s",
    # Its spelling in vLLM, in vLLM since 2025 and SGLang, and in SGLang until 2024.
    "Total Token throughput (tok/s)": "total_tokens_per_s",
    "Total token throughput (tok/s)": "total_tokens_per_s",
    "Total throughput (tok/s)": "total_tokens_per_s",
}
_CONCURRENCY = ("Maximum request concurrency", "Max request concurrency")
_FAILED = "Failed requests"


class _Parser(FigureParser):
    def __init__(self) -> None:
        super().__init__("serving")
        #: Of the open run: the requests wanted by each sign, and its block.
        self._is_open = self._is_warm_up = False
        self._wanted: dict[str, int] = {}
        self._arguments: dict[str, str] = {}
        self._stated_at = 0
        self._block: dict[str, bytes] | None = None
        #: True if a line that begins with "warm-up" precedes the next run's arguments.
        self._is_headed = False
        #: True if the last block is a warm-up's.
        self._is_dropped = False
        #: The concurrencies of the last run, its figures, and its first fault.
        self._points: set[str] = set()
        self._figures: dict[str, list[float]] = {}
        self._fault: str | None = None

    def feed(self, offset: int, record: bytes) -> None:
        arguments, heading = _ARGUMENTS.search(record), _HEADING.search(record)
        if self._block is None and (wanted := _WANTED.search(record)) is not None:
            self._wanted["command" if wanted[1] else "bar"] = int(wanted[1] or wanted[2])
            if wanted[1] and arguments is None:
                self._read_arguments(offset, record)
        if arguments is not None or heading is not None:
            if arguments is not None or not self._is_open:
                # A heading behind the arguments is a word of the run itself.
                self._is_warm_up = self._is_headed or (self._is_open and self._is_warm_up)
                self._is_headed = False
            if arguments is not None:
                self._wanted["arguments"] = int(arguments[1])
                self._read_arguments(offset, record[arguments.start() :])
            self._is_open, self._block = True, None if heading is None else {}
            self.attempts = max(self.attempts, 1)
        elif self._block is None:
            if (word := _WARM_UP.search(record)) is not None:
                self._is_headed = self._is_headed or word[1] is None
                self._wanted.pop("bar", None)
        elif _END in record:
            if not self._is_warm_up:
                self._add_run(self._block)
            self._is_dropped, self._is_headed = self._is_warm_up, False
            self._is_open, self._is_warm_up, self._wanted, self._arguments = False, False, {}, {}
            self._block = None
        elif (line := _LINE.search(record)) is not None:
            label = line[1].decode()
            if self._block.setdefault(label, line[2]) != line[2]:
                self._block[label] = b"differs within the block"

    def _read_arguments(self, offset: int, text: bytes) -> None:
        for name, value in _ARGUMENT.findall(text[:_MOST_ARGUMENTS_BYTES]):
            if value != b"None" and b"$" not in value:  # what a shell has not expanded states nothing
                self._arguments[name.decode().replace("-", "_")] = safe_text(value)
        self._stated_at = offset

    def _settings(self, block: Mapping[str, bytes], sent: float, successful: float) -> dict[str, str]:
        """The settings of a run by its arguments, and its mean lengths by its block."""
        given = self._arguments
        kind = given.get("dataset_name", "random").partition("-")[0]
        lengths = {f"{side} length": (f"{kind}_{side}_len", f"{side}_len") for side in _TOKENS}
        settings = {
            ours: given[name] for ours, names in (_ARGUMENT_NAMES | lengths).items() for name in names if name in given
        }
        totals = {side: number(block.get(label, b"")) or 0 for side, label in _TOKENS.items() if successful}
        means = {f"mean {side} length": f"{total / successful:.0f}" for side, total in totals.items() if total}
        return {**settings, **means, "prompts": f"{sent:g}"}

    def _add_run(self, block: Mapping[str, bytes]) -> None:
        concurrency = next((block[label] for label in _CONCURRENCY if label in block), b"not")
        at = "" if concurrency == b"not" else f" at concurrency {safe_text(concurrency)}"
        if at in self._points:
            self.attempts += 1
            self._points, self._figures, self._fault, self.doubt, self.identity = set(), {}, None, None, Identity()
        self._points.add(at)
        for label, text in block.items():
            latency = _LATENCY.fullmatch(label)
            key = _KEYS.get(label) if latency is None else f"{_NAMES[latency[2]]}_ms_{latency[1].lower()}"
            value = number(text)
            if key is not None and (value is None or not 0 <= value < math.inf):
                self._fault = self._fault or f"{label} {safe_text(text)}"
            elif key is not None and value:
                self._figures[key + at] = [value]
        successful, failed = self._figures.get(f"successful_requests{at}", [0])[0], block.get(_FAILED, b"0")
        if not self._wanted and _FAILED not in block:
            self.doubt = f"{successful:g} requests succeeded, and how many requests were sent is not known"
        sent = next(iter(self._wanted.values()), successful + (number(failed) or 0))
        settings = {f"{name}{at}": value for name, value in self._settings(block, sent, successful).items()}
        places = dict.fromkeys(settings if self._arguments else (), self._stated_at)
        known = self.identity
        self.identity = Identity(settings={**known.settings, **settings}, places={**known.places, **places})
        if number(failed) != 0:
            self._fault = self._fault or f"failed requests: {safe_text(failed)}, {successful:g} succeeded"
        wanted = next((count for count in self._wanted.values() if count != successful), None)
        if not successful or wanted is not None:
            self._fault = self._fault or f"{successful:g} requests succeeded, {wanted or 'some'} were asked for"
        if f"output_tokens_per_s{at}" not in self._figures:
            self._fault = self._fault or "no output token throughput"

    def result(self) -> tuple[Mapping[str, Sequence[float]], str | None]:
        if self._is_open or not self._points:
            return self._figures, "the last benchmark that began has no complete block"
        return self._figures, "a warm-up is the last benchmark" if self._is_dropped else self._fault


SERVING = BuiltIn(
    "serving",
    (
        (
            *((b"Namespace(", b"num_prompts="), b" Serving Benchmark Result ", _END, b"armup", b"arm-up", b"arm up"),
            *(b"%|", (b"--num-prompts",), (b"--num_prompts",), (b"+ ", b"--num-prompts"), (b"+ ", b"--num_prompts")),
            *(b"ARMUP", b"ARM-UP", b"ARM UP", b" throughput (", b" (ms): ", b" requests: ", b" concurrency: "),
            b" tokens: ",
        ),
    ),
    _Parser,
    shows_progress=False,
    wraps=True,
    content="figure",
)
