"""Clones of public repositories, bare or not: the recipes, and where they are given, what a recipe pins.

``GSW_RECIPES`` is one of NVIDIA/dgxc-benchmarking or NVIDIA/exemplar-performance with its tags, ``GSW_NEMO_RUN`` of
NVIDIA-NeMo/Run, ``GSW_MEGATRON_BRIDGE`` of NVIDIA-NeMo/Megatron-Bridge. What NeMo-Run itself needs must be installed.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

RECIPES = os.environ.get("GSW_RECIPES", "")
NEMO_RUN = os.environ.get("GSW_NEMO_RUN", "") if find_spec("torchx") else ""
MEGATRON_BRIDGE = os.environ.get("GSW_MEGATRON_BRIDGE", "") if NEMO_RUN else ""

#: How a recipe pins a commit of a repository, whose name ends so.
_PINS = {
    "NeMo-Run": (r"Run\.git@(\w{40})", r"NEMO_RUN_COMMIT=\"(\w{40})", r"Run\.git\"?\s+commit: \"(\w{40})"),
    "Megatron-Bridge": (r"Megatron-Bridge\.git\"?\s+commit: \"(\w{40})",),
}


def _git(clone: str) -> list[str]:
    inner = Path(clone) / ".git"
    return ["git", f"--git-dir={inner if inner.exists() else clone}"]


def _names(clone: str, commit: str) -> list[str]:
    listing = [*_git(clone), "ls-tree", "-r", "--name-only", commit]
    return subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()


def has(clone: str, commit: str) -> bool:
    exists = [*_git(clone), "cat-file", "-e", f"{commit}^{{commit}}"]
    return bool(clone) and subprocess.run(exists, check=False, capture_output=True).returncode == 0


def check_out(clone: str, commit: str, place: Path, paths: Sequence[str] = (".", ":(exclude)*.model")) -> None:
    """A commit's files, as they are; without tokenizers of megabytes, for which a clone may lack."""
    command = [*_git(clone), "archive", commit, "--", *paths]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(place, filter="data")


def check_out_recipes(tag: str, place: Path) -> None:
    """The recipes of a release, as they are, with an empty file for each tokenizer."""
    check_out(RECIPES, tag, place)
    for name in _names(RECIPES, tag):
        if name.endswith(".model"):
            (place / name).touch()


def pin(recipe: Path, repository: str) -> str:
    """The commit of a repository that a recipe's own setup takes; empty where it takes none."""
    files = (recipe / "setup.sh", recipe / "metadata.yaml")
    text = "\n".join(path.read_text() for path in files if path.is_file())
    return next((found[1] for form in _PINS[repository] if (found := re.search(form, text))), "")
