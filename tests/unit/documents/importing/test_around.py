"""What stands around a table and is about its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.documents.importing import read_facts
from pytest_gsw.documents.importing.anywhere import stated_anywhere
from pytest_gsw.documents.importing.around import SAID
from pytest_gsw.documents.importing.markdown import parse_document
from pytest_gsw.documents.importing.prose import read_prose
from pytest_gsw.documents.importing.surroundings import Surroundings
from pytest_gsw.tables.load import load_table
from tests.endless import it_ends
from tests.unit.documents.importing.conftest import Read

TABLE = """
| Technique | Step time (s) |
|---|---|
| plain | 2.5 |
| compiled | 2.0 |
"""


def about(text: str, table: int = 0, row: dict[str, str] | None = None) -> dict[str, str]:
    """What is said of a row, by key: the value with its line, and why there is none."""
    document = parse_document("doc.md", text)
    around = Surroundings(document).of(document.tables[table])
    found, differing = around.about(row or {}, ("gpus", "nodes", *SAID))
    return {**{key: f"{stated.text} ({stated.line})" for key, stated in found.items()}, **differing}


def test_the_paragraph_before_a_table_its_heading_and_those_above() -> None:
    text = f"# FP8 on H100\n\nSequence length 4096.\n\n## 64 GPUs\n\n### Llama 3 8B\n\nTP=2, GBS=128:\n{TABLE}"
    assert about(text) == {
        "tp": "2 (9)",
        "global_batch_size": "128 (9)",
        "model": "llama3 (7)",
        "size": "8b (7)",
        "gpus": "64 (5)",
        "dtype": "fp8 (1)",
        "accelerator": "H100 (1)",
        "sequence_length": "4096 (3)",
    }


def test_the_nearest_wins() -> None:
    assert about(f"## 64 GPUs\n\nOn 8 GPUs:\n{TABLE}") == {"gpus": "8 (3)"}


def test_two_statements_at_the_same_distance_say_nothing() -> None:
    text = f"# 128 GPUs\n\n## Results\n\nOn 8 GPUs. Then on 16 GPUs.\n{TABLE}"
    assert about(text) == {"gpus": "line 5 says 16 and 8"}


def test_a_list_with_its_introduction_and_settings_in_code() -> None:
    text = f"A run of Llama 3 8B:\n\n- Hardware: 16 H100 GPUs\n- Baseline: TP=8\n- Sequence length: 4096\n{TABLE}"
    assert about(text) == {
        "model": "llama3 (1)",
        "size": "8b (1)",
        "gpus": "16 (3)",
        "accelerator": "H100 (3)",
        "sequence_length": "4096 (5)",
    }
    code = f"A run:\n\n```text\nHardware: 16\u00d7H100\nBatch: MBS1 / GBS32\n```\n{TABLE}"
    assert about(code) == {
        "gpus": "16 (4)",
        "accelerator": "H100 (4)",
        "micro_batch_size": "1 (5)",
        "global_batch_size": "32 (5)",
    }
    assert about(f"```\nsrun --nodes=16 train.py TP=4\n```\n{TABLE}") == {}


def test_text_between_two_tables_is_about_the_one_below_it() -> None:
    text = f"On 8 GPUs:\n{TABLE}\nOn 64 GPUs:\n{TABLE}"
    assert (about(text, 0), about(text, 1)) == ({"gpus": "8 (1)"}, {"gpus": "64 (8)"})
    above = f"On 8 GPUs:\n{TABLE}\nThe runs above used TP=4.\n{TABLE}"
    assert (about(above, 0), about(above, 1)) == ({"gpus": "8 (1)", "tp": "4 (8)"}, {})


def test_text_below_all_tables_of_a_section_is_about_the_one_above_it() -> None:
    text = f"{TABLE}\nAll runs used 8 GPUs.\n{TABLE}\nAll runs used 64 GPUs.\n"
    assert (about(text, 0), about(text, 1)) == ({"gpus": "8 (7)"}, {"gpus": "64 (14)"})


def test_text_between_tables_of_which_nothing_tells_is_about_neither() -> None:
    text = f"Runs on 8 GPUs.\n{TABLE}\nRuns on 64 GPUs.\n{TABLE}\nAll runs used 128 GPUs.\n"
    assert about(text, 0) == {"gpus": "8 (1)"}
    assert "64" not in about(text, 1)["gpus"]


def test_a_sentence_about_another_run_than_the_rows() -> None:
    text = f"Llama 3 70B ran on 64 GPUs with TP=4. Llama 3 8B ran on 8 GPUs with TP=1.\n{TABLE}"
    assert about(text, row={"model": "llama3", "size": "8b"}) == {"gpus": "8 (1)", "tp": "1 (1)"}
    assert about(text, row={"model": "llama3", "size": "405b"}) == {}
    assert about(text)["gpus"] == "line 1 says 64 and 8"


def test_sections_beside_a_table_that_say_what_ran() -> None:
    text = (
        f"# Runs\n\n### Hardware\n\nEach host has\n\n- 8 H200 GPUs.\n\n### Models\n\nLlama 3 8B\n\n### Results\n{TABLE}"
    )
    assert about(text) == {
        "gpus_per_node": "8 (7)",
        "accelerator": "H200 (7)",
        "model": "llama3 (11)",
        "size": "8b (11)",
    }
    # The accelerator is the only one that the document names anywhere.
    assert about(text.replace("### Hardware", "### Elsewhere")) == {
        "model": "llama3 (11)",
        "size": "8b (11)",
        "accelerator": "H200 (7)",
    }


def test_what_a_document_states_once_is_of_all_its_runs() -> None:
    text = f"# Runs of Llama 3 8B\n{TABLE}\n## Elsewhere\n\n- Sequence length: 4096\n\nThe nodes are DGX H100.\n"
    named = {"model": "llama3 (1)", "size": "8b (1)"}
    assert about(text) == {**named, "accelerator": "H100 (12)", "sequence_length": "4096 (10)"}
    assert about(f"{text}\n- Sequence length: 8192\n\nThen DGX A100.\n") == named
    other = text.replace("- Sequence length", "- Mixtral 8x7B, sequence length").replace(
        "are DGX", "of Mixtral 8x7B are"
    )
    assert about(other) == named
    assert about(f"# Llama 3 70B\n{TABLE}\n```\nbash train_llama3_8b_h100.sh\n```\n")["accelerator"] == "H100 (9)"


def test_facts_say_more_than_the_text_below_a_table(read: Read, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("documents: [{document: tiny.md, accelerator: H200, dtype: fp8}]\n")
    text = f"# NeMo runs of Llama 3 8B\n\nOn 8 GPUs:\n{TABLE}\nAll runs used 8 H100 GPUs in BF16.\n"
    (row, _) = read(text, facts=read_facts(facts)["tiny.md"]).rows
    assert (row.values["accelerator"].text, row.values["dtype"].text) == ("H200", "fp8")


def test_text_of_more_statements_than_one_table_has_states_nothing() -> None:
    setup = "### Setup\n\nTP=2.\n\n"
    assert about(f"## Runs\n\n{setup * 20}### Results\n{TABLE}") == {"tp": "2 (5)"}
    assert about(f"## Runs\n\n{setup * 21}### Results\n{TABLE}") == {}
    assert about("TP=2. " * 100 + f"\n{TABLE}") == {"tp": "2 (1)"}
    assert about("TP=2. " * 101 + f"\n{TABLE}") == {}
    assert about("TP=2.\n\n" * 101 + f"## Results\n{TABLE}") == {}


def test_much_text_around_a_table_of_many_rows(read: Read) -> None:
    setups = "## Setup\n\nTP=2.\n\n" * 15_000
    with it_ends():
        read(f"# NeMo\n\n{setups}## Results on 8 GPUs\n{TABLE}" + "| a | 1 |\n" * 1000)


def test_what_is_held_against_each_row_is_limited(read: Read) -> None:
    settings = "".join(f"|GPUs|TP|\n|-|-|\n|{8 * n}|2|\n\n" for n in range(1, 202))
    runs = "|GPUs|Step time (s)|\n|-|-|\n|1600|2|\n|1608|2|\n"
    rows = read(f"# NeMo runs of Llama 3 8B\n\n{settings}## Results\n\n{runs}").rows
    assert [row.values["gpus"].text for row in rows if "tp" in row.values] == ["1600"]
    lengths = parse_document("doc.md", "- Sequence length: 4096\n" * 1000)
    assert len(stated_anywhere(lengths)["sequence_length"]) == 20
    flops = parse_document("doc.md", "The model flops for Llama 3 8b is 1.9E+14.\n" * 1000)
    assert len(read_prose(flops).model_flops) == 100


def test_a_table_without_gpu_counts_is_one_of_runs_where_the_text_counts_them(read: Read) -> None:
    text = f"# NeMo runs\n\nLlama 3 8B in BF16 on 16 H100 GPUs, sequence length 4096, `GBS=32`:\n{TABLE}"
    found = read(text)
    assert found.left_out == ()
    assert [row.values["step_time_s"].text for row in found.rows] == ["2.5", "2.0"]
    (yaml,) = found.yaml_text.values()
    for line in (
        "model: llama3  # line 3",
        "dtype: bf16  # line 3",
        "accelerator: H100  # line 3",
        "gpus: 16  # line 3",
        "sequence_length: 4096  # line 3",
        "global_batch_size: 32  # line 3",
    ):
        assert line in yaml.splitlines()


def test_a_table_whose_gpu_count_is_not_told_names_what_differs(read: Read) -> None:
    found = read(f"# NeMo runs\n\nOn 8 GPUs. Also on 16 GPUs.\n{TABLE}")
    assert found.rows == ()
    assert [one.reason for one in found.left_out] == ["has figures, and no GPU counts: line 3 says 16 and 8"]


def test_a_table_without_a_training_figure_is_none_of_runs(read: Read) -> None:
    found = read(f"# NeMo runs\n\nOn 8 GPUs:\n{TABLE.replace('Step time (s)', 'Memory (GB)')}")
    assert [one.reason for one in found.left_out] == ["has no GPU counts"]


def rows_of(read: Read, *names: str, within: str = "On 8 H100 GPUs in BF16:") -> list[dict[str, str]]:
    table = "\n".join(["| Technique | Step time (s) |", "|---|---|", *(f"| {name} | 2.5 |" for name in names)])
    return [
        {key: row.values[key].text for key in ("gpus", "dtype", "tp") if key in row.values}
        for row in read(f"# NeMo runs of Llama 3 8B\n\n{within}\n\n{table}\n").rows
    ]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("H100", ["8"]), ("DGX H100 (4xH100-80GB)", [None]), ("2x EPYC", [None]), ("a big one", [None])],
)
def test_hardware_that_is_not_understood_may_say_how_many_itself(
    read: Read, cell: str, expected: list[str | None]
) -> None:
    text = f"# Llama 3 8B\n\nOn 8 GPUs.\n\n| Hardware | Tokens/s |\n|---|---|\n| {cell} | 4096 |\n| H100 | 4096 |\n"
    gpus = [row.values["gpus"].text if "gpus" in row.values else None for row in read(text).rows]
    assert gpus == [*expected, "8"]


def test_the_name_of_a_row_is_nearer_than_the_text_around_its_table(read: Read) -> None:
    assert rows_of(read, "FSDP", "FSDP + Float8", "TP=2 PP=1") == [
        {"gpus": "8", "dtype": "bf16"},
        {"gpus": "8", "dtype": "fp8"},
        {"gpus": "8", "dtype": "bf16", "tp": "2"},
    ]


def test_what_a_row_adds_to_may_hold_for_it_too(read: Read) -> None:
    rows = rows_of(read, "1D", "+ compile", "+ Float8", "+ async TP")
    assert [row.get("dtype") for row in rows] == ["bf16", "bf16", "fp8", None]


def test_a_name_of_two_dtypes_says_neither(read: Read) -> None:
    assert [row.get("dtype") for row in rows_of(read, "NVFP4 (bf16 tail)", "BF16")] == [None, "bf16"]


def test_where_one_name_counts_the_others_have_no_count_from_the_text(read: Read) -> None:
    assert [row.get("gpus") for row in rows_of(read, "16 GPUs", "whole cluster")] == ["16", None]


def test_captions_with_numbers_below_their_tables() -> None:
    text = f"BF16.\n{TABLE}\n*Table 1: Llama 2 7B on 8 H100 GPUs.*\n{TABLE}\n*Table 2: Llama 2 7B on 16 A100 GPUs.*\n"
    assert [about(text, n)["gpus"] for n in (0, 1)] == ["8 (8)", "16 (15)"]
    assert [about(text, n)["accelerator"] for n in (0, 1)] == ["H100 (8)", "A100 (15)"]


def test_a_table_of_names_and_values_states_what_a_text_would() -> None:
    settings = "| Setting | Value |\n|---|---|\n| GPUs | 64 |\n| TP | 4 |\n| Precision | FP8 |\n| Data | C4 |\n"
    text = f"## Llama 3 70B\n\n{settings}\n{TABLE}\n## Llama 3 8B\n{TABLE}"
    assert about(text, 1) == {
        "gpus": "64 (5)",
        "tp": "4 (6)",
        "dtype": "fp8 (7)",
        "model": "llama3 (1)",
        "size": "70b (1)",
    }
    assert about(text, 2) == {"model": "llama3 (16)", "size": "8b (16)"}


def test_a_numbered_heading_names_the_model_behind_its_number(read: Read) -> None:
    found = read(f"# NeMo\n\n#### Table 2: 2D Llama 3.1 70B on 256 H100 GPUs\n\nTP 8, global batch size 512.\n{TABLE}")
    values = found.rows[0].values
    assert [values[key].text for key in ("gpus", "tp", "global_batch_size", "size")] == ["256", "8", "512", "70b"]
    assert list(found.yaml_text) == ["nemo/llama3.1_70b.yaml"]


def test_the_text_beside_a_table_is_nearer_than_its_heading(read: Read) -> None:
    text = f"# NeMo\n\n## Llama 3.1 70B on 256 H100 GPUs\n{TABLE}\n**Table 3** Llama 3.1 405B on 512 GPUs.\n{TABLE}"
    rows = [{key: row.values[key].text for key in ("size", "gpus", "line")} for row in read(text).rows]
    assert rows[0] == {"size": "70b", "gpus": "256", "line": "7"}
    assert rows[2] == {"size": "405b", "gpus": "512", "line": "14"}


def test_text_directly_before_the_first_table_is_none_of_another_one_that_has_its_own() -> None:
    text = f"Llama 3 8B on 8 GPUs. TP=2.\n{TABLE}\nLlama 3 70B on 64 GPUs.\n{TABLE}"
    assert about(text, 1) == {"model": "llama3 (8)", "size": "70b (8)", "gpus": "64 (8)"}


def test_a_long_row_with_nothing_but_figures_is_yaml(read: Read, tmp_path: Path) -> None:
    remark = "a remark that makes the row too long for one line, " * 3
    table = f"| Remark on it | Step time (s) |\n|---|---|\n| {remark} | 2.5 |\n| {remark} more | 2.0 |\n"
    found = read(f"# NeMo\n\nLlama 3 8B in BF16 on 16 H100 GPUs, sequence length 4096:\n\n{table}")
    (text,) = found.yaml_text.values()
    path = tmp_path / "rows.yaml"
    path.write_text(text)
    assert [row.documented.step_time_s for row in load_table(path)] == [2.5, 2.0]
