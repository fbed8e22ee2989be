"""Examples and quoted log lines of a text, against what the document says elsewhere and against its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from pytest_gsw.documents.audit import explain
from pytest_gsw.documents.audit.figures import Row, peak_of
from pytest_gsw.documents.audit.findings import Explanation, Finding, Kind, Severity
from pytest_gsw.documents.audit.statements import tokens_equation
from pytest_gsw.documents.audit.text import Example, LogLine, Spot, Text
from pytest_gsw.documents.audit.written import Written, read_written, scientific
from pytest_gsw.performance.peaks import PEAKS
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


def examples(text: Text, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Examples that name their run, against the row that they are of and against their own equation."""
    for example in text.examples:
        same = _rows_of(example, rows)
        if same and example.step_time is not None:
            yield _example_time(text, example.step_time, same, rows)
        if same and example.global_batch_size is not None:
            yield _example_batch(text, example, same)
        yield from _inside(text, example)


def _example_time(text: Text, spot: Spot, same: Sequence[Row], rows: Sequence[Row]) -> Finding | None:
    times = [(row, step.text) for row in same if (step := row.numbers.get(STEP_TIME.key)) is not None]
    if not times or with_time(same, spot.written):
        return None
    owner = whose(rows, spot.written)
    above = [log for log in text.logs if same_time(log.step_time.written, spot.written)]
    logged = f"; the log line {above[0].step_time.line} has it, too" if above else ""
    return text.finding(
        spot.line,
        spot.column,
        f"{spot.written.text} s",
        f"{times[0][1]} s",
        f"the table's row {times[0][0].id}, which the example is of",
        Explanation(owner.kind, f"{owner.text}{logged}"),
        severity=by_times(spot.written, same),
    )


def _example_batch(text: Text, example: Example, same: Sequence[Row]) -> Finding | None:
    batches = [number for row in same if (number := row.numbers.get("global_batch_size")) is not None]
    if not batches or any(number.value == example.global_batch_size for number in batches):
        return None
    return text.finding(
        example.line,
        1,
        f"GBS={example.global_batch_size}",
        f"GBS={batches[0].text}",
        f"the table's row {same[0].id}, which the example is of",
        Explanation(Kind.ANOTHER_RUN, "the example has another batch than the table"),
    )


def _inside(text: Text, example: Example) -> Iterator[Finding | None]:
    """What an example says of its run must be what its equation takes."""
    if example.mfu is None:
        return
    numbers = [number for text in example.mfu.equation.numbers if (number := read_written(text)) is not None]
    values = {number.value for number in numbers}
    named = (
        ("step time", example.step_time, None),
        ("model FLOPs", example.model_flops, None),
        ("peak", *(example.peak or (None, None))),
    )
    for name, spot, value in named:
        if spot is None or len(numbers) < 4:  # another formula, which takes other things
            continue
        if value is not None and value != peak_of(example.accelerator, example.dtype):
            continue  # it is no peak at all, which is reported as such
        taken = spot.written.value if value is None else value
        if taken in values:
            yield None
            continue
        yield text.finding(
            spot.line,
            spot.column,
            spot.written.text,
            "none of " + ", ".join(number.text for number in numbers),
            f"the {name} in the equation of line {example.mfu.line}",
            Explanation(Kind.STALE_COPY, f"the equation takes another {name} than the example says"),
            severity=Severity.by_size(taken, *values),
        )


