"""What else was written of a job, beside its log, as a hook hands it over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from pytest_gsw.logs.model import Identity
from pytest_gsw.runs.agreement import Compared
from pytest_gsw.tables.model import Baseline


@dataclass(frozen=True)
class Evidence:
    """What a file says of a job: of who launched it, or of how its run was set up."""

    path: Path
    #: Of which run the file is. A log is another's where it differs from the row, as it is by what it says itself.
    identity: Identity
    #: What the job was to do so that its figures say nothing of the row's; ``None`` where there is nothing.
    not_comparable: str | None = None
    #: What the job ran with, as a record keeps it.
    environment: Mapping[str, str] = field(default_factory=dict)

    def differing(self, row: Baseline, quantization: str | None) -> Sequence[Compared]:
        """What else of it is not the row's, in words that no log has.

        Args:
            row: The row.
            quantization: What was computed in fewer bits, by all that is written of the job; ``None`` if unknown.
        """
        return ()


def evidence_beside(log: Path, job_id: str) -> tuple[Evidence, ...]:
    """What is written beside a log, where there is no session whose hooks could be asked: by NVIDIA's recipes."""
    return tuple(import_module("pytest_gsw.nvidia.evidence").evidence_beside(log, job_id))
