"""What a session leaves for the CI server that it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.reports.ci.annotations import github
from pytest_gsw.reports.ci.markdown import markdown
from pytest_gsw.reports.night import Night


@dataclass(frozen=True)
class SessionOutputs:
    """Texts, and where they go; empty away from a CI server that takes them."""

    #: What to append the summary to, which ends in a line end: others write there, too.
    summary_path: Path | None = None
    summary: str = ""
    #: What to print, each command on a line of its own.
    annotations: str = ""


def session_outputs(night: Night, environ: Mapping[str, str]) -> SessionOutputs:
    """A summary and annotations in GitHub Actions, and nothing elsewhere."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return SessionOutputs()
    place = environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return SessionOutputs(annotations=github(night))
    return SessionOutputs(Path(place), f"{markdown(night)}\n", github(night))
