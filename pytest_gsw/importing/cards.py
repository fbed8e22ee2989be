"""Megatron-Bridge's verification cards become rows: one for each accelerator with a verified tuned recipe.

A card is YAML from an external source: it is read as texts, within the limits for tables. Entries without the expected
form are left out and listed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path, PurePosixPath

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.importing.document import Imported
from pytest_gsw.importing.rows import CONVENTION, FACT, UNSAID, DocumentRow, RecipeKey, RowFile
from pytest_gsw.importing.tables import Remark
from pytest_gsw.tables.metrics import STEP_TIME, TFLOPS_PER_GPU, TOKENS_PER_S_PER_GPU
from pytest_gsw.tables.yaml_values import Spelt, Stated, read_spelling

#: The task whose recipes are tuned for performance. Figures of the others are sanity checks, as the cards state.
_TUNED = "pretrain_performance"
_STEP_TIME_MS = "last_10_steps_step_time_ms_avg"
_FIGURES = {
    TOKENS_PER_S_PER_GPU: "last_10_steps_tokens_per_second_per_gpu_avg",
    TFLOPS_PER_GPU.key: "last_10_steps_model_tflops_per_gpu_avg",
}
_PRECISIONS = {"bf16": "bf16", "fp16": "fp16", "fp8_mx": "mxfp8", "nvfp4": "nvfp4"}
_ACCELERATOR = re.compile(r"(?:GB|B|H|A)\d{3}")
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_COUNT = re.compile(r"\d{1,8}")
_SCRIPT = "train.sh"
#: Options of the script with a value for Slurm.
_SLURM_OPTIONS = frozenset(
    {
        *("--nodes", "--gpus-per-node", "--gpus_per_node", "--account", "--partition", "--time", "--gres"),
        *("--container-image", "--additional-slurm-params", "--additional_slurm_params", "--experiment-name"),
    }
)
#: Arguments about waiting for the job, and about the path of the written configuration in the container.
_LOCAL_OPTIONS = frozenset({"--wait", "logger.save_config_filepath"})
#: ``GBS/MBS 2048/1`` in a card's expected result.
_GLOBAL_BATCH = re.compile(r"\bGBS/MBS (\d{1,7})/\d{1,5}\b")
_LONGEST = 20_000
#: Accepted difference between the throughput and that from the step time: both are means of ten steps.
_EXACT = Decimal("0.002")


def import_card(path: Path) -> Imported:
    """The rows of one card's recipes that are tuned for performance.

    Raises:
        ConfigurationError: It cannot be read, or is no card.
    """
    card = read_spelling(path)
    if not isinstance(card, Mapping) or not isinstance(card.get("items"), Mapping) or not _text(card, "title"):
        raise ConfigurationError(f"{path} is no verification card: it has no 'title' and 'items'")
    name = f"{path.parent.name}/{path.name}"
    rows: list[DocumentRow] = []
    left_out: list[Remark] = []
    for accelerator, entry in _mapping(_mapping(card, "items"), _TUNED).items():
        step = _mapping(entry, "metrics").get(_STEP_TIME_MS) if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(step, Stated):
            continue  # it has no step time
        reason = _rejection(accelerator, entry, step)
        if reason:
            left_out.append(Remark(step.line, f"{_TUNED}.{accelerator} {reason}"))
        else:
            # Each has a command of its own, and therefore a table of its own.
            row = _row(card, accelerator, entry, step)
            rows.append(replace(row, title=f"{name}: {row.text('case')} on {accelerator}"))
    if not rows:
        return Imported(name, (), tuple(left_out))
    workload = "_".join(filter(None, (rows[0].text("model"), rows[0].text("size"))))
    return Imported(name, (RowFile(f"megatron-bridge/{workload}.yaml", tuple(rows)),), tuple(left_out))


def _rejection(accelerator: str, entry: Mapping[str, Spelt], step: Stated) -> str:
    """The reason why an entry is no row; empty if it is one."""
    status, precision = _text(entry, "status"), _text(entry, "precision")
    if status != "verified":
        return f"is {status or 'of no status'}, not verified"
    if _ACCELERATOR.fullmatch(accelerator) is None:
        return "is of no accelerator that has a name"
    if precision not in _PRECISIONS:
        return f"has the precision '{precision}', for which no dtype is known"
    if not _counts(_words(entry)).keys() >= {"--nodes", "--gpus-per-node", "--max_steps"}:
        return "has a command that lacks nodes, GPUs of a node or steps"
    if _NUMBER.fullmatch(step.text) is None or not Decimal(step.text):
        return f"has a step time of '{step.text}', which is no number above 0"
    return ""


def _row(card: Mapping[str, Spelt], accelerator: str, entry: Mapping[str, Spelt], step: Stated) -> DocumentRow:
    model, size = _model_and_size(_text(card, "title"))
    words, metrics = _words(entry), _mapping(entry, "metrics")
    counts = _counts(words)
    texts = {
        "model": model,
        "size": size,
        "framework": "megatron-bridge",
        "dtype": _PRECISIONS[_text(entry, "precision")],
        "accelerator": accelerator,
        "gpus": str(int(counts["--nodes"]) * int(counts["--gpus-per-node"])),
        "gpus_per_node": counts["--gpus-per-node"],
        "case": _TUNED.replace("_", "-"),
        STEP_TIME.key: f"{Decimal(step.text) / 1000:f}",
        "statistic": "mean[-10:]",
        "line": str(step.line),
        **{key: text for key, name in _FIGURES.items() if _NUMBER.fullmatch(text := _text(metrics, name))},
    }
    losses = [_text(metrics, name) for name in ("initial_loss", "final_loss")]
    # A card does not state by how much a job's last loss may differ from its own.
    if all(map(_NUMBER.fullmatch, losses)) and Decimal(losses[1]) < Decimal(losses[0]):
        texts["loss"] = "falls"
    length, batch = _samples(counts.get("--seq_length", ""), texts, _text(entry, "expected_result"))
    texts |= {"sequence_length": length, "global_batch_size": batch}
    environment = _mapping(card, "verification_environment")
    # A run's image is made from the container, and its name depends on the site: it is no "image" to compare.
    keys = {"container": "base_container", "commit": "bridge_commit"}
    attributes = {name: _text(entry, key) or _text(environment, key) for name, key in keys.items()}
    attributes["final_loss"] = losses[1]
    recipe: dict[str, RecipeKey] = {
        "directory": Stated("scripts/training", CONVENTION, 1),
        "steps": Stated(counts["--max_steps"], FACT, 1),
    }
    if PurePosixPath(words[0]).name == _SCRIPT:
        launcher = {"script": Stated(_SCRIPT, FACT, 1), "launcher": Stated("nemo-run", FACT, 1)}
        recipe |= {**launcher, "arguments": tuple(_arguments(words[1:]))}
    proof = f"sequence_length: the throughput is of {length} tokens and the expected batch of {batch}"
    return DocumentRow(
        {key: Stated(text, step.line, 1) for key, text in texts.items() if text or key == "sequence_length"},
        attributes={name: text for name, text in attributes.items() if text},
        recipe=recipe,
        comments=(*([proof] if batch else []), f"command: {' '.join(_text(entry, 'command').split())}"),
        blanks={} if length else {"sequence_length": UNSAID},
        table_line=step.line,
    )


def _words(entry: Mapping[str, Spelt]) -> list[str]:
    """The words of an entry's command; none if its quotes do not end."""
    try:
        return shlex.split(_text(entry, "command"))
    except ValueError:
        return []


