"""What several rows must fulfil together: scaling is monotone, one configuration has one figure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_gsw.documents.audit.agreement import wrong
from pytest_gsw.documents.audit.figures import DERIVED, Row, seconds_text
from pytest_gsw.documents.audit.findings import Explanation, Finding, Kind, Severity, Uses
from pytest_gsw.documents.audit.written import about, share, spelt
from pytest_gsw.tables.metrics import SAMPLES_PER_S, SAVE_TIME, STEP_TIME, TOKENS_PER_S, TOKENS_PER_S_PER_GPU

#: What makes two rows runs of one configuration at different scales.
_FAMILY = (
    *("model", "size", "framework", "dtype", "accelerator", "case", "sequence_length", "layers"),
    *("model_flops", "proxy", "metric", "expected_failure", "attributes.scaling", "variant"),
)
#: What two rows of one configuration may differ in.
_NO_CONFIGURATION = frozenset({*DERIVED, STEP_TIME.key, SAVE_TIME.key, "case", "notes", "line", "title"})
#: More throughput for each GPU than this share of that at fewer GPUs is not what scaling gives.
_SUPERLINEAR = Fraction(11, 10)
#: Rows of a series that swapped figures are looked for in: each pair of them takes as many computations.
_MOST_SWAPPED = 20


def scaling(rows: Sequence[Row]) -> Iterator[Finding | None]:
    """More GPUs give more throughput, and not more for each GPU, where all else is the same."""
    families: dict[tuple[str, ...], list[Run]] = {}
    for row in rows:
        run = run_of(row)
        # What differs between rows without a dtype may be just that.
        if run is not None and row.text("dtype"):
            families.setdefault((run.unit, *(row.text(key) for key in _FAMILY)), []).append(run)
    for family in families.values():
        ordered = sorted(family, key=lambda run: run.gpus)
        steps = [pair for pair in itertools.pairwise(ordered) if pair[0].gpus != pair[1].gpus]
        swap = _swap(ordered) if any(more.throughput < fewer.throughput for fewer, more in steps) else None
        for fewer, more in steps:
            efficiency = (more.throughput / more.gpus) / (fewer.throughput / fewer.gpus)
            if more.throughput < fewer.throughput:
                yield _falling(fewer, more, swap)
            elif efficiency > _SUPERLINEAR:
                yield _superlinear(fewer, more, efficiency)
            else:
                yield None


@dataclass(frozen=True)
class Run:
    """A row of a series: how many GPUs give how much throughput, and the figure that says so."""

    row: Row
    gpus: Fraction
    throughput: Fraction
    unit: str
    #: The documented figure that the throughput is computed from, or is.
    key: str

    @property
    def documented(self) -> str:
        """That figure with its unit."""
        return f"{self.row.text(self.key)} {'s' if self.key == STEP_TIME.key else self.unit}"

    def figure_at(self, throughput: Fraction) -> str:
        """What that figure is at another throughput."""
        if self.key == STEP_TIME.key:
            return f"{about(self.row.laws[TOKENS_PER_S.key].seconds(throughput))} s"
        return f"{_short(throughput)} {self.unit}"


def run_of(row: Row) -> Run | None:
    """A row's throughput by its step time where there is one, else as stated."""
    gpus, step, law = row.value("gpus"), row.step_time, row.laws.get(TOKENS_PER_S.key)
    if gpus is None:
        return None
    if step is not None and step.key == STEP_TIME.key and law is not None:
        return Run(row, gpus, law.at(step.seconds), TOKENS_PER_S.unit, step.key)
    for key in (TOKENS_PER_S.key, TOKENS_PER_S_PER_GPU, SAMPLES_PER_S.key):
        value = row.value(key)
        if value is not None:
            whole = value * gpus if key == TOKENS_PER_S_PER_GPU else value
            return Run(row, gpus, whole, SAMPLES_PER_S.unit if key == SAMPLES_PER_S.key else TOKENS_PER_S.unit, key)
    return None


