"""A row on one line: its id, its outcome, and the parts that have room."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gsw.common.text import percent, share
from pytest_gsw.jobs.model import BOOST_NOT_SET
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import limit_name, of_peak, shown_limit
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import MetricVerdict, Reason
from pytest_gsw.tables import metrics
from pytest_gsw.tables.metrics import MetricLabel, short

#: Reasons with which a row passes that is beyond its tolerance.
_PASSED_BEYOND = {
    reason.value for reason in Reason if reason.outcome is Outcome.PASSED and reason is not Reason.WITHIN_TOLERANCE
}


#: The longest line on any screen: build logs are read in narrow windows, too.
WIDEST = 100


#: The columns of the outcomes' words; the longest takes more.
_WORD = 9


#: The most columns of ids; a longer one moves its own line.
MOST_FOR_IDS = 34


#: A longer id is cut in its middle: ids differ at their ends.
_LONGEST_ID = 60


#: The columns for outcome, change or cause, as long as so many remain for the id.
_AFTER_ID, _SHORTEST_ID = 41, 26


#: The least of a text that is worth showing.
_LEAST = 12


_JOB = re.compile(
    r"^job (?P<job>\S+) (?:(?:failed|ended)(?: with (?P<code>exit code \d+)| by (?P<signal>signal \d+))?: )"
)


_ENDED = re.compile(r"^job \S+ ")


#: Words of lines with the reason for which something ended.
_CAUSE_WORDS = re.compile(
    r"error|exception|fatal|fail|abort|kill|cannot|can't|not found|no such|denied|invalid|unable|timed? ?out"
    r"|terminated|refused|assert|segmentation|panic|\bfault",
    re.IGNORECASE,
)


#: A line of srun with the exit code alone, which the row's fact has; the cause is in a line before, or in another file.
_EXIT_CODE_ALONE = re.compile(r"srun: error: .*Exited with exit code \d+$")


@dataclass(frozen=True)
class RowLine:
    """The parts of a row's line."""

    row: str
    #: The outcome in capitals.
    word: str
    #: The most important first; the first is cut if it has no room, the others are left out.
    parts: tuple[str, ...] = ()

    def text(self, width: int, ids: int = 0) -> str:
        """Id, word and the rest within a width; ``ids`` is the width of ids, and a longer one moves the rest."""
        longest = min(_LONGEST_ID, max(_SHORTEST_ID, width - _AFTER_ID))
        name = without_middle(self.row, longest).ljust(min(ids, MOST_FOR_IDS, longest))
        head = f"{name}  {self.word.ljust(_WORD)}"
        return f"{head}{fitted(self.parts, width - len(head))}".rstrip()


def line_of(record: Record, error_line: str = "") -> RowLine:
    """The line of a row by its record; ``error_line`` is the likely cause in the log of an unknown error."""
    outcome = outcomes.of(record.outcome)
    parts: tuple[str, ...] = figures(record)
    if outcome.pytest == "error":
        parts = (_error(record, error_line),)
    elif outcome.pytest == "xfailed" or not record.figures.measured:
        parts = (record.fact, _job(record))
    return RowLine(record.row.id, outcome.shown, tuple(part for part in parts if part))


def figures(record: Record) -> tuple[str, ...]:
    """The measured figures of a row, and notes on them."""
    metric = record.judged_metric
    measured = record.figures.measured.get(metric.field)
    mfu = record.figures.measured.get(metrics.MFU.key)
    parts = (
        *(finding.short for finding in record.named),
        change_text(record),
        *map(_further_text, record.metrics),
        _reason(record),
        "accepted figure not used" if record.accepted_note and not record.figures.accepted else "",
        record.remarks or "",
        "newer jobs passed over" if record.passed_over else "",
        "" if measured is None else f"{metric.number(measured)} {metric.per_unit}",
        "" if mfu is None else f"MFU {share(mfu)}{of_peak(record)}",
        BOOST_NOT_SET if BOOST_NOT_SET in record.run.environment.values() else "",
        _job(record),
        f"median of {len(record.jobs.repeats) + 1} jobs" if record.jobs.repeats else "",
        f"attempt {len(record.jobs.attempts) + 1}" if record.jobs.attempts else "",
        # No job ended here: the end of the log is the only evidence.
        "log only" if record.jobs.last and record.jobs.last.state is JobState.REPLAYED else "",
        "simulated" if record.run.simulated else "",
    )
    return tuple(part for part in parts if part)


