"""The definition of a row: what changes it, what does not, and that it stays what it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common.blocks import text_block
from pytest_gsw.tables.bundled import bundled_baselines, bundled_releases
from pytest_gsw.tables.load import load_tables, read_tables
from pytest_gsw.tables.model import (
    Accepted,
    Baseline,
    Documented,
    Figures,
    Location,
    Source,
    accepted_for,
    counts_with_its_image,
    definition_facts,
    definition_hash,
    experiment_hash,
)
from tests.unit.rows import LLAMA2_FP8_X128

Load = Callable[[str | bytes], tuple[Baseline, ...]]
ROW = LLAMA2_FP8_X128
IMAGE = "nvidia+jax+maxtext-2024.12.09.sqsh"
ACCEPTED = Accepted("eos", 4.6, 7, 0.008, "1, 2", "2026-11-20", definition_hash(ROW, IMAGE), IMAGE)


def test_a_hash_to_the_letter() -> None:
    """Whoever changes what goes into it gives every row of every site a new series; this is what says so."""
    assert definition_hash(ROW) == "6bac22c499a4"
    assert definition_hash(ROW, IMAGE) == "ca893216ba67"


DEFINING = {
    "workload.model": "llama3",
    "workload.size": "7b",
    "workload.framework": "nemo",
    "workload.dtype": "bf16",
    "accelerator": "B200",
    "calibration_flops": 9.5e10,
    "gpus": 64,
    "gpus_per_node": 4,
    "workload.sequence_length": 8192,
    "batch.global_batch_size": 512,
    "batch.micro_batch_size": 1,
    "batch.gradient_accumulation_steps": 4,
    "workload.layers": 40,
    **{f"parallelism.{key}": 2 for key in ("tp", "pp", "cp", "ep", "dp", "vp", "fsdp")},
    "workload.model_flops_per_sample": 1.83e15,
    "workload.formula": "llama",
    "workload.activation_recomputation": True,
    "criterion.metric": "checkpoint_save_time",
    "criterion.at": "16 GiB",
    "criterion.read": text_block("tokens/s: {}"),
    "criterion.unit": "tokens/s",
    "criterion.better": "higher",
    "criterion.statistic": "median",
    "attributes": {"zero_stage": "3"},
    "recipe.directory": "maxtext2",
    "recipe.script": "run.sh",
    "recipe.steps": 100,
    "recipe.environment": {"TP": "{tp}"},
    "recipe.arguments": ("--recipe", "other"),
    "recipe.image": "x.sqsh",
}
NOT_DEFINING = {
    "id": "other",
    "tile": "n001",
    "workload.log_format": "megatron",
    "documented": Figures(step_time_s=1.0, mfu=0.5),
    "criterion.min_steps": 3,
    "criterion.tolerance": 0.5,
    "criterion.stated_tolerance": 0.5,
    "criterion.max_gain": 0.5,
    "workload.proxy": True,
    "canary": True,
    "metrics": {"peak_memory_gib": Documented(61.2, 0.05)},
    "criterion.expected_failure": "out_of_memory",
    "notes": "a note",
    "source": Source("other.md", 1),
    "location": Location(Path("other.yaml"), 1, 1),
    "accepted": {"eos": ACCEPTED},
    "recipe.launcher": "nemo-run",
    # How it is read, and when it may run.
    "recipe.logged_steps": 20,
    "recipe.steps_before": 15,
    "recipe.one_job_per_row": True,
    # What of its job is not measured.
    "recipe.may_fail": ("convert",),
    # How its figure is called.
    "criterion.label": "random read",
    # What its log is checked by.
    "workload.model_layers": 7,
    "workload.hidden_size": 64,
    "criterion.loss": "falls",
}


def changed(names: dict[str, object]) -> Baseline:
    row = ROW
    for name, value in names.items():
        part, _, key = name.partition(".")
        if key:
            value = replace(getattr(row, part), **{key: value})
        row = replace(row, **{part: value})  # type: ignore[arg-type]
    return row


def test_every_field_is_one_or_the_other() -> None:
    whole = {"workload", "batch", "parallelism", "criterion", "recipe"}
    names = {field.name for field in fields(Baseline)} - whole
    names |= {f"{part}.{field.name}" for part in whole for field in fields(getattr(ROW, part))}
    assert names == set(DEFINING) | set(NOT_DEFINING)
    assert not set(DEFINING) & set(NOT_DEFINING)


@given(
    some=st.sets(st.sampled_from(sorted(DEFINING)), min_size=1), others=st.sets(st.sampled_from(sorted(NOT_DEFINING)))
)
def test_what_defines_a_row_changes_the_hash_and_nothing_else_does(some: set[str], others: set[str]) -> None:
    same = changed({name: NOT_DEFINING[name] for name in others})
    assert definition_hash(same) == definition_hash(ROW)
    other = changed({name: {**DEFINING, **NOT_DEFINING}[name] for name in some | others})
    assert definition_hash(other) != definition_hash(ROW)


@given(image=st.text(st.characters(codec="utf-8"), min_size=1))
def test_the_image_is_part_of_it(image: str) -> None:
    assert definition_hash(ROW, image) != definition_hash(ROW)
    named = replace(ROW, recipe=replace(ROW.recipe, image=image))
    assert definition_hash(named) == definition_hash(ROW, image)
    assert definition_hash(named, "x.sqsh") == definition_hash(ROW, "x.sqsh")


def test_the_release_stands_for_an_image_that_nobody_knows() -> None:
    of = {release: replace(ROW, source=Source("README.md", 1, release)) for release in ("v25.05", "v25.05.01")}
    assert len({definition_hash(row) for row in (ROW, *of.values())}) == 3
    assert definition_facts(of["v25.05"])["release"] == "v25.05"
    # An image says more than a release, which may be given another one.
    assert {definition_hash(row, IMAGE) for row in of.values()} == {definition_hash(ROW, IMAGE)}


def test_the_same_row_of_two_releases_has_two_definitions() -> None:
    tables = {bundled_baselines(), *chain.from_iterable(bundled_releases().values())}
    rows = {(row.id, row.location): row for row in read_tables(sorted(tables)).rows}.values()
    found = Counter((row.id, definition_hash(row)) for row in rows)
    assert len(found) > 500
    assert [row for row, times in found.items() if times > 1] == []


def test_only_what_was_measured_again_on_another_day_has_the_definition_of_another_row() -> None:
    rows = load_tables([bundled_baselines()])
    definitions = Counter(definition_hash(row) for row in rows)
    again = {row.id.rpartition("-")[2].rstrip("]") for row in rows if definitions[definition_hash(row)] > 1}
    assert again == {"0525", "0526", "0527", "0528", "mbs48", "run1", "run2"}
    assert len(definitions) == len(rows) - 8


def test_an_accepted_figure_counts_on_its_cluster_and_under_its_definition() -> None:
    row = replace(ROW, accepted={"eos": ACCEPTED})
    now = definition_hash(row, IMAGE)
    assert accepted_for(row, "eos", now) == (ACCEPTED, None)
    assert accepted_for(row, "eos", definition_hash(row, "x.sqsh")) == (None, ACCEPTED)
    assert accepted_for(row, "other", now) == (None, None)
    assert accepted_for(row, None, now) == (None, None)
    assert counts_with_its_image(row, ACCEPTED)
    assert not counts_with_its_image(replace(row, gpus=64), ACCEPTED)


def test_an_experiment_is_the_same_whatever_image_it_runs() -> None:
    named = replace(ROW, recipe=replace(ROW.recipe, image="x.sqsh"))
    assert experiment_hash(named) == experiment_hash(ROW)
    assert definition_hash(named) != definition_hash(ROW)
    assert experiment_hash(replace(ROW, gpus=2 * ROW.gpus)) != experiment_hash(ROW)
