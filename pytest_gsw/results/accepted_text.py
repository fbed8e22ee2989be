"""What people read of a figure that a cluster has accepted: whether it counts, and what it hides."""

from __future__ import annotations

from pytest_gsw.common.words import rounded
from pytest_gsw.performance.verdict import Outcome
from pytest_gsw.results import outcomes
from pytest_gsw.results.record import Record
from pytest_gsw.tables.model import Accepted


def accepted_text(accepted: Accepted) -> str:
    """What a cluster has accepted, and what that is made of, in one line."""
    made_of = f"median of {rounded(accepted.jobs, 'job')}, spread {accepted.spread * 100:.2g} %"
    return f"accepted on {accepted.cluster} {accepted.date}: {accepted.judged_s:.4g} s, {made_of} ({accepted.job_ids})"


def unused_text(accepted: Accepted, definition: str, image: str | None) -> str:
    """Why what a cluster has accepted does not count for a run of this definition and image, and what does."""
    if accepted.image != image:
        other = f"with {_image(accepted.image)}, this run used {_image(image)}"
    else:
        other = f"under another definition ({accepted.definition}, now {definition})"
    return f"{_figure(accepted)} was measured {other}: the documented one is used"


def outdated_text(accepted: Accepted, then: str, now: str) -> str:
    """That the row was another one when the run was started, so that what a cluster has accepted does not count."""
    other = f"this run was recorded under another definition ({then or 'none'}, now {now})"
    return f"{_figure(accepted)} does not count: {other}, and the documented one is used"


def accepted_line(record: Record) -> str:
    """What a session's summary must say of an accepted figure: that it hides a loss, or that it does not count."""
    if not record.figures.accepted.get(record.judged_metric.key):
        return record.accepted_note or ""
    verdict = record.judged
    if verdict is None or not hides_loss(record):
        return ""
    loss = f"{-verdict.documented_throughput_change * 100:.1f} % below the documented throughput"
    return f"passed by what {record.run.cluster} has accepted; it is {loss}, and would have failed by it"


def hides_loss(record: Record) -> bool:
    """Whether a row has passed by an accepted figure alone: by the documented one it would have failed."""
    figures, judged = record.figures, record.judged_metric.key
    if not all(of.get(judged) for of in (figures.accepted, figures.measured, figures.documented)):
        return False
    verdict = record.judged if outcomes.of(record.outcome).pytest == "passed" else None
    return verdict is not None and verdict.documented_outcome is Outcome.REGRESSED


def ignored_text(accepted: Accepted) -> str:
    """That a rule of the session's own did not look at what the cluster has accepted."""
    return f"{_figure(accepted)} was left aside by this session's pytest_gsw_judge: the documented one is used"


def _figure(accepted: Accepted) -> str:
    return f"the accepted figure of {accepted.cluster} ({accepted.judged_s:.4g} s, {accepted.date})"


def _image(image: str | None) -> str:
    return "an image that is not known" if image is None else f"the image {image}"
