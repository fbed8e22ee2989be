"""Examples and quoted log lines of a text, against what the document says elsewhere and against its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.document import Document, Example, LogLine, Peak, Spot, Statement
from pytest_gsw.documents.audit.figures import Row
from pytest_gsw.documents.audit.model import Explanation, Finding, Kind, Severity
from pytest_gsw.documents.audit.spots import Place, of_batch, rows_words, same_time, times_of, whose, with_time
from pytest_gsw.documents.audit.statements import tokens_equation
from pytest_gsw.documents.audit.written import read_written, scientific
from pytest_gsw.performance.peaks import PEAKS, peak_flops
from pytest_gsw.tables.metrics import STEP_TIME


def _rows_of(example: Example, rows: Sequence[Row]) -> list[Row]:
    same = [
        row
        for row in rows
        if row.text("dtype").lower() == example.dtype
        and row.value("gpus") == example.gpus
        and row.text("accelerator", example.accelerator).upper().startswith(example.accelerator.upper())
    ]
    # A strong-scaling table has the same GPUs with another batch.
    batch = example.global_batch_size
    return [row for row in same if batch is not None and row.value("global_batch_size") == batch] or same


def examples(place: Place, document: Document, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Examples that name their run, against the row that they are of and against their own equation."""
    for example in document.examples:
        same = _rows_of(example, rows)
        if same and example.step_time is not None:
            yield _example_time(place, document, example.step_time, same, rows)
        if same and example.global_batch_size is not None:
            yield _example_batch(place, example, same)
        yield from _inside(place, example)


def _example_time(
    place: Place, document: Document, spot: Spot, same: Sequence[Row], rows: Sequence[Row]
) -> Finding | None:
    times = [(row, step.text) for row in same if (step := row.numbers.get(STEP_TIME.key)) is not None]
    if not times or with_time(same, spot.written):
        return None
    owner = whose(rows, spot.written)
    above = [log for log in document.logs if same_time(log.step_time.written, spot.written)]
    text = f"; the log line {above[0].step_time.line} has it, too" if above else ""
    return place.finding(
        spot.line,
        spot.column,
        f"{spot.written.text} s",
        f"{times[0][1]} s",
        f"the table's row {times[0][0].id}, which the example is of",
        Explanation(owner.kind, f"{owner.text}{text}"),
    )


def _example_batch(place: Place, example: Example, same: Sequence[Row]) -> Finding | None:
    batches = [number for row in same if (number := row.numbers.get("global_batch_size")) is not None]
    if not batches or any(number.value == example.global_batch_size for number in batches):
        return None
    return place.finding(
        example.line,
        1,
        f"GBS={example.global_batch_size}",
        f"GBS={batches[0].text}",
        f"the table's row {same[0].id}, which the example is of",
        Explanation(Kind.ANOTHER_RUN, "the example has another batch than the table"),
    )


def _inside(place: Place, example: Example) -> Iterator[Finding | None]:
    """What an example says of its run must be what its equation takes."""
    if example.mfu is None:
        return
    numbers = [number for text in example.mfu.equation.numbers if (number := read_written(text)) is not None]
    values = {number.value for number in numbers}
    named = (
        ("step time", example.step_time, None),
        ("model FLOPs", example.model_flops, None),
        ("peak", example.peak[0] if example.peak else None, example.peak[1] if example.peak else None),
    )
    for name, spot, value in named:
        if spot is None or len(numbers) < 4:  # another formula, which takes other things
            continue
        if value is not None and value != _known(example.accelerator, example.dtype):
            continue  # it is no peak at all, which is reported as such
        if (spot.written.value if value is None else value) in values:
            yield None
            continue
        yield place.finding(
            spot.line,
            spot.column,
            spot.written.text,
            "none of " + ", ".join(number.text for number in numbers),
            f"the {name} in the equation of line {example.mfu.line}",
            Explanation(Kind.STALE_COPY, f"the equation takes another {name} than the example says"),
        )