def _counts(words: Sequence[str]) -> Mapping[str, str]:
    """The whole numbers of a command, by their options: ``--nodes 2`` or ``--nodes=2``."""
    pairs = [word.split("=", 1) for word in words if "=" in word] + [list(pair) for pair in pairwise(words)]
    return {name: value for name, value in reversed(pairs) if _COUNT.fullmatch(value)}


def _arguments(words: Iterable[str]) -> Iterator[str]:
    """The recipe's arguments of a command, without those for Slurm, which each cluster has itself."""
    words = iter(words)
    for word in words:
        name, has_value, _ = word.partition("=")
        if name in _SLURM_OPTIONS and not has_value:
            next(words, None)
        elif name not in {*_SLURM_OPTIONS, *_LOCAL_OPTIONS}:
            yield word


def _samples(length: str, texts: Mapping[str, str], expected: str) -> tuple[str, str]:
    """Sequence length and batch; values missing in the command are added if the throughput proves them."""
    found = _GLOBAL_BATCH.search(expected)
    if found is None or not int(found[1]) or TOKENS_PER_S_PER_GPU not in texts:
        return length, ""
    tokens = Decimal(texts[TOKENS_PER_S_PER_GPU]) * int(texts["gpus"]) * Decimal(texts[STEP_TIME.key])
    proven = round(tokens / int(found[1]))
    # A length is a power of two: a batch of another run gives none.
    is_length = proven > 0 and not proven & (proven - 1) and abs(tokens / int(found[1]) / proven - 1) < _EXACT
    return (str(proven), found[1]) if is_length and length in {"", str(proven)} else (length, "")


def _model_and_size(title: str) -> tuple[str, str]:
    """Model and size in a card's title: ``nemotron_3_super_120b_a12b`` is ``nemotron3_super`` of ``120b``."""
    name = re.sub(r"[^a-z0-9._-]", "-", title.lower()).strip("-._")
    size = re.search(r"_([0-9]+b)(?:_|$)", name)
    return re.sub(r"_([0-9]+)(?=_|$)", r"\1", name[: size.start()] if size else name), size[1] if size else ""


def _mapping(values: Mapping[str, Spelt], key: str) -> Mapping[str, Spelt]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _text(values: Mapping[str, Spelt], key: str) -> str:
    found = values.get(key)
    return found.text[:_LONGEST].strip() if isinstance(found, Stated) else ""
