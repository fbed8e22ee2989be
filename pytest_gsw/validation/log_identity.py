"""A log and its job's other files belong to the row and to the job, by what they state."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Sequence
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.jobs.layout import CLOCK_SKEW_S
from pytest_gsw.jobs.model import Job
from pytest_gsw.logs import reader, scan
from pytest_gsw.logs.identity import identity_markers, with_identity
from pytest_gsw.logs.model import Identity, StepLog
from pytest_gsw.tables import release_rows, releases
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.agreement import RELEASE, Compared, compare
from pytest_gsw.validation.run import Run, job_evidence, replayed

#: A log has its run's identity at its beginning.
_IDENTITY_BYTES = 4 << 20


def read_identity(path: Path, format_name: str = "") -> Identity:
    """The identity of the run that wrote a log, which may have no steps."""
    records = scan.matching_records(path, identity_markers(format_name), stop=_IDENTITY_BYTES)
    return with_identity(StepLog(format_name, (), attempts=0), records).identity


#: Times as recipes and frameworks, ``date``, and Slurm write them.
_TIME = re.compile(
    rb"\b(20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d)|\b([A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d) [A-Z]{3,5} (20\d\d)"
    rb"|\bSLURM_JOB_START_TIME=(\d{10})\b"
)


_HEAD_BYTES = 1 << 16


def is_own(job: Job, log: Path) -> bool:
    """True if the head of a log states its job's id, and its first time is one after the job's submission."""
    try:
        with log.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        found = _TIME.search(head)
        if found is None or not re.search(rb"(?i)job_?id[\"']?[=:] ?[\"']?%b\b" % re.escape(job.id.encode()), head):
            return False
        iso, day, year, epoch = ((part or b"").decode() for part in found.groups())
        form = "%Y-%m-%d %H:%M:%S" if iso else "%b %d %H:%M:%S %Y"
        parsed = time.gmtime(int(epoch)) if epoch else time.strptime(iso.replace("T", " ") or f"{day} {year}", form)
    except (OSError, ValueError):
        return False
    # The zone is not known.
    earliest_s, latest_s = job.submitted_s - CLOCK_SKEW_S, time.time() + CLOCK_SKEW_S
    return any(earliest_s <= start_s <= latest_s for start_s in (calendar.timegm(parsed), time.mktime(parsed)))


def check_identity(
    baseline: Baseline, run: Run, identity: Identity, others: Sequence[Compared] = ()
) -> tuple[Compared, ...]:
    """Check that a log belongs to this row and job, and that its settings are the row's, if it states them.

    Args:
        baseline: The row.
        run: The ended job.
        identity: The identity of the log, or of another file.
        others: Further differences.

    Returns:
        The values compared.

    Raises:
        LogError: A value differs.
    """
    image = None if run.image_was_chosen else baseline.recipe.image
    compared = (*compare(baseline, identity, job_id=_own_job_id(run), image=image), *others)
    differing = [value for value in compared if value.agrees is False]
    if not differing:
        return compared
    names = [value for value in differing if value.is_name]
    release = next((value for value in differing if value.field == RELEASE), None)
    release_evidence: tuple[tuple[str, str], ...] = ()
    if not names and release is not None:
        # The settings may differ because of the release.
        other = release_rows.other_release(
            baseline, releases.releases_of(release.found), "the log", f"--gsw-replay={run.log or 'LOG'}"
        )
        fact, advice = other.fact, other.advice
        release_evidence = (("release", f"GSW_VERSION={release.found} in the log"), other.table)
        differing.remove(release)
    elif names:
        fact = f"the log belongs to another run, by its {' and '.join(value.name for value in names)}"
        advice = _ANOTHER_RUN
    else:
        fact = f"the run was not the row's: {'; '.join(f'{value.name} {value.text}' for value in differing)}"
        advice = "correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    raise LogError(
        fact,
        evidence=(
            *release_evidence,
            *((value.name, value.text) for value in differing),
            *_differing_lines(run, identity, compared),
            ("baseline", str(baseline.location)),
            *job_evidence(run),
        ),
        advice=advice,
    )


def check_evidence(baseline: Baseline, run: Run, identity: Identity) -> Sequence[tuple[Compared, ...]]:
    """Check that the job's other files belong to the row.

    Returns:
        The values compared, for each file.

    Raises:
        LogError: One belongs to another row or run.
    """
    quantized = [evidence.identity.quantization for evidence in run.evidence]
    quantization = next((word for word in quantized if word is not None), identity.quantization)
    compared = []
    for file in run.evidence:
        try:
            compared.append(check_identity(baseline, run, file.identity, file.differing(baseline, quantization)))
        except LogError as error:
            raise LogError(error.fact, (*error.evidence, ("said in", str(file.path))), advice=error.advice) from None
    return compared


_ANOTHER_RUN = (
    "look whether another recipe writes there, or the launch script sets a variable such as DTYPE itself; "
    "a log that you name must be this row's"
)


def _differing_lines(run: Run, identity: Identity, compared: Sequence[Compared]) -> tuple[tuple[str, str], ...]:
    """The lines of the log that differ from the row."""
    if run.log is None:
        return ()
    offsets = sorted(
        {identity.places[value.field] for value in compared if value.agrees is False and value.field in identity.places}
    )
    lines = ", ".join(str(reader.line_number(run.log, offset)) for offset in offsets)
    return (("said at", f"{run.log}:{lines}"),) if lines else ()


def _own_job_id(run: Run) -> str | None:
    """The id of the run's job; ``None`` if it is only the name of a replayed log."""
    named_by_log = replayed(run) and run.log is not None and run.log.stem == run.job_id and not run.job_id.isdigit()
    return None if named_by_log else run.job_id or None
