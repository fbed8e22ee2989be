"""The file of a run's owner on another machine."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.jobs.run_lock import LEASE_S, NAME


def leave_owner(directory: Path, lease_s: float = LEASE_S, **changes: object) -> Path:
    """Leave such a file, as filelock writes it; it was touched just now."""
    facts = {"pid": 4711, "host": "login03", "mode": "lease", "token": "ab" * 16, "duration": lease_s, **changes}
    path = directory / NAME
    path.write_text("filelock/2\n" + "".join(f"{name}={value}\n" for name, value in facts.items()))
    return path
