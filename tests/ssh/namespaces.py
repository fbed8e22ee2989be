"""Commands that do not see a directory: the staging area of a cluster is on no CI machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

# A read-only file system: what is written to the wrong machine fails.
_HIDE = 'mount -t tmpfs -o ro,size=4k,mode=755 hidden "$0" && exec "$@"'


def hidden(directory: Path, command: Sequence[str]) -> tuple[str, ...]:
    """The command, run where this directory is empty and read-only; other processes see it as it is."""
    # Who is not root is so in a namespace of users.
    own = () if os.geteuid() == 0 else ("--map-root-user",)
    return ("unshare", "--mount", "--propagation=private", *own, "sh", "-c", _HIDE, str(directory), *command)


@cache
def missing_permission() -> str | None:
    """The reason why :func:`hidden` does not work here; ``None`` if it does."""
    if shutil.which("unshare") is None:
        return "there is no unshare: apt-get install --no-install-recommends -y util-linux"
    tried = subprocess.run(hidden(Path("/mnt"), ["true"]), capture_output=True, text=True, timeout=60, check=False)
    return f"a directory cannot be hidden here: {tried.stderr.strip()}" if tried.returncode else None
