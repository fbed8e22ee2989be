"""The definition of a row: what must be the same for two results to be comparable, and its hash.

Results whose hashes are equal may be compared; when the hash changes, a new series begins. Figures,
tolerance and the place in the document are not part of it: they say what is expected of a run, not
what is run.

An experiment is the definition without the software that it ran with. A row's nights stay one line of nights when its
image or its release changes: whether the new one made it slower is asked exactly then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_gsw.tables.images import image_name
from pytest_gsw.tables.model import Accepted, Baseline

#: Hexadecimal digits of a hash: that two of a million definitions share one has a chance of 0.2 %.
_DIGITS = 12
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)

#: Facts of a row that are part of its definition under their own names: of what is run, and of how it is measured.
_RUN = (
    *("model", "size", "framework", "dtype", "accelerator", "gpus", "gpus_per_node"),
    *("sequence_length", "global_batch_size", "micro_batch_size", "gradient_accumulation_steps", "layers"),
)
_MEASURED = ("formula", "activation_recomputation", "metric", "calibration_flops", "statistic")
#: Facts of a definition that say which software ran, and not what was trained.
_SOFTWARE = frozenset({"image", "release"})


def definition_facts(baseline: Baseline, image: str | None = None) -> dict[str, Any]:
    """What the definition of a row consists of; what is not known is left out.

    ``image`` is the container image that was run, by default the recipe's own.
    """
    recipe, named = baseline.recipe, image or baseline.recipe.image
    facts: dict[str, Any] = {
        **{name: getattr(baseline, name) for name in _RUN},
        **vars(baseline.parallelism),
        "model_flops": baseline.model_flops_per_sample,
        **{name: getattr(baseline, name) for name in _MEASURED},
        "recipe.directory": recipe.directory,
        "recipe.script": recipe.script,
        "recipe.steps": recipe.steps,
        **_prefixed("recipe.environment", recipe.environment),
        "recipe.arguments": " ".join(recipe.arguments) or None,
        **_prefixed("attributes", baseline.attributes),
        "image": None if named is None else image_name(named),
        # Two releases have rows of one name and settings, and run other software: an image tells it, if one is known.
        "release": baseline.source.release if named is None else None,
    }
    # Left out, so that a fact that a later release adds changes no hash of a row that does not have it.
    return {name: value for name, value in facts.items() if value is not None}


def definition_hash(baseline: Baseline, image: str | None = None) -> str:
    """Twelve hexadecimal digits that stand for :func:`definition_facts`."""
    return _hash(definition_facts(baseline, image))


def experiment_hash(baseline: Baseline) -> str:
    """Twelve hexadecimal digits that stand for a row's experiment, whatever image and release it runs with."""
    facts = definition_facts(baseline)
    return _hash({name: value for name, value in facts.items() if name not in _SOFTWARE})


def accepted_for(baseline: Baseline, cluster: str | None, definition: str) -> tuple[Accepted | None, Accepted | None]:
    """What a cluster has accepted for a row, as ``(counts, does not count)``; at most one of the two is there.

    It counts where it was measured under the definition of the run that is to be judged: under another one it is a
    figure of another experiment.
    """
    accepted = None if cluster is None else baseline.accepted.get(cluster)
    if accepted is None:
        return None, None
    return (accepted, None) if accepted.definition == definition else (None, accepted)


def accepted_to_expect(baseline: Baseline, cluster: str, image: str | None) -> Accepted | None:
    """What a cluster has accepted for a row and will count for a run that is not there yet, as far as can be told.

    ``image`` is the container image that the run is to have, ``None`` where only its log will tell.
    """
    accepted = baseline.accepted.get(cluster)
    named = None if accepted is None else image or accepted.image
    return accepted if accepted is not None and accepted.definition == definition_hash(baseline, named) else None


def counts_with_its_image(baseline: Baseline, accepted: Accepted) -> bool:
    """Whether an accepted figure counts for a run of the image that it was measured with, whatever that was."""
    return accepted.definition == definition_hash(baseline, accepted.image)


def _hash(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_CANONICAL.encode(facts).encode("ascii")).hexdigest()[:_DIGITS]


def _prefixed(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": text for name, text in texts.items()}
