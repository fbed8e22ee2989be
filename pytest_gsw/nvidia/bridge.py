"""Megatron-Bridge's own launch scripts: they take as arguments what NVIDIA's recipes take as variables.

``scripts/training/train.sh`` runs a recipe by its name, as the verification cards do;
``scripts/performance/setup_experiment.py`` selects one by model, GPUs, accelerator and precision, as the performance
summaries do. Both submit through NeMo-Run, which keeps what it writes below NEMORUN_HOME.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.errors import RefusedError, SubmissionError
from pytest_gsw.jobs.script_text import script_text
from pytest_gsw.tables.images import IMAGE_VARIABLE
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.releases import container_of, is_container


class _Names(NamedTuple):
    """What options are called that the two scripts call differently."""

    time: str
    image: str


_TRAIN, _SETUP = "train.sh", "setup_experiment.py"
_SCRIPTS: Mapping[str, _Names] = {
    _TRAIN: _Names("--time", "--container-image"),
    _SETUP: _Names("--time_limit", "--container_image"),
}
#: By workload, the family and the recipe that ``setup_experiment.py`` knows it by.
_RECIPES: Mapping[str, tuple[str, str]] = {
    "deepseek_v3": ("deepseek", "deepseek_v3"),
    "deepseek_v4_flash": ("deepseek", "deepseek_v4_flash"),
    "gpt_oss_120b": ("gpt_oss", "gpt_oss_120b"),
    "kimi_k2": ("kimi", "kimi_k2"),
    "llama3_8b": ("llama", "llama3_8b"),
    "llama3_70b": ("llama", "llama3_70b"),
    "llama3.1_405b": ("llama", "llama31_405b"),
    "nemotron3_nano": ("nemotronh", "nemotron_3_nano"),
    "nemotron3_super": ("nemotronh", "nemotron_3_super"),
    "nemotron3_ultra": ("nemotronh", "nemotron_3_ultra"),
    "nemotron3.5_lightning": ("nemotronh", "nemotron_3_5_lightning"),
    "qwen3_30b": ("qwen", "qwen3_30b_a3b"),
    "qwen3_235b": ("qwen", "qwen3_235b_a22b"),
}
_PRECISIONS = {"bf16": "bf16", "fp8": "fp8_cs", "mxfp8": "fp8_mx", "nvfp4": "nvfp4"}
#: Where a run's configuration goes in its container: NeMo-Run mounts the experiment's directory there.
_CONFIGURATION = "/nemo_run/configs/ConfigContainer.yaml"
#: Options that change a recipe and that the row's own do not override.
_LAYOUT = (
    *("--tensor_model_parallel_size", "--pipeline_model_parallel_size", "--virtual_pipeline_model_parallel_size"),
    *("--context_parallel_size", "--expert_model_parallel_size", "--expert_tensor_parallel_size", "--config_variant"),
)
_SHORT = frozenset({"-tp", "-pp", "-vp", "-cp", "-ep", "-et", "-cv"})
#: Of an option so much at least is written; less may stand for another one.
_LEAST = len("--tensor")
#: Rows of other tasks name them at the end of their ids.
_TASKS = ("sft", "lora")


def is_of_bridge(script: Path) -> bool:
    """Whether a launch script is one of Megatron-Bridge's."""
    return script.name in _SCRIPTS


def changes_training(word: str) -> bool:
    """Whether an argument of a cluster changes what is trained: a setting of the recipe, or its layout."""
    name = word.partition("=")[0]
    if not word.startswith("-"):
        return name != word
    return name in _SHORT or (len(name) >= _LEAST and any(option.startswith(name) for option in _LAYOUT))


def arguments_of(
    baseline: Baseline, own: tuple[str, ...], script: Path, layout: tuple[int, int], image: str
) -> tuple[str, ...]:
    """What a script is told of the row: which recipe, on how many GPUs, in which container.

    Args:
        baseline: The row.
        own: The arguments that its table states.
        script: The launch script.
        layout: Nodes of the job, and GPUs of a node.
        image: The container's image.

    Raises:
        SubmissionError: The table does not say it.
    """
    nodes, per_node = layout
    if script.name == _TRAIN:
        if not own:
            raise _unsaid(baseline, "name its recipe and settings as recipe.arguments of the table")
        # The other script writes it there by itself.
        selected = (*own, f"logger.save_config_filepath={_CONFIGURATION}")
        size = ("--nodes", str(nodes), "--gpus-per-node", str(per_node))
    else:
        selected = own or _selectors(baseline, script)
        size = ("--num_gpus", str(baseline.gpus), "--gpus_per_node", str(per_node))
    return (*selected, *size, _SCRIPTS[script.name].image, image)


