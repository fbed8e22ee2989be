"""One-line scripts of a text: what they print, and whose step time they take."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.arithmetic import evaluate_text
from pytest_gsw.documents.audit.examples import by_times, times_of, whose, with_time
from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.findings import Finding, Severity
from pytest_gsw.documents.audit.text import NUMBER, Spot, Text, first, spot
from pytest_gsw.documents.audit.written import spelt
from pytest_gsw.tables.metrics import STEP_TIME

#: Lines above a script's last one that may set its variables.
_SCRIPT_LINES = 30
#: What the documents' scripts call the facts of a row.
_NAMES = {
    STEP_TIME.key: ("sp", "throughput", "step_time", "time"),
    "size": ("ms", "msize"),
    "gpus": ("ng", "ngpus", "gpus"),
    "nodes": ("nnodes",),
    "global_batch_size": ("gbs", "global_batch_size"),
    "micro_batch_size": ("mbs", "micro_batch_size"),
    "gradient_accumulation_steps": ("gas", "ga", "pp_chunks"),
    "dp": ("dp", "dp_size"),
}


@dataclass(frozen=True)
class Script:
    """A one-liner whose variables are set beside it, and what the document says it prints."""

    #: By lower-case name.
    variables: Mapping[str, Spot]
    text: str
    value: Fraction
    result: Spot | None


_PERL_SETS = re.compile(rf"\$(\w{{1,30}}) {{0,3}}= {{0,3}}({NUMBER}) {{0,3}};")
_PERL_PRINTS = re.compile(r"\bprint ([^;'\"]{3,300})")
_SHELL_SETS = re.compile(rf"^\s{{0,8}}(?:export )?([A-Za-z_]\w{{0,40}})=({NUMBER})(?:\s{{0,8}}#.{{0,200}})?$")
_SHELL_PRINTS = re.compile(r"""\becho ["']([^"']{3,300})["'] ?\| ?bc\b""")
_ALONE = re.compile(rf"^\s{{0,8}}({NUMBER}|\d{{1,12}}\.\d{{1,40}})\s{{0,8}}$")


def _read(lines: Sequence[str]) -> Iterator[Script]:
    for number, line in enumerate(lines, 1):
        printed = _PERL_PRINTS.search(line) if "perl" in line else None
        sets = {match[1]: (match, number) for match in _PERL_SETS.finditer(line)}
        if printed is None:
            printed = _SHELL_PRINTS.search(line)
            sets = _shell_sets(lines, number) if printed is not None else {}
        texts = {f"${name}": match[2] for name, (match, _) in sets.items()}
        value = evaluate_text(printed[1], texts) if printed is not None and sets else None
        if printed is None or value is None:
            continue
        spots = {name.lower(): spot(match, 2, at) for name, (match, at) in sets.items()}
        variables = {name: found for name, found in spots.items() if found is not None}
        alone = _ALONE.match(lines[number]) if number < len(lines) else None
        result = spot(alone, 1, number + 1) if alone is not None else None
        yield Script(variables, printed[1].strip(), value, result)


def _shell_sets(lines: Sequence[str], number: int) -> dict[str, tuple[re.Match[str], int]]:
    """The variables that the lines above set, up to the beginning of the code block; the nearest line counts."""
    sets: dict[str, tuple[re.Match[str], int]] = {}
    for above in range(number - 1, max(0, number - _SCRIPT_LINES), -1):
        match = _SHELL_SETS.match(lines[above - 1])
        if match is not None:
            sets.setdefault(match[1], (match, above))
        elif lines[above - 1].lstrip().startswith(("```", "~~~")):
            break
    return sets


def scripts(text: Text, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """What each script prints, and the step time that it takes."""
    for script in first(_read(text.lines)):
        if script.result is not None:
            yield _result(text, script, script.result)
        yield _run(text, script, rows)


def _result(text: Text, script: Script, spot: Spot) -> Finding | None:
    written = spot.written
    if written.states(script.value):
        return None
    given = ", ".join(f"{name} = {variable.written.text}" for name, variable in script.variables.items())
    return text.finding(
        spot.line,
        spot.column,
        written.text,
        spelt(script.value, min(written.unit, Fraction(1, 10))),
        f"{script.text} with {given}",
        explain.value(written, script.value) or explain.UNKNOWN,
        severity=Severity.by_size(written.value, script.value),
    )


def _variable(script: Script, key: str) -> Spot | None:
    return next((script.variables[name] for name in _NAMES[key] if name in script.variables), None)


def _run(text: Text, script: Script, rows: Sequence[Row]) -> Finding | None:
    """A script's run among the table's: the rows of its size, GPUs and batch have its step time, or none is its."""
    time, size, gpus, nodes = (_variable(script, key) for key in (STEP_TIME.key, "size", "gpus", "nodes"))
    batch = _batch(script)
    if time is None or size is None or batch is None or (gpus is None and nodes is None):
        return None
    name = f"{size.written.text}b"
    of_size = [row for row in rows if row.text("size").lower() == name]
    same = [
        row
        for row in of_size
        if row.value("global_batch_size") == batch
        and (gpus is None or row.value("gpus") == gpus.written.value)
        and (nodes is None or row.value("gpus") == nodes.written.value * (row.value("gpus_per_node") or 0))
    ]
    if not same or with_time(same, time.written):
        return None
    return text.finding(
        time.line,
        time.column,
        f"{time.written.text} s",
        times_of(same),
        f"the rows of {name} on {same[0].text('gpus')} GPUs with a batch of {batch}",
        whose(of_size, time.written),
        severity=by_times(time.written, same) if script.result is not None else Severity.NOTICE,
    )


def _batch(script: Script) -> Fraction | None:
    whole = _variable(script, "global_batch_size")
    if whole is not None:
        return whole.written.value
    parts = [_variable(script, key) for key in ("micro_batch_size", "gradient_accumulation_steps", "dp")]
    values = [part.written.value for part in parts if part is not None]
    return math.prod(values, start=Fraction(1)) if len(values) == len(parts) else None