def batches(place: Place, document: Document, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """The batch of a quoted log line: some row has it, and the example that follows takes it."""
    known = {batch for row in rows if (batch := row.value("global_batch_size")) is not None}
    for log in document.logs:
        if not log.batches:
            continue
        batch, words = _batch(log, rows)
        if known and batch not in known:
            yield place.finding(
                log.step_time.line,
                log.step_time.column,
                f"a batch of {batch}",
                "a batch of " + ", ".join(map(str, sorted(known))),
                f"the tables' rows; the log line has {words}",
                Explanation(Kind.ANOTHER_RUN, "no row has such a batch"),
            )
        else:
            yield None
        yield from _example_of_log(place, document, log, rows)


def _batch(log: LogLine, rows: Sequence[Row]) -> tuple[Fraction | None, str]:
    """The batch of a log line and how it follows: one that a row has, if there is one."""
    known = {row.value("global_batch_size") for row in rows}
    unknown = log.batches[0] if log.batches else (None, "")
    return next((batch for batch in log.batches if batch[0] in known), unknown)


def _next_tokens(document: Document, line: int) -> Statement | None:
    return next((one for one in document.statements if one.line > line and tokens_equation(one) is not None), None)


def _example_of_log(place: Place, document: Document, log: LogLine, rows: Sequence[Row]) -> Iterator[Finding | None]:
    statement = _next_tokens(document, log.step_time.line)
    parts = tokens_equation(statement) if statement is not None else None
    if statement is None or parts is None:
        return
    batch, time = parts[1], parts[2]
    if any(batch.value == logged for logged, _ in log.batches):
        yield None
        return
    logged, words = _batch(log, rows)
    runs = "the example and the log line are of two runs"
    if same_time(log.step_time.written, time):
        runs = "the example takes the log line's step time, and the batch of another run"
    token = statement.equation.tokens[2]
    yield place.finding(
        statement.line,
        max(1, statement.column - (statement.equation.result_start - token.start)),
        f"a batch of {batch.text}",
        f"a batch of {logged}",
        f"the log line {log.step_time.line} above: {words}",
        Explanation(Kind.ANOTHER_RUN, runs),
    )


def step_times(place: Place, document: Document, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Step times of log lines and of equations: the next example takes the log line's, and some row has it.

    An example that names its run was compared with its row already; its step time is not reported again.
    """
    if not any(STEP_TIME.key in row.numbers for row in rows):
        return
    told = [example.step_time.written for example in document.examples if example.step_time and _rows_of(example, rows)]
    for log in document.logs:
        time = log.step_time.written
        batch, _ = _batch(log, rows)
        if with_time(of_batch(rows, batch), time) or any(same_time(time, one) for one in told):
            yield None
            continue
        told.append(time)
        yield place.finding(
            log.step_time.line,
            log.step_time.column,
            f"{time.text} s",
            times_of(of_batch(rows, batch)),
            rows_words(rows, batch),
            whose(rows, time),
        )
    for statement in document.statements:
        parts = tokens_equation(statement)
        if parts is None or not any(row.value("sequence_length") == parts[0].value for row in rows):
            continue
        time = parts[2]
        same = of_batch(rows, parts[1].value)
        if with_time(same, time) or any(same_time(time, one) for one in told):
            yield None
            continue
        told.append(time)
        above = [log for log in document.logs if log.step_time.line < statement.line]
        text = f"; the log line {above[-1].step_time.line} has {above[-1].step_time.written.text} s" if above else ""
        token = statement.equation.tokens[4]
        owner = whose(rows, time)
        yield place.finding(
            statement.line,
            max(1, statement.column - (statement.equation.result_start - token.start)),
            f"{time.text} s",
            times_of(same),
            rows_words(rows, parts[1].value),
            Explanation(owner.kind, f"{owner.text}{text}"),
        )


def peaks(place: Place, document: Document) -> Iterator[Finding | None]:
    """The peak of an example against what the document states, and what it states against the table of peaks."""
    for example in document.examples:
        if example.peak is None:
            continue
        spot, flops = example.peak
        stated = [peak for peak in document.peaks if _is(peak, example)]
        known = stated[0].flops if stated else _known(example.accelerator, example.dtype)
        if known is None or flops == known:
            yield None
            continue
        who = f"line {stated[0].line}" if stated else "the accelerator's data sheet"
        others = [key for key, peak in PEAKS.items() if Fraction(peak.flops) == flops]
        text = f"it is the peak of {others[0][0]} {others[0][1].upper()}" if others else explain.NOTHING
        alone = explain.value(spot.written, known / 10**12)
        yield place.finding(
            spot.line,
            spot.column,
            f"{spot.written.text} ({scientific(flops)} FLOP/s)",
            f"{scientific(known)} FLOP/s",
            f"the peak of {example.accelerator} {example.dtype.upper()}, {who}",
            Explanation(Kind.WRONG_PEAK, text) if others or alone is None else alone,
        )
    for peak in document.peaks:
        known = _known(peak.accelerator, peak.dtype)
        if known is None or known == peak.flops:
            yield None
            continue
        yield place.finding(
            peak.line,
            1,
            f"{scientific(peak.flops)} FLOP/s",
            f"{scientific(known)} FLOP/s",
            f"the peak of {peak.accelerator} {peak.dtype.upper()} that MFU is computed with",
            Explanation(Kind.WRONG_PEAK, "the document states another peak"),
            severity=Severity.NOTICE,
        )


def _is(peak: Peak, example: Example) -> bool:
    return (peak.accelerator.upper(), peak.dtype) == (example.accelerator.upper(), example.dtype)


def _known(accelerator: str, dtype: str) -> Fraction | None:
    flops = peak_flops(accelerator, dtype)
    return None if flops is None else Fraction(flops)