def slurm_arguments(script: Path, asked: Mapping[str, str | None], limit: str | None) -> tuple[str, ...]:
    """What a script is told of Slurm, of options of sbatch by their long names that have a value.

    Raises:
        RefusedError: It does not start without one that is not there.
    """
    for name in ("account", "partition"):
        if not asked.get(name):
            raise RefusedError(
                f"{script.name} submits the job itself, and asks for its {name}",
                (("script", str(script)),),
                advice=f"write '{name}: NAME' at the cluster, or export SLURM_{name.upper()}",
            )
    given = {name: value for name, value in asked.items() if value is not None}
    time = given.pop("time", limit)
    named = [(f"--{name}", given.pop(name)) for name in ("account", "partition", "gres") if name in given]
    if time is not None:
        named.append((_SCRIPTS[script.name].time, time))
    if given:
        named.append(("--additional_slurm_params", ";".join(f"{name}={value}" for name, value in given.items())))
    return tuple(word for pair in named for word in pair)


def _selectors(baseline: Baseline, script: Path) -> tuple[str, ...]:
    """The recipe of a row of the summaries, by what the row states."""
    recipe, precision = _RECIPES.get(baseline.workload), _PRECISIONS.get(baseline.dtype)
    if recipe is None or precision is None:
        raise _unsaid(baseline, "name it as recipe.arguments of a table: --model_family_name, --model_recipe_name, …")
    parser = script_text(script.with_name("argument_parser.py"))
    if parser is not None and "--model_recipe_name" not in parser:
        raise _unsaid(baseline, "its checkout is older than container 26.02: git switch to the branch of the container")
    task = next((task for task in _TASKS if baseline.id.endswith(f"-{task}]")), "pretrain")
    facts = {
        "--max_steps": baseline.recipe.steps,
        "--global_batch_size": baseline.global_batch_size,
        "--micro_batch_size": baseline.micro_batch_size,
        "--seq_length": baseline.sequence_length,
    }
    chosen = ("--model_family_name", recipe[0], "--model_recipe_name", recipe[1], "--task", task)
    target = ("--gpu", baseline.accelerator.lower(), "--compute_dtype", precision)
    told = (word for name, value in facts.items() if value is not None for word in (name, str(value)))
    return (*chosen, *target, *told)


def image_for(baseline: Baseline, environment: Mapping[str, str]) -> str:
    """The container to run in: the one that the job's variables choose, if it may be the row's, or else the row's.

    Raises:
        SubmissionError: The table states none, or another one is chosen.
    """
    containers = [release for release in baseline.source.releases if is_container(release)]
    stated = baseline.recipe.image or baseline.attributes.get("container")
    stated = stated or next((f"nvcr.io/nvidia/{release}" for release in containers), None)
    chosen = environment.get(IMAGE_VARIABLE, "").strip()
    if not chosen and stated is None:
        raise _unsaid(baseline, f"name its container: recipe.image of the table, or {IMAGE_VARIABLE} of the cluster")
    ran, wanted = container_of(chosen), container_of(stated or "")
    if ran is not None and wanted is not None and ran != wanted:
        raise SubmissionError(
            f"the row's figures are of {wanted}, and {IMAGE_VARIABLE} chooses {ran}",
            (("image", chosen), ("baseline", str(baseline.location))),
            advice=f"choose an image of {wanted}, or run the rows of the other: --gsw-release={ran}",
        )
    return chosen or str(stated)


def _unsaid(baseline: Baseline, advice: str) -> SubmissionError:
    return SubmissionError(
        "the row does not say how Megatron-Bridge is to run it", (("baseline", str(baseline.location)),), advice=advice
    )
