"""``accepted``: what clusters have accepted beside the documented figures."""

from __future__ import annotations

from collections.abc import Callable

import jsonschema
import pytest
import yaml

from pytest_gsw.cli.json_schema import baseline_schema
from pytest_gsw.tables.model import Baseline
from tests.unit.tables.texts import ENTRY, EOS, TINY

Load = Callable[[str | bytes], tuple[Baseline, ...]]
Message = Callable[[str | bytes], str]

ACCEPTED = f"{TINY}accepted:\n{ENTRY}"


def test_a_row_has_what_its_clusters_have_accepted(load: Load) -> None:
    other = ENTRY.replace("eos", "selene").replace("    image: nvidia+jax+maxtext-2024.12.09.sqsh\n", "")
    one, two = load(ACCEPTED + other)
    assert one.accepted["eos"] == EOS
    assert one.accepted["selene"].image is None
    assert set(one.accepted) == {"eos", "selene"}
    assert two.accepted == {}
    assert one.judged_s == 1.5  # the documented figure stays


def test_a_row_that_is_judged_by_its_checkpoints(load: Load) -> None:
    saves = ACCEPTED.replace("step_time_s: 1.5", "metric: checkpoint_save_time, checkpoint_save_time_s: 17.9")
    (one, _) = load(saves.replace("    step_time_s: 1.612", "    checkpoint_save_time_s: 18.5"))
    assert one.accepted["eos"].judged_s == 18.5


def test_an_empty_list_is_none(load: Load) -> None:
    assert all(row.accepted == {} for row in load(f"{TINY}accepted: []\n"))


def test_a_spread_of_nothing_and_one_of_more_than_everything(load: Load) -> None:
    assert load(ACCEPTED.replace("0.83%", "0%"))[0].accepted["eos"].spread == 0
    assert load(ACCEPTED.replace("0.83%", "120 %"))[0].accepted["eos"].spread == 1.2


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("x8]\n", "x9]\n", "15:5    accepted[0]: there is no row 'tiny_1b_bf16[H100x9]' in this file; did you mean 'tiny_1b_bf16[H100x8]'?"),
        ("step_time_s: 1.612", "step_time_s: 1e-310", "17:18   accepted[0].step_time_s: got '1e-310', wanted a number from 1e-09 to 1e+12, such as 4.324"),
        ("step_time_s: 1.612", "step_time_s: 1.7e308", "17:18   accepted[0].step_time_s: got '1.7e308', wanted a number from 1e-09 to 1e+12, such as 4.324"),
        ("step_time_s: 1.612", "step_time_s: 0", "17:18   accepted[0].step_time_s: got '0', wanted a number above 0, such as 4.324"),
        ("    step_time_s: 1.612\n", "", "15:5    accepted[0]: missing 'step_time_s', on which the verdict of tiny_1b_bf16[H100x8] rests"),
        ("jobs: 7", "jobs: 7\n    checkpoint_save_time_s: 3", "15:5    accepted[0]: has checkpoint_save_time_s, but the verdict of tiny_1b_bf16[H100x8] rests on step_time_s"),
        ("    cluster: eos\n", "", "15:5    accepted[0]: missing 'cluster'"),
        ("cluster: eos", "cluster: a b", "16:14   accepted[0].cluster: got 'a b', wanted the name of a cluster, such as eos"),
        ("jobs: 7", "jobs: 0", "18:11   accepted[0].jobs: got '0', wanted a whole number above 0, such as 64"),
        ("0.83%", "\u0663%", "19:13   accepted[0].spread: got '\u0663%', wanted a percentage such as 0.8%"),
        ("0.83%", "0.83", "19:13   accepted[0].spread: got '0.83', wanted a percentage such as 0.8%"),
        ("2026-11-20", "20261120", "22:11   accepted[0].date: got '20261120', wanted a date such as 2026-11-20"),
        ("2026-11-20", "2026-11-31", "22:11   accepted[0].date: got '2026-11-31', wanted a date such as 2026-11-20"),
        ('"3f2a9c1d0e4b"', "3F2A", "23:17   accepted[0].definition: got '3F2A', wanted a definition such as 3f2a9c1d0e4b"),
        ("date:", "dates:", "22:5    accepted[0].dates: unknown key; did you mean 'date'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_entry(message: Message, old: str, new: str, fault: str) -> None:
    head, entry = f"{TINY}accepted:\n", ENTRY
    assert entry.count(old) == 1, old
    assert f"  t.yaml:{fault}" in message(head + entry.replace(old, new)).splitlines()


def test_two_figures_of_one_cluster_for_one_row(message: Message) -> None:
    assert message(ACCEPTED + ENTRY) == (
        "t.yaml: 1 problem\n"
        "  t.yaml:24:5    accepted[1]: eos has accepted a figure for tiny_1b_bf16[H100x8] in line 15 already"
    )


def test_a_row_that_has_no_documented_figure(message: Message) -> None:
    out = ACCEPTED.replace("step_time_s: 1.5", "expected_failure: out_of_memory")
    assert message(out) == (
        "t.yaml: 1 problem\n"
        "  t.yaml:15:5    accepted[0]: the document has no figure for tiny_1b_bf16[H100x8], so that none can stand beside it"
    )


def test_rows_that_are_wrong_are_not_missed_among_those_accepted(message: Message) -> None:
    wrong = ACCEPTED.replace("gpus: 8, step_time_s: 1.5", "gpus: 8")
    assert message(wrong).splitlines() == [
        "t.yaml: 1 problem",
        "  t.yaml:12:9    tables[0].rows[0]: missing 'step_time_s', on which the verdict rests",
    ]


def test_the_schema_for_editors() -> None:
    validator = jsonschema.Draft202012Validator(baseline_schema())
    table = yaml.load(ACCEPTED, yaml.BaseLoader)  # noqa: S506 - texts alone, as YAML 1.2 reads dates
    numbers = {"gpus": int, "line": int, "jobs": int, "step_time_s": float, "steps": int}
    for entry in (*table["tables"][0]["rows"], *table["accepted"], table["recipe"]):
        entry.update({key: kind(entry[key]) for key, kind in numbers.items() if key in entry})
    table.update(gpus_per_node=8, sequence_length=1024)
    assert [error.message for error in validator.iter_errors(table)] == []
    del table["accepted"][0]["jobs"]
    assert not validator.is_valid(table)


def test_the_image_of_a_recipe(load: Load) -> None:
    assert load(TINY)[0].recipe.image is None
    named = TINY.replace("steps: 20", "steps: 20, image: nvcr.io/nvidia/nemo:24.09")
    assert load(named)[0].recipe.image == "nvcr.io/nvidia/nemo:24.09"


def test_the_formula_of_a_document(load: Load) -> None:
    assert load(TINY)[0].formula is None
    assert load(TINY.replace("size: 1b", "size: 1b\narchitecture: {formula: llama}"))[0].formula == "llama"