def _further_text(found: MetricVerdict) -> str:
    """A further figure and its change, or its limit: ``peak memory 60.1 GiB (-1.8 %)``."""
    limit = limit_name(found)
    change = f"{limit} {short(found.documented)}" if limit else percent(found.change)
    unit = f" {found.metric.unit}" if found.metric.unit else ""
    tolerance = "" if limit else _tolerance_text(found.tolerance, found.tolerance, found.metric)
    return f"{found.metric.label} {short(found.measured)}{unit} ({change}){tolerance}"


def change_text(record: Record) -> str:
    """The change of a row's throughput against its reference: ``throughput -10.7 %``; empty if unknown."""
    if (verdict := record.verdict) is None:
        return ""
    metric, tolerance = record.judged_metric, record.row.tolerance
    change, by_document = percent(verdict.change), percent(verdict.documented_change)
    label, allowed = metric.change_label, _tolerance_text(tolerance, shown_limit(tolerance, metric), metric)
    if verdict.accepted is None:
        return f"{label} {change}{allowed}"
    # Both, always: a slow cluster with an accepted figure must not look like a fast one.
    return f"{label} {change} vs accepted, {by_document} vs document{allowed}"


def _tolerance_text(tolerance: float, change: float, metric: MetricLabel) -> str:
    """The change that a row, or a metric, is allowed, in parentheses; empty for the metric's usual tolerance."""
    return "" if tolerance == metrics.usual_tolerance(metric) else f" (allowed {change * 100:g} %)"


def informative_line(lines: Iterable[str]) -> str:
    """The last line that looks like the cause of an error; empty if none does."""
    likely = [text for line in lines if _CAUSE_WORDS.search(text := line.strip())]
    return next((text for text in reversed(likely) if not _EXIT_CODE_ALONE.search(text)), likely[-1] if likely else "")


def fitted(parts: Sequence[str], room: int) -> str:
    """The parts that have room, each after two blanks; the first is cut if it has none."""
    text = ""
    for part in parts:
        left = room - len(text) - 2
        if len(part) <= left:
            text += f"  {part}"
        elif not text and left >= _LEAST:
            return f"  {part[: left - 3].rstrip()}..."
        else:
            break
    return text


def without_middle(text: str, width: int) -> str:
    """A text without its middle if it is too long."""
    if len(text) <= max(width, 8):
        return text
    kept = max(width, 8) - 3
    return f"{text[: kept - kept // 2]}...{text[len(text) - kept // 2 :]}"


def _reason(record: Record) -> str:
    is_shown = record.by_own_metric == outcomes.INCONCLUSIVE.word or record.reason in _PASSED_BEYOND
    return record.reason if is_shown else ""


def _error(record: Record, error_line: str) -> str:
    """The cause of a row's error, and its job and nodes if the cause does not name them."""
    last = record.jobs.last
    named = _JOB.match(record.fact)
    if named is not None:  # the job has ended for a known cause, or with a code alone
        cause, error_line = record.fact[named.end() :], ""
    else:
        cause = _ENDED.sub("", record.fact)
    if error_line:
        return f"{cause.removeprefix('failed with ')}: {error_line}"
    if last is None or not last.id or last.id in cause:
        return cause
    return f"{cause}, job {last.id}{f' on {last.nodes}' if last.nodes else ''}"


def _job(record: Record) -> str:
    return f"job {record.jobs.last.id}" if record.jobs.last else ""