def batches(text: Text, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """The batch of a quoted log line: some row has it, and the example that follows takes it."""
    known = {batch for row in rows if (batch := row.value("global_batch_size")) is not None}
    for log in text.logs:
        if not log.batches:
            continue
        batch, words = _batch(log, rows)
        if known and batch not in known:
            yield text.finding(
                log.step_time.line,
                log.step_time.column,
                f"a batch of {batch}",
                "a batch of " + ", ".join(map(str, sorted(known))),
                f"the tables' rows; the log line has {words}",
                Explanation(Kind.ANOTHER_RUN, "no row has such a batch"),
            )
        else:
            yield None
        yield from _example_of_log(text, log, rows)


def _batch(log: LogLine, rows: Sequence[Row]) -> tuple[Fraction | None, str]:
    """The batch of a log line and how it follows: one that a row has, if there is one."""
    known = {row.value("global_batch_size") for row in rows}
    unknown = log.batches[0] if log.batches else (None, "")
    return next((batch for batch in log.batches if batch[0] in known), unknown)


def _example_of_log(text: Text, log: LogLine, rows: Sequence[Row]) -> Iterator[Finding | None]:
    below = ((one, tokens_equation(one)) for one in text.statements if one.line > log.step_time.line)
    statement, parts = next((pair for pair in below if pair[1] is not None), (None, None))
    if statement is None or parts is None:
        return
    _, batch, time = parts
    if any(batch.value == logged for logged, _ in log.batches):
        yield None
        return
    logged, words = _batch(log, rows)
    runs = "the example and the log line are of two runs"
    if same_time(log.step_time.written, time):
        runs = "the example takes the log line's step time, and the batch of another run"
    yield text.finding(
        statement.line,
        statement.column_of(statement.equation.tokens[2]),
        f"a batch of {batch.text}",
        f"a batch of {logged}",
        f"the log line {log.step_time.line} above: {words}",
        Explanation(Kind.ANOTHER_RUN, runs),
    )


def step_times(text: Text, rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Step times of log lines and of equations: the next example takes the log line's, and some row has it.

    An example that names its run was compared with its row already; its step time is not reported again.
    """
    if not any(STEP_TIME.key in row.numbers for row in rows):
        return
    told = [example.step_time.written for example in text.examples if example.step_time and _rows_of(example, rows)]
    for line, column, time, batch, also in _times(text, rows):
        same, which = of_batch(rows, batch)
        if with_time(same, time) or any(same_time(time, one) for one in told):
            yield None
            continue
        told.append(time)
        owner = whose(rows, time)
        explanation = Explanation(owner.kind, f"{owner.text}{also}")
        severity = by_times(time, same)
        yield text.finding(line, column, f"{time.text} s", times_of(same), which, explanation, severity=severity)


def _times(text: Text, rows: Sequence[Row]) -> Iterator[tuple[int, int, Written, Fraction | None, str]]:
    """Step times that log lines and equations have: line, column, the time, its batch, and what else has it."""
    for log in text.logs:
        yield log.step_time.line, log.step_time.column, log.step_time.written, _batch(log, rows)[0], ""
    for statement in text.statements:
        parts = tokens_equation(statement)
        if parts is not None and any(row.value("sequence_length") == parts[0].value for row in rows):
            above = [log.step_time for log in text.logs if log.step_time.line < statement.line]
            also = f"; the log line {above[-1].line} has {above[-1].written.text} s" if above else ""
            column = statement.column_of(statement.equation.tokens[4])
            yield statement.line, column, parts[2], parts[1].value, also


def peaks(text: Text) -> Iterator[Finding | None]:
    """The peak of an example against what the document states, and what it states against the table of peaks."""
    for example in text.examples:
        if example.peak is None:
            continue
        spot, flops = example.peak
        kind = (example.accelerator.upper(), example.dtype)
        stated = [peak for peak in text.peaks if (peak.accelerator.upper(), peak.dtype) == kind]
        known = stated[0].flops if stated else peak_of(example.accelerator, example.dtype)
        if known is None or flops == known:
            yield None
            continue
        who = f"line {stated[0].line}" if stated else "the accelerator's data sheet"
        others = [key for key, peak in PEAKS.items() if Fraction(peak.flops) == flops]
        alone = explain.value(spot.written, known / 10**12) or Explanation(Kind.WRONG_PEAK, explain.NOTHING)
        yield text.finding(
            spot.line,
            spot.column,
            f"{spot.written.text} ({scientific(flops)} FLOP/s)",
            f"{scientific(known)} FLOP/s",
            f"{explain.peak_words(example.accelerator, example.dtype)}, {who}",
            Explanation(Kind.WRONG_PEAK, f"it is {explain.peak_words(*others[0])}") if others else alone,
            severity=Severity.by_size(flops, known),
        )
    for peak in text.peaks:
        known = peak_of(peak.accelerator, peak.dtype)
        if known is None or known == peak.flops:
            yield None
            continue
        yield text.finding(
            peak.line,
            1,
            f"{scientific(peak.flops)} FLOP/s",
            f"{scientific(known)} FLOP/s",
            f"{explain.peak_words(peak.accelerator, peak.dtype)} that MFU is computed with",
            Explanation(Kind.WRONG_PEAK, "the document states another peak"),
            severity=Severity.NOTICE,
        )


def same_time(one: Written, other: Written) -> bool:
    """Whether two step times may be one, written with more and with fewer digits."""
    coarse, fine = (one, other) if one.unit >= other.unit else (other, one)
    return coarse.states(fine.value)


def with_time(rows: Iterable[Row], time: Written) -> list[Row]:
    """The rows that have this step time."""
    return [row for row in rows if (step := row.numbers.get(STEP_TIME.key)) is not None and same_time(step, time)]


def by_times(time: Written, rows: Iterable[Row]) -> Severity:
    """How much it weighs that none of these rows has a step time."""
    steps = (row.numbers.get(STEP_TIME.key) for row in rows)
    return Severity.by_size(time.value, *(step.value for step in steps if step is not None))


def whose(rows: Sequence[Row], time: Written) -> Explanation:
    """Whose step time it is, if it is any row's. Nobody copies more digits than there are."""
    for owner in with_time(rows, time):
        step = owner.numbers[STEP_TIME.key]
        if step.value == time.value or step.unit < time.unit:
            return Explanation(Kind.STALE_COPY, f"{time.text} s is the step time of {owner.id}")
    return Explanation(Kind.ANOTHER_RUN, f"no row has a step time of {time.text} s: it is of another run")


def of_batch(rows: Sequence[Row], batch: Fraction | None) -> tuple[Sequence[Row], str]:
    """The rows with this batch, and which they are; all of them where it is not known, or no row has it."""
    same = [row for row in rows if batch is not None and row.value("global_batch_size") == batch]
    return (same, f"the rows with a batch of {batch}") if same else (rows, "the rows of the tables")


def times_of(rows: Sequence[Row]) -> str:
    """The step times of rows, in words; a few of them where there are many."""
    times = [step.text for row in rows if (step := row.numbers.get(STEP_TIME.key)) is not None]
    shown = ", ".join(dict.fromkeys(times[:6]))
    return f"{shown} s" if len(times) <= 6 else f"{shown} … s"
