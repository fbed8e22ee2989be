"""What must not be taken for something else: each is a shape of README that once was."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing import Imported
from tests.unit.documents.importing.conftest import README, Read

HEAD = "# Llama 3.1 with NeMo\n\nSequence length is 4096.\n\n"


def rows(found: Imported) -> list[dict[str, str]]:
    """What the rows say, without their place and what is the same for all."""
    return [
        {key: stated.text for key, stated in row.values.items() if key not in {"line", "document"}}
        for row in found.rows
    ]


def left_out(found: Imported) -> list[str]:
    return [f"{one.line} {one.what} {one.title!r} {one.reason}" for one in found.left_out]


def said(found: Imported) -> list[str]:
    return [f"{remark.line} {remark.key}: {remark.message}" for _, remark in found.remarks]


def runs(header: str, *cells: str, heading: str = "Llama 3.1 8b BF16 on H100") -> str:
    """A document with one table of runs."""
    dashes = "|".join("---" for _ in header.split("|"))
    return (
        HEAD + "\n".join([f"## {heading}", "", f"| {header} |", f"|{dashes}|", *(f"| {row} |" for row in cells)]) + "\n"
    )


@pytest.mark.parametrize("column", ["TTFT (ms)", "Concurrency", "ISL/OSL"])
def test_a_table_about_inference(read: Read, column: str) -> None:
    found = read(runs(f"GPUs | {column} | Throughput (tokens/s)", "8 | 128 | 9000"))
    assert (rows(found), left_out(found)) == ([], ["7 table 'GPUs' is about inference"])


@pytest.mark.parametrize("header", ["64-128 GPUs", "64/128 GPUs", "64 - 128 GPUs"])
def test_a_range_of_gpu_counts(read: Read, header: str) -> None:
    found = read(README.replace("Throughput on 128 H100 GPUs (GBS=256)", header))
    assert [row["gpus"] for row in rows(found)] == ["64"]
    assert left_out(found) == [f"9 column {header!r} has no GPU count that can be read"]


def test_rows_of_a_recipes_table_that_are_no_figure(read: Read) -> None:
    found = read(README.replace("| Model flops utilization |", "| Peak memory (GB) |"))
    assert [("mfu" in row, row["step_time_s"]) for row in rows(found)] == [(False, "2.048"), (False, "2.05")]
    assert left_out(found) == ["13 row 'Peak memory (GB)' is no figure and no setting that is known"]


def test_nodes_times_gpus(read: Read) -> None:
    found = read(README.replace("Throughput on 64x H100 GPUs (GBS=128)", "8 nodes x 8 GPUs (GBS=128)"))
    assert [row["gpus"] for row in rows(found)] == ["64", "128"]


@pytest.mark.parametrize(
    ("cell", "step_time_s"), [("2.5 s", "2.5"), ("400 ms", "0.400"), ("2.5 it/s", None), ("2.5", None)]
)
def test_a_speed_is_a_step_time_where_its_unit_says_so(read: Read, cell: str, step_time_s: str | None) -> None:
    found = read(runs("GPUs | GBS | Speed", f"8 | 64 | {cell}"))
    assert [row.get("step_time_s") for row in rows(found)] == ([step_time_s] if step_time_s else [])


@pytest.mark.parametrize("column", ["tokens/s/node", "Peak throughput", "Iterations per hour"])
def test_figures_that_nobody_knows_make_no_settings(read: Read, column: str) -> None:
    """They would be joined to other tables' runs as their configuration."""
    found = read(runs(f"GPUs | TP | {column}", "64 | 4 | 9000") + README.split("\n\n", 1)[1])
    assert [row["tp"] for row in rows(found)] == ["1", "1"]
    assert left_out(found) == [
        f"7 table 'GPUs' has no figure that is known: what '{column}' is, and in which unit, is not said"
    ]


SETTINGS = """
## Settings of {model}

| GPUs | PP | Micro-batch |
|---|---|---|
| 64 | 2 | 1 |
| 128 | 4 | 1 |
"""


def test_settings_are_joined_and_said_to_be(read: Read) -> None:
    found = read(README.replace("(TP=1, MBS=2)", "(TP=1)") + SETTINGS.format(model="Tiny 7b"))
    assert [(row["pp"], row["micro_batch_size"]) for row in rows(found)] == [("2", "1"), ("4", "1")]
    assert [(one.line, one.title, one.rows) for one in found.joined] == [(18, "Settings of Tiny 7b", 2)]