def _falling(fewer: Run, more: Run, swap: str | None) -> Finding:
    """More GPUs with less throughput: arithmetic does not refute it, unless other figures say what was swapped."""
    throughput = f"{_short(fewer.throughput)} {fewer.unit} of {fewer.row.id}"
    if more.key == STEP_TIME.key:
        formula = f"the step time with which {more.gpus} GPUs give more than the {throughput}"
        limit = f"less than {more.figure_at(fewer.throughput)}"
    else:
        formula = f"the throughput of more GPUs than the {fewer.gpus} of {fewer.row.id}"
        limit = f"more than {more.figure_at(fewer.throughput)}"
    part = share(more.throughput / fewer.throughput)
    if swap is not None:
        return _scaled(more, Severity.CONTRADICTION, limit, formula, Explanation(Kind.SWAPPED_COLUMN, swap))
    text = f"{more.gpus} GPUs give {part} of the throughput of {fewer.gpus}"
    return _scaled(more, Severity.NOTICE, limit, formula, Explanation(Kind.UNKNOWN, text))


def _superlinear(fewer: Run, more: Run, efficiency: Fraction) -> Finding:
    figure = "step time" if more.key == STEP_TIME.key else "throughput"
    formula = f"the {figure} with which {more.gpus} GPUs give as much each as those of {fewer.row.id}"
    at = more.figure_at(fewer.throughput * more.gpus / fewer.gpus)
    limit = f"about {at} at {'least' if more.key == STEP_TIME.key else 'most'}"
    text = f"each of {more.gpus} GPUs gives {share(efficiency)} of what each of {fewer.gpus} gives"
    return _scaled(more, Severity.NOTICE, limit, formula, Explanation(Kind.UNKNOWN, text))


def _swap(series: Sequence[Run]) -> str | None:
    """Which two figures of a series are swapped: with them in their places it grows, and others of the rows fit."""
    suspects = [run for run in series if wrong(run.row)][:_MOST_SWAPPED]
    for one, other in itertools.combinations(suspects, 2):
        if one.key != other.key or one.gpus == other.gpus:
            continue
        pairs = ((one.row, other.row), (other.row, one.row))
        swapped = {mine.id: mine.with_value(one.key, theirs.text(one.key)) for mine, theirs in pairs}
        if any(wrong(row) for row in swapped.values()):
            continue
        grown = [run_of(swapped.get(run.row.id, run.row)) or run for run in series]
        if all(more.throughput >= fewer.throughput for fewer, more in itertools.pairwise(grown)):
            fits = sorted(wrong(one.row) | wrong(other.row))
            figures = f"{', '.join(fits)} {'fits' if len(fits) == 1 else 'fit'}"
            return f"with the {one.key} of {one.row.id} and {other.row.id} swapped, throughput grows and {figures}"
    return None


def _scaled(run: Run, severity: Severity, limit: str, formula: str, explanation: Explanation) -> Finding:
    return run.row.finding(
        run.key,
        f"{run.documented} on {run.gpus} GPUs",
        limit,
        formula,
        explanation,
        severity=severity,
        uses=Uses.DOCUMENTED,
        identity="scaling",
    )


def _short(value: Fraction) -> str:
    return about(value) if value < 1000 else spelt(value, Fraction(1))


def duplicates(rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Rows of one configuration with different figures: two runs, or one of them is wrong."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        # What differs between rows without a dtype may be just that.
        if row.step_time is not None and row.text("dtype"):
            configuration = tuple(
                sorted((key, value.text) for key, value in row.stated.values.items() if key not in _NO_CONFIGURATION)
            )
            alike.setdefault((configuration, row.workload), []).append(row)
    for group in alike.values():
        if len(group) < 2:
            continue
        steps = [row.step_time for row in group if row.step_time is not None]
        times = [seconds_text(step) for step in steps]
        if len(set(times)) < 2:
            yield None
            continue
        seconds = [step.seconds for step in steps]
        slower = share(max(seconds) / min(seconds) - 1)
        runs = f"{len(group)} runs; the slowest took {slower} more time than the fastest"
        yield group[1].finding(
            steps[0].key,
            ", ".join(f"{time} s" for time in times),
            "one figure",
            f"the same configuration: {', '.join(row.id for row in group)}",
            Explanation(Kind.ANOTHER_RUN, runs),
            severity=Severity.NOTICE,
            uses=Uses.DOCUMENTED,
            identity="duplicate",
            verdict="each row's own step time",
        )
