"""What llmb-run writes beside a job's log: which task the job was, in ``llmb-config_<job id>.yaml``."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_gsw.logs.model import Identity

#: The file has a page of lines ``  key: value`` below the names of its sections.
_MOST_BYTES = 256 << 10
_FACT = re.compile(r"^  ([a-z_]{1,40}): '?([^'\n]{1,200})'?$", re.MULTILINE)
#: The only list of the file.
_IMAGE = re.compile(r"^  - '?([^'\n]{1,300})'?$", re.MULTILINE)
#: The one cluster for which llmb-run itself turns the GPUs' boost up.
_BOOSTED = "eos"


def config_beside(log: Path, job_id: str) -> Path:
    """Where llmb-run describes a job."""
    return log.with_name(f"llmb-config_{job_id}.yaml")


def task_of(config: Path) -> Identity | None:
    """The task that a job was by llmb-run's own word; ``None`` where it did not launch the job."""
    facts = _facts_in(config)
    if facts is None:
        return None
    scale, release = facts.get("scale", ""), facts.get("gsw_version", "")
    return Identity(
        size=facts.get("model_size"),
        dtype=facts.get("dtype"),
        gpus=int(scale) if scale.isdecimal() else None,
        job_id=facts.get("job_id"),
        release=release.removeprefix("v") or None,
        image=facts.get("image"),
    )


def boost_of(config: Path) -> dict[str, str]:
    """That llmb-run has turned the GPUs' boost up, which changes what is measured; empty where it has not."""
    facts = _facts_in(config) or {}
    return {"vboost": "true"} if facts.get("cluster_name", "").lower() == _BOOSTED else {}


def _facts_in(config: Path) -> dict[str, str] | None:
    if not config.is_file():
        return None
    try:
        with config.open("rb") as file:
            text = file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return None
    images = _IMAGE.findall(text)
    image = {"image": images[0]} if len(images) == 1 else {}
    return image | {name: value.strip() for name, value in _FACT.findall(text)}