@pytest.mark.parametrize("model", ["Tiny 70b", "Llama 3 7b", "Tiny 7b on B200"])
def test_settings_of_something_else_are_joined_to_nothing(read: Read, model: str) -> None:
    text = README.replace("Tiny", "Grok") if model.startswith("Llama") else README
    found = read(text + SETTINGS.format(model=model))
    assert ["pp" in row for row in rows(found)] == [False, False]
    assert found.joined == ()
    assert left_out(found) == [f"18 table 'Settings of {model}' has settings of no row that was read"]


def test_a_row_of_another_model_has_not_the_titles_size(read: Read) -> None:
    found = read(runs("Model | GPUs | GBS | Step time (s)", "Llama 3.1 | 8 | 64 | 2.5", "Mixtral | 8 | 64 | 2.6"))
    assert [(row["model"], row.get("size")) for row in rows(found)] == [("llama3.1", "8b"), ("mixtral", None)]
    assert [row.id for row in found.rows] == ["llama3.1_8b_bf16[H100x8]", "mixtral_bf16[H100x8]"]
    assert found.blanks == ()


def test_an_empty_cell_of_a_model_is_not_the_titles(read: Read) -> None:
    """It may be merged with the cell above it, or be none."""
    found = read(runs("Model | GPUs | GBS | Step time (s)", "Llama 3.1 8b | 8 | 64 | 2.5", " | 16 | 64 | 1.3"))
    assert [(row.get("model"), row.get("size")) for row in rows(found)] == [("llama3.1", "8b"), (None, None)]


def test_more_than_the_accelerator_can_do(read: Read) -> None:
    found = read(runs("GPUs | GBS | Step time (s) | TFLOP/s/GPU", "8 | 64 | 2.5 | 41000"))
    assert "tflops_per_gpu" not in rows(found)[0]
    assert said(found) == ["9 tflops_per_gpu: left out: 41000 TFLOP/s is more than one H100 can do in bf16"]
    assert "      # tflops_per_gpu: left out: 41000 TFLOP/s is more than one H100 can do in bf16\n" in next(
        iter(found.yaml_text.values())
    )


def test_more_than_the_accelerator_can_do_in_the_rows_dtype(read: Read) -> None:
    found = read(
        runs(
            "GPUs | GBS | Dtype | Step time (s) | TFLOP/s/GPU",
            "8 | 64 | BF16 | 2.5 | 1365",
            "8 | 64 | FP8 | 2.1 | 1365",
        )
    )
    assert [row.get("tflops_per_gpu") for row in rows(found)] == [None, "1365"]


def test_columns_whose_headers_were_swapped(read: Read) -> None:
    """Their product is what it would be, so that no identity refutes them."""
    found = read(runs("GPUs | GBS | Tokens/s | Step time (s)", "8 | 128 | 4.1 | 127875"))
    assert not {"step_time_s", "tokens_per_s"} & rows(found)[0].keys() - {"step_time_s"}
    assert [blank[2:] for blank in found.blanks] == [("step_time_s", "127875 s is more than an hour for one step")]
    assert "tokens_per_s: left out: 4.1 tokens/s is less than one on each of 8 GPUs" in next(
        iter(found.yaml_text.values())
    )


def test_figures_that_contradict_each_other_are_one_blank(read: Read) -> None:
    """Which of them is wrong a reader decides; the settings stay as documented until then."""
    found = read(runs("GPUs | GBS | Step time (s) | Tokens/s", "8 | 128 | 4.1 | 96012"))
    reason = "4.1 is in doubt: 4096 * 128 / 4.1 = 127875, and tokens_per_s is 96012"
    assert [blank[2:] for blank in found.blanks] == [("step_time_s", reason)]
    assert {key: rows(found)[0][key] for key in ("global_batch_size", "sequence_length")} == {
        "global_batch_size": "128",
        "sequence_length": "4096",
    }


