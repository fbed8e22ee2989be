"""What several rows must fulfil together: scaling is monotone, one configuration has one figure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_gsw.audit.figures import DERIVED, Row
from pytest_gsw.audit.model import Explanation, Finding, Kind, Severity, Uses
from pytest_gsw.audit.written import about, share, spelt

#: What makes two rows runs of one configuration at different scales.
_FAMILY = (
    *("model", "size", "framework", "dtype", "accelerator", "case", "sequence_length", "layers"),
    *("model_flops", "proxy", "metric", "expected_failure", "attributes.scaling", "variant"),
)
#: What two rows of one configuration may differ in.
_NO_CONFIGURATION = frozenset({*DERIVED, "step_time_s", "checkpoint_save_time_s", "case", "notes", "line", "title"})
#: More throughput for each GPU than this share of that at fewer GPUs is not what scaling gives.
_SUPERLINEAR = Fraction(11, 10)


def scaling(rows: Sequence[Row]) -> Iterator[Finding | None]:
    """More GPUs give more throughput, and not more for each GPU, where all else is the same."""
    families: dict[tuple[str, ...], list[tuple[Fraction, Fraction, Row]]] = {}
    for row in rows:
        gpus, throughput = row.value("gpus"), _throughput(row)
        if gpus is not None and throughput is not None:
            value, unit = throughput
            families.setdefault((unit, *(row.text(key) for key in _FAMILY)), []).append((gpus, value, row))
    for (unit, *_), family in families.items():
        ordered = sorted(family, key=lambda entry: entry[0])
        for (small, slow, fewer), (large, fast, more) in itertools.pairwise(ordered):
            if small == large:
                continue
            efficiency = (fast / large) / (slow / small)
            documented, before = f"{_short(fast)} {unit} on {large} GPUs", f"{fewer.id} has {_short(slow)} {unit}"
            if fast < slow:
                part = f"{large} GPUs give {share(fast / slow)} of the throughput of {small}"
                text = f"{part}: two figures may be swapped"
                least = f"more than {_short(slow)} {unit}"
                yield _scaled(more, Severity.CONTRADICTION, documented, least, before, Kind.SWAPPED_COLUMN, text)
            elif efficiency > _SUPERLINEAR:
                text = f"each of {large} GPUs gives {share(efficiency)} of what each of {small} gives"
                most = f"about {_short(slow * large / small)} {unit} at most"
                yield _scaled(more, Severity.NOTICE, documented, most, before, Kind.UNKNOWN, text)
            else:
                yield None


def _scaled(
    row: Row, severity: Severity, documented: str, computed: str, formula: str, kind: Kind, text: str
) -> Finding:
    place = row.place("step_time_s" if "step_time_s" in row.numbers else "tokens_per_s")
    return Finding(
        identity="scaling",
        severity=severity,
        row=row.id,
        file=row.stated.file,
        line=place.line,
        column=place.column,
        documented=documented,
        computed=computed,
        formula=formula,
        explanations=(Explanation(kind, text),),
        uses=Uses.DOCUMENTED,
        verdict=row.rests_on,
        source=row.source,
    )


def _throughput(row: Row) -> tuple[Fraction, str] | None:
    """Throughput of the whole job and its unit, by the step time where there is one."""
    law, step = row.laws.get("tokens_per_s"), row.step_time
    if law is not None and step is not None:
        return law.at(step.seconds), "tokens/s"
    for key, unit in (("tokens_per_s", "tokens/s"), ("samples_per_s", "samples/s")):
        stated = row.value(key)
        if stated is not None:
            return stated, unit
    return None


def _short(value: Fraction) -> str:
    return about(value) if value < 1000 else spelt(value, Fraction(1))


def duplicates(rows: Sequence[Row]) -> Iterator[Finding | None]:
    """Rows of one configuration with different figures: two runs, or one of them is wrong."""
    alike: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in rows:
        if row.step_time is not None:
            configuration = tuple(
                sorted((key, value.text) for key, value in row.stated.values.items() if key not in _NO_CONFIGURATION)
            )
            alike.setdefault(configuration, []).append(row)
    for group in alike.values():
        if len(group) < 2:
            continue
        times = [_seconds(row) for row in group]
        if len(set(times)) < 2:
            yield None
            continue
        first, *rest = group
        step = first.step_time
        assert step is not None
        place = rest[0].place(step.key)
        names = ", ".join(row.id for row in group)
        yield Finding(
            identity="duplicate",
            severity=Severity.NOTICE,
            row=rest[0].id,
            file=rest[0].stated.file,
            line=place.line,
            column=place.column,
            documented=", ".join(f"{time} s" for time in times),
            computed="one figure",
            formula=f"the same configuration: {names}",
            explanations=(Explanation(Kind.ANOTHER_RUN, _runs(group)),),
            uses=Uses.DOCUMENTED,
            verdict="each row's own step time",
            source=rest[0].source,
        )


def _runs(group: Sequence[Row]) -> str:
    slowest, fastest = (pick(_exact(row) for row in group) for pick in (max, min))
    return f"{len(group)} runs; the slowest took {share(slowest / fastest - 1)} more time than the fastest"


def _exact(row: Row) -> Fraction:
    assert row.step_time is not None
    return row.step_time.seconds


def _seconds(row: Row) -> str:
    assert row.step_time is not None
    step = row.step_time
    return step.written.text if step.key == "step_time_s" else about(step.seconds)
