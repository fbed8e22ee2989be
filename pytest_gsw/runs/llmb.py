"""What llmb-run writes beside a job's log: which task the job was, in ``llmb-config_<job id>.yaml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import text_of
from pytest_gsw.logs.model import Identity
from pytest_gsw.logs.recipe_lines import NUMBERS
from pytest_gsw.logs.settings import number_of
from pytest_gsw.nvidia.figures import Case, has_dtype
from pytest_gsw.runs.agreement import Compared
from pytest_gsw.runs.bridge import configuration_beside
from pytest_gsw.tables.model import Baseline

#: The file has a page of lines ``  key: value`` below the names of its sections.
_MOST_BYTES = 256 << 10
_FACT = re.compile(r"^  ([a-z_]{1,40}): '?([^'\n]{1,200})'?$", re.MULTILINE)
_IMAGE = re.compile(r"^  images:\n  - '?([^'\n]{1,300})'?\n(?!  - )", re.MULTILINE)
#: What a task was given besides, below ``model_overrides`` and ``env_overrides``.
_OVERRIDE = re.compile(r"^    ([A-Za-z_]{1,40}): '?([^'\n]{1,200})'?$", re.MULTILINE)
_ARGUMENTS = "\n  mbridge_args:\n  - "
#: The one cluster for which llmb-run itself turns the GPUs' boost up.
_BOOSTED = "eos"


@dataclass(frozen=True)
class Task:
    """What llmb-run says of a job that it has launched."""

    #: Where it says so, and the text.
    path: Path
    text: str

    @cached_property
    def _facts(self) -> dict[str, str]:
        return {name: value.strip() for name, value in _FACT.findall(self.text)}

    @property
    def identity(self) -> Identity:
        """Which task the job was, as logs say it; but for its dtype, whose word stands for a family here."""
        facts, image = self._facts, _IMAGE.search(self.text)
        given: dict[str, Any] = {
            name.upper(): number_of(value.encode()) for name, value in _OVERRIDE.findall(self.text)
        }
        scale, release = facts.get("scale", ""), facts.get("gsw_version", "")
        return Identity(
            size=facts.get("model_size"),
            gpus=int(scale) if scale.isdecimal() else None,
            job_id=facts.get("job_id"),
            release=release.removeprefix("v") or None,
            image=image[1] if image is not None else None,
            **{ours: given[name] for name, ours in NUMBERS.items() if name in given},
        )

    def differing(self, row: Baseline, quantization: str | None = None) -> tuple[Compared, ...]:
        """What of it no log says, or in other words, and is not the row's.

        Args:
            row: The row.
            quantization: What is computed in fewer bits, by the configuration beside the log or by the log itself.
        """
        facts = self._facts
        gpu, own_gpu = _letters(facts.get("gpu_type", "")), _letters(row.accelerator)
        model, own = _letters(facts.get("model_name", "")), (_letters(row.model), _letters(row.workload))
        proxy = facts.get("proxy") == "true" and not row.proxy
        compared = (
            # A workload may be called by more than its model: llama3.1_mlperf, nemotron4-15b.
            Compared("model", model, row.model, "model", agrees=any(model in one or one in model for one in own)),
            Compared(
                "accelerator", gpu, row.accelerator, "", agrees=own_gpu.startswith(gpu) or gpu.startswith(own_gpu)
            ),
            Compared("proxy", "true", "false", "", agrees=not proxy),
            self._dtype(row, quantization),
        )
        return tuple(one for one in compared if not one.agrees)

    def _dtype(self, row: Baseline, quantization: str | None) -> Compared:
        """Its dtype: ``fp8`` is MXFP8 or not, as the run states, else as the recipe's launch script makes it."""
        facts, dtype = self._facts, self._facts.get("dtype", "").lower()
        says = quantization is not None and (quantization == "mxfp8" or quantization.startswith("fp8_"))
        is_mx = quantization == "mxfp8" if says else None
        workload = f"{facts.get('model_name', '')}_{facts.get('model_size', '')}".lower()
        case = Case(facts.get("gpu_type", "").lower(), workload, dtype)
        return Compared("dtype", dtype, row.dtype, "dtype", agrees=not dtype or has_dtype(case, row, is_mx))

    def is_of(self, row: Baseline) -> bool:
        """Whether a job was of this row, by what llmb-run calls tasks by; all of it must be there."""
        said = self.identity
        release = not row.source.releases or said.release is None or said.release in row.source.releases
        same = (said.size, said.gpus) == (row.size, row.gpus) and {"model_name", "dtype"} <= self._facts.keys()
        if not (same and release):
            return False
        configuration = configuration_beside(self.path)
        return not self.differing(row, None if configuration is None else configuration.identity.quantization)

    @property
    def not_comparable(self) -> str | None:
        """What the job was to do so that its figures say nothing of the row's; ``None`` where there is nothing."""
        if self._facts.get("profile_enabled") == "true":
            return f"profile_enabled in {self.path.name}"
        # Settings of Megatron-Bridge, of which nobody knows what they change.
        return f"mbridge_args in {self.path.name}" if _ARGUMENTS in self.text else None

    @property
    def boost(self) -> dict[str, str]:
        """That llmb-run has turned the GPUs' boost up, which changes what is measured; empty where it has not."""
        return {"vboost": "true"} if self._facts.get("cluster_name", "").lower() == _BOOSTED else {}


def task_beside(log: Path, job_id: str) -> Task | None:
    """The task that a job was by llmb-run's own word; ``None`` where it did not launch the job."""
    place = f"{log.parent}/llmb-config_{job_id}.yaml"
    text = text_of(place, _MOST_BYTES)
    return None if text is None else Task(Path(place), text)


def _letters(name: str) -> str:
    """A name as all spellings have it: ``llama3.1`` and ``Llama-3.1`` differ in nothing else."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