def test_an_fsdp_of_one_says_that_it_is_used_and_not_how(read: Read) -> None:
    found = read(runs("GPUs | GBS | FSDP | Step time (s)", "8 | 64 | 1 | 2.5", "8 | 64 | 8 | 2.4"))
    assert [row.get("fsdp") for row in rows(found)] == [None, "8"]


def test_a_precision_beside_the_dtype_is_kept(read: Read) -> None:
    found = read(
        runs("Precision | GPUs | GBS | Step time (s)", "FP8-CS | 8 | 64 | 2.5", heading="Llama 3.1 8b on H100")
    )
    assert [(row["dtype"], row["attributes.precision"]) for row in rows(found)] == [("fp8", "FP8-CS")]


def test_columns_of_the_same_name(read: Read) -> None:
    found = read(runs("GPUs | GBS | Step time (s) | Peak | Peak", "8 | 64 | 2.5 | 71 | 72"))
    assert (rows(found)[0]["attributes.peak"], rows(found)[0]["attributes.peak_2"]) == ("71", "72")


def test_the_nearest_heading_says_the_accelerator(read: Read) -> None:
    text = runs("GPUs | GBS | Step time (s)", "8 | 64 | 2.5", heading="Llama 3.1 8b BF16 on B200")
    found = read(text.replace("with NeMo", "with NeMo on H100"))
    assert [row["accelerator"] for row in rows(found)] == ["B200"]


def test_nodes_beside_gpus_say_how_many_a_node_has(read: Read) -> None:
    found = read(runs("Nodes | GPUs | GBS | Step time (s)", "16 | 64 | 64 | 2.5"))
    assert [row["gpus_per_node"] for row in rows(found)] == ["4"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("The time is not the average of the last 10 steps.", "statistic"),
        ("We don't take the average over the last 10 steps.", "statistic"),
        ("NCCL warm-up runs for 5 steps.", "recipe.steps"),
        ("Loss differs by +/- 5% between runs.", "tolerance"),
    ],
)
def test_prose_that_does_not_say_it(read: Read, text: str, key: str) -> None:
    document = runs("GPUs | GBS | Step time (s)", "8 | 64 | 2.5").replace("Sequence length is 4096.", text)
    found = read(document)
    assert key not in rows(found)[0]
    assert f"\n  {key.removeprefix('recipe.')}:" not in next(iter(found.yaml_text.values()))


EXAMPLE = """
Throughput in tokens/s is (sequence length) * (global batch size) / (step time).
E.g. 2048 * 128 / 2.048 = 128000
"""


def test_the_sequence_length_of_an_example_is_not_of_rows_that_contradict_it(read: Read) -> None:
    # A step time of two digits leaves more than one.
    text = README.replace("2.048", "2.0").replace("2.05 ", "2.1 ").replace(" Sequence length is 4096.", "")
    found = read(text + EXAMPLE)
    assert ["sequence_length" in row for row in rows(found)] == [False, False]
    assert {reason for _, _, key, reason in found.blanks if key == "sequence_length"} == {
        "the example has 2048 (line 17), and the row's throughput gives 4000",
        "the example has 2048 (line 17), and the row's throughput gives 4196",
    }


def test_the_sequence_length_that_the_rows_own_figures_leave(read: Read) -> None:
    found = read(README.replace(" Sequence length is 4096.", "") + EXAMPLE)
    assert [row["sequence_length"] for row in rows(found)] == ["4096", "4096"]
    assert "sequence_length: the example has 2048 (line 17): it is 4096, as 256000 * 2.048 / 128 = 4096" in "".join(
        found.yaml_text.values()
    )
    unsaid = read(README.replace(" Sequence length is 4096.", ""))
    assert [row["sequence_length"] for row in rows(unsaid)] == ["4096", "4096"]
    assert "12 sequence_length: the document does not say: it is 4096, as 256000 * 2.048 / 128 = 4096" in said(unsaid)


def test_the_sequence_length_of_an_example_is_that_of_the_rows_that_agree_with_it(read: Read) -> None:
    found = read(README.replace(" Sequence length is 4096.", "") + EXAMPLE.replace("2048 *", "4096 *"))
    assert [row["sequence_length"] for row in rows(found)] == ["4096", "4096"]


def test_a_fence_in_a_list_and_a_quote_hold_no_tables_of_their_own(read: Read) -> None:
    table = "| GPUs | GBS | Step time (s) |\n|---|---|---|\n| 8 | 64 | 2.5 |\n"
    quoted = "".join(f"> {line}\n" for line in table.splitlines())
    assert (
        rows(read(HEAD + "- as logged:\n\n  ```\n" + "".join(f"  {line}\n" for line in table.splitlines()) + "  ```\n"))
        == []
    )
    assert [row["step_time_s"] for row in rows(read(HEAD + "## Llama 3.1 8b BF16 on H100\n\n" + quoted))] == ["2.5"]


def test_settings_of_a_range_of_gpu_counts(read: Read) -> None:
    found = read(README + SETTINGS.format(model="Tiny 7b").replace("| 128 | 4 |", "| 128-512 | 4 |"))
    assert [row.get("pp") for row in rows(found)] == ["2", "4"]
    found = read(README + SETTINGS.format(model="Tiny 7b").replace("| 128 | 4 |", "| 256-512 | 4 |"))
    assert [row.get("pp") for row in rows(found)] == ["2", None]
    assert [(one.line, one.rows) for one in found.joined] == [(18, 1)]
    assert left_out(found) == []


def test_settings_that_follow_from_the_gpu_count(read: Read) -> None:
    text = README.replace(" (GBS=128)", "").replace(" (GBS=256)", "").replace(", MBS=2", "")
    settings = (
        "\n\n## Settings of Tiny 7b\n\n| GPUs | PP | DP | GBS |\n|---|---|---|---|\n| 8-512 | 4 | GPUs/{n} | GPUs*2 |\n"
    )
    found = [
        (row.get("pp"), row.get("dp"), row.get("global_batch_size")) for row in rows(read(text + settings.format(n=4)))
    ]
    assert found == [("4", "16", "128"), ("4", "32", "256")]
    found = [
        (row.get("pp"), row.get("dp"), row.get("global_batch_size")) for row in rows(read(text + settings.format(n=3)))
    ]
    assert found == [("4", None, "128"), ("4", None, "256")]


def test_a_range_is_no_runs_own_count(read: Read) -> None:
    found = read(runs("GPUs | GBS | Step time (s)", "8-64 | 128 | 2.5"))
    assert [row.get("gpus") for row in rows(found)] in ([], [None])


def test_deepspeed_in_some_rows_of_a_table_that_gives_two_files(read: Read) -> None:
    cells = ("| 8 | 64 | 2.5", "Y | 16 | 64 | 1.3", "N | 32 | 64 | 0.7")
    found = read(runs("DS | GPUs | GBS | Step time (s)", *cells, heading="DeepSpeed Llama 3.1 8b BF16 on H100"))
    titles = {file.path: [table.title for table in file.tables] for file in found.files}
    assert titles == {
        "deepspeed/llama3.1_8b.yaml": ["DeepSpeed Llama 3.1 8b BF16 on H100"],
        "megatron/llama3.1_8b.yaml": ["DeepSpeed Llama 3.1 8b BF16 on H100, DS = N"],
    }


def test_a_row_of_which_no_cell_can_be_read(read: Read) -> None:
    found = read(runs("GPUs | Step time (s)", "many | few").replace("Sequence length is 4096.\n", ""))
    told = ["8 gpus: left blank: the cell reads 'many'", "8 step_time_s: left blank: the cell reads 'few'"]
    assert (rows(found), said(found)) == ([], told)


def test_a_row_of_too_few_cells_below_a_heading_that_tells_the_memory(read: Read) -> None:
    table = runs("Model | GPUs | Step time (s)", "Llama 8b | 8", "Llama 8b | 8 | 3", heading="Llama 3.1, 16GB nodes")
    found = read(table)
    assert [row["step_time_s"] for row in rows(found)] == ["3"]
    assert said(found) == [
        "9 row: left out: the row has 2 cells and the header 3: its cells cannot be told to their columns"
    ]


def test_a_short_row_of_settings(read: Read) -> None:
    settings = (
        SETTINGS.format(model="Tiny 7b").replace("| GPUs | PP |", "| PP | GPUs |").replace("| 64 | 2 | 1 |", "| 64 |")
    )
    reasons = [one.reason for one in read(README + settings).left_out]
    assert "the row has 1 cell and the header 3: its cells cannot be told to their columns" in reasons
