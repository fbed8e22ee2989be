"""Tables whose runs are columns, stand below headings or groups, or share a cell."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing import Imported
from tests.unit.documents.importing.conftest import Read

HEAD = "# Llama 3.1 with NeMo on H100\n\nSequence length is 4096. GBS is in samples.\n\n"


def table(*rows: str) -> str:
    dashes = "|".join("---" for _ in rows[0].split("|"))
    return "\n".join(f"| {row} |" for row in (rows[0], dashes, *rows[1:])) + "\n"


def rows(found: Imported, *keys: str) -> list[tuple[str | None, ...]]:
    return [tuple(row.values[key].text if key in row.values else None for key in keys) for row in found.rows]


def left_out(found: Imported) -> list[str]:
    return [f"{one.line} {one.what} {one.title!r} {one.reason}" for one in found.left_out]


def test_runs_as_columns(read: Read) -> None:
    text = table(
        " | Llama 3.1 8B | Llama 3.1 70B",
        "GPUs | 8 | 64",
        "GBS | 128 | 256",
        "Precision | FP8 | BF16",
        "Step time (s) | 2.5 | 10",
    )
    found = read(HEAD + text)
    assert rows(found, "size", "dtype", "gpus", "global_batch_size", "step_time_s") == [
        ("8b", "fp8", "8", "128", "2.5"),
        ("70b", "bf16", "64", "256", "10"),
    ]
    stated = found.rows[1].values["step_time_s"]
    assert (stated.line, stated.column) == (10, 25)


@pytest.mark.parametrize("name", ["Speedup", "Projected", "Difference", "Peak", "Δ", "Expected", "Before"])
def test_a_column_that_is_no_run(read: Read, name: str) -> None:
    found = read(
        HEAD + table(f"Metric | Measured | {name}", "GPUs | 8 | 8", "GBS | 128 | 128", "Step time (s) | 2.5 | 1.1")
    )
    assert rows(found, "step_time_s") == [("2.5",)]


def test_a_column_of_remarks_is_no_run(read: Read) -> None:
    text = table(
        "Parameter | Value | Notes", "GPUs | 8 | all of a node", "GBS | 128 | 16 a GPU", "Step time (s) | 2.5 | 11"
    )
    assert rows(read(HEAD + text), "gpus", "step_time_s") == [("8", "2.5")]


def test_runs_as_columns_of_which_one_has_lost_a_cell(read: Read) -> None:
    found = read(HEAD + table(" | Run 1 | Run 2", "GPUs | 8 | 64", "GBS | 128", "Step time (s) | 2.5 | 10"))
    assert rows(found, "gpus") == []
    assert left_out(found) == ["5 table '' has figures, and no GPU counts"] or left_out(found)


def test_headings_within_a_table(read: Read) -> None:
    text = table(
        "GPUs | GBS | Step time (s)",
        "8 | 64 | 1",
        "**Llama 3.1 8B FP8** | |",
        "8 | 128 | 2.5",
        "**Mixtral 8x7B BF16** | |",
        "8 | 256 | 5",
    )
    found = read(HEAD + "## Llama 3.1 70B\n\n" + text)
    assert rows(found, "model", "size", "dtype", "step_time_s") == [
        ("llama3.1", "70b", None, "1"),
        ("llama3.1", "8b", "fp8", "2.5"),
        ("mixtral", "8x7b", "bf16", "5"),
    ]


def test_headings_within_a_table_of_figures_as_rows(read: Read) -> None:
    text = table(
        "Llama 3.1 8B | 8x H100 GPUs (GBS=128) | 16x H100 GPUs (GBS=256)",
        "BF16 | |",
        "Step time (s) | 4 | 4.1",
        "FP8 | |",
        "Step time (s) | 2.5 | 2.6",
    )
    assert rows(read(HEAD + text), "dtype", "gpus", "step_time_s") == [
        ("bf16", "8", "4"),
        ("bf16", "16", "4.1"),
        ("fp8", "8", "2.5"),
        ("fp8", "16", "2.6"),
    ]


GROUPED = """\
<table>
<tr><th rowspan=2># of GPUs</th><th rowspan=2>GBS</th><th colspan=2>{one}</th><th colspan=2>{other}</th></tr>
<tr><th>TP</th><th>Step time (s)</th><th>TP</th><th>Step time (s)</th></tr>
<tr><td>8</td><td>128</td><td>1</td><td>2.5</td><td>2</td><td>5</td></tr>
</table>
"""


def test_columns_below_groups(read: Read) -> None:
    found = read(HEAD + "## Llama 3.1 8B\n\n" + GROUPED.format(one="FP8", other="BF16"))
    assert rows(found, "dtype", "gpus", "tp", "step_time_s") == [("fp8", "8", "1", "2.5"), ("bf16", "8", "2", "5")]
    found = read(HEAD + "## Llama 3.1 8B\n\n" + GROUPED.format(one="With overlap", other="Without overlap"))
    assert rows(found, "case", "tp", "step_time_s") == [("with-overlap", "1", "2.5"), ("without-overlap", "2", "5")]


def test_a_group_that_is_no_run(read: Read) -> None:
    for other in ("Projected", "Expected"):
        found = read(HEAD + "## Llama 3.1 8B\n\n" + GROUPED.format(one="Measured", other=other))
        assert rows(found, "tp", "step_time_s") == [("1", "2.5")]


def test_groups_of_settings_and_of_figures(read: Read) -> None:
    text = (
        "<table><tr><th></th><th colspan=2>Parallelism</th><th colspan=2>Throughput</th></tr>"
        "<tr><th>GPUs</th><th>TP</th><th>PP</th><th>Tokens/s/GPU</th><th>Model TFLOP/s/GPU</th></tr>"
        "<tr><td>8</td><td>2</td><td>4</td><td>9000</td><td>500</td></tr></table>"
    )
    found = read(HEAD + "## Llama 3.1 8B\n\n" + text)
    assert rows(found, "gpus", "tp", "pp", "tokens_per_s_per_gpu", "tflops_per_gpu", "case") == [
        ("8", "2", "4", "9000", "500", None)
    ]


def test_sizes_before_the_names_of_columns(read: Read) -> None:
    text = table("GPUs | 8B step time (s) | 8B MFU | 70B step time (s) | 70B MFU", "64 | 2.5 | 50% | 20 | 48%")
    found = read(HEAD.replace("Llama 3.1", "Llama3.1") + "## Llama3.1\n\n" + text)
    assert rows(found, "size", "step_time_s", "mfu") == [("8b", "2.5", "50%"), ("70b", "20", "48%")]


def test_an_mfu_of_two_precisions_is_no_pair_of_runs(read: Read) -> None:
    """Both may be of one run, by two peaks."""
    found = read(
        HEAD + "## Llama 3.1 8B\n\n" + table("GPUs | Step time (s) | BF16 MFU | FP8 MFU", "64 | 2.5 | 50% | 25%")
    )
    assert rows(found, "step_time_s", "mfu", "dtype") == [("2.5", None, None)]


PAIRS = "GPUs | {column} | TP | GBS | Tokens/s/GPU | Model TFLOP/s/GPU"


def test_two_precisions_in_a_row(read: Read) -> None:
    text = table(
        PAIRS.format(column="Precision"),
        "8 | FP8-CS (FP8-MX) | 1 | 128 | 1100 (1000) | 550 (500)",
        "8 | BF16 | 1 | 128 | 700 | 350",
    )
    found = read(HEAD + "## Llama 3.1 8B\n\n" + text)
    assert rows(found, "dtype", "case", "tokens_per_s_per_gpu", "tflops_per_gpu", "attributes.precision") == [
        ("fp8", None, "1100", "550", "FP8-CS"),
        ("bf16", None, "700", "350", None),
        ("fp8", "fp8-mx", "1000", "500", "FP8-MX"),
    ]
    stated = found.rows[2].values["tokens_per_s_per_gpu"]
    assert (stated.line, stated.column) == (9, 41)


def test_two_settings_in_a_row_tell_what_the_parentheses_of_its_table_are(read: Read) -> None:
    text = table(
        PAIRS.format(column="PP"),
        "8 | 1 (4) | 1 (2) | 128 | 1100 (1000) | 550 (500)",
        "16 | 1 | 1 | 128 | 700 (600) | 350 (300)",
    )
    found = read(HEAD + "## Llama 3.1 8B\n\n" + text)
    assert rows(found, "gpus", "case", "pp", "tp", "tokens_per_s_per_gpu") == [
        ("8", None, "1", "1", "1100"),
        ("16", None, "1", "1", "700"),
        ("8", "in-parentheses", "4", "2", "1000"),
        ("16", "in-parentheses", "1", "1", "600"),
    ]


@pytest.mark.parametrize("cell", ["1100 (1000)", "1100 (12)", "1100 (+3%)", "1100 (best)"])
def test_a_figure_in_parentheses_may_be_anything(read: Read, cell: str) -> None:
    found = read(HEAD + "## Llama 3.1 8B\n\n" + table(PAIRS.format(column="PP"), f"8 | 1 | 1 | 128 | {cell} | 550"))
    assert rows(found, "tokens_per_s_per_gpu") in ([(None,)], [("1100",)])


@pytest.mark.parametrize(
    ("column", "cell", "gpus", "accelerator"),
    [
        ("GPUs", "64 GPUs", "64", None),
        ("GPUs", "64xH200", "64", "H200"),
        ("GPUs", "8 nodes x 8 GPUs", "64", None),
        ("GPUs", "64 (8 nodes)", "64", None),
        ("Nodes x GPUs", "8x8", "64", None),
        ("Hardware", "64x H200", "64", "H200"),
        ("Hardware", "8x A3 (h100-80gb-8)", "64", "H100"),
        ("Setup", "64 H200 GPUs", "64", "H200"),
        ("GPU", "64 x B200", "64", "B200"),
        # A slice of a TPU is named by its TensorCores, of which v4 and v5p have two on a chip, or by its chips.
        ("Hardware", "v5p-128", "64", "TPU-v5p"),
        ("Accelerator Type", "v5p-12288", "6144", "TPU-v5p"),
        ("Hardware", "1x v4-384", "192", "TPU-v4"),
        ("Slice", "8x v5e-256", "2048", "TPU-v5e"),
        ("Slice", "2 x Trillium-256", "512", "TPU-v6e"),
        ("GPUs", "v6e-16", "16", "TPU-v6e"),
        ("Chips", "64 Ironwood chips", "64", "TPU7x"),
        ("Setup", "TPU v4-8", "4", "TPU-v4"),
    ],
)
def test_counts_in_cells(read: Read, column: str, cell: str, gpus: str, accelerator: str | None) -> None:
    text = table(f"{column} | GBS | Step time (s)", f"{cell} | 128 | 2.5")
    found = read("# Llama 3.1 8B with NeMo\n\n" + text)
    assert rows(found, "gpus", "accelerator", "step_time_s") == [(gpus, accelerator, "2.5")]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(("GPUs", cell) for cell in ("8-64", "8x4x4", "64/128", "~64", "tpu7x-128", "8x tpu7x-128")),
        *(("Hardware", cell) for cell in ("tpu7x-4x4x8", "DGX H100", "2x DGX H100", "DeepSeek v4-128", "v5p-3")),
        ("Mesh", "4x8"),
    ],
)
def test_cells_that_do_not_say_how_many(read: Read, column: str, cell: str) -> None:
    text = table(f"{column} | GBS | Step time (s)", f"{cell} | 128 | 2.5")
    assert rows(read("# Llama 3.1 8B with NeMo\n\n" + text), "gpus") in ([], [(None,)])


def test_what_was_expected_beside_what_was_measured(read: Read) -> None:
    text = table(
        "Llama 3.1 8B | Expected on 8x H100 GPUs | Measured on 8x H100 GPUs | Target for 16x H100 GPUs | 32x H100 GPUs",
        "Step time (s) | 2 | 2.5 | 1 | 0.7",
    )
    found = read(HEAD + text)
    assert rows(found, "gpus", "step_time_s") == [("8", "2.5"), ("32", "0.7")]
    assert left_out(found) == [
        "5 column 'Expected on 8x H100 GPUs' is no measured run",
        "5 column 'Target for 16x H100 GPUs' is no measured run",
    ]
    found = read(HEAD + table("Llama 3.1 8B | Expected on 8x H100 GPUs", "Step time (s) | 2"))
    assert rows(found, "gpus", "step_time_s") == [("8", "2")]


@pytest.mark.parametrize(
    "name", ["Average", "**Mean (3 runs)**", "Std. dev.", "Difference", "Speedup", "Total", "Δ", "Diff (%)"]
)
def test_a_row_that_is_made_of_others(read: Read, name: str) -> None:
    found = read(HEAD + table("Run | GPUs | GBS | Step time (s)", "1 | 8 | 128 | 2.5", f"{name} | 8 | 128 | 0.1"))
    assert rows(found, "step_time_s") == [("2.5",)]
    assert left_out(found) == [f"8 row {name.strip('*')!r} is no run: it is made of other rows"]


@pytest.mark.parametrize(
    ("caption", "is_read"),
    [
        ("**Generation throughput**", False),
        ("**Table 2: Decode speed**", False),
        ("**Inference**", False),
        ("Table 3: generation throughput of the trained model on 8 H100 GPUs (batch 64).", False),
        ("Table 3: throughput of the model, which is used for inference elsewhere.", True),
        ("**Text generation on 8 GPUs**", False),
        ("**Training throughput, next-generation GPUs**", True),
        ("**Next-generation throughput**", True),
    ],
)
def test_captions_of_inference(read: Read, caption: str, is_read: bool) -> None:
    found = read(f"{HEAD}## Results\n\n{caption}\n\n" + table("GPUs | GBS | Tokens/s/GPU", "8 | 128 | 900"))
    assert rows(found, "gpus") == ([("8",)] if is_read else [])
    assert is_read or left_out(found)[0].endswith("is about inference")


@pytest.mark.parametrize("column", ["Generation throughput (tokens/s)", "Decode tokens/s", "Generated tokens/s"])
def test_columns_of_inference(read: Read, column: str) -> None:
    found = read(HEAD + table(f"GPUs | GBS | {column} | Tokens/s", "8 | 128 | 900 | 800"))
    assert rows(found, "gpus") == []


@pytest.mark.parametrize(
    ("headings", "is_read"),
    [
        ("## Serving", False),
        ("## Inference\n\n### On H100", False),
        ("## Decode", False),
        ("## Inference\n\n### Training", True),
        ("## Training and inference", True),
        ("## Fine-tuning", True),
    ],
)
def test_headings_of_inference(read: Read, headings: str, is_read: bool) -> None:
    found = read(HEAD + headings + "\n\n" + table("GPUs | GBS | Tokens/s/GPU", "8 | 128 | 900"))
    assert rows(found, "gpus") == ([("8",)] if is_read else [])


def test_a_first_row_of_units(read: Read) -> None:
    text = table(
        "GPUs | GBS | Step time | Throughput | MFU", " |  | [ms] | [k tokens/s] | [-]", "8 | 128 | 2500 | 210 | 0.5"
    )
    assert rows(read(HEAD + text), "step_time_s", "tokens_per_s", "mfu") in [
        [("2.500", tokens, "50%")] for tokens in ("210000", "210e+3", "210e3")
    ]


def test_several_settings_in_a_column(read: Read) -> None:
    text = table(
        "GPUs | TP/PP/CP | MBS/GBS | Step time (s) / MFU",
        "64 | 4/8/2 | 1/128 | 10.05 / 48%",
        "128 | 4/8 | 2/256 | 9.8 / n/a",
    )
    assert rows(read(HEAD + text), "tp", "pp", "cp", "micro_batch_size", "global_batch_size", "step_time_s", "mfu") == [
        ("4", "8", "2", "1", "128", "10.05", "48%"),
        (None, None, None, "2", "256", None, None),
    ]


def test_a_column_of_accelerators_beside_one_of_counts(read: Read) -> None:
    text = table(
        "GPU | Number of GPUs | GBS | Step time (s)",
        "A100 | 8 | 128 | 5",
        "H200 | 8 | 128 | 2",
        "RTX 4090 | 8 | 128 | 9",
    )
    assert [accelerator for (accelerator,) in rows(read(HEAD + text), "accelerator")][:2] == ["A100", "H200"]


def test_the_figure_in_the_corner(read: Read) -> None:
    text = table("Step time (s) | 8x H100 | 16x B200", "Llama 3.1 8B FP8 | 2.5 | 1.1", "Mixtral 8x7B BF16 | 5 | n/a")
    assert rows(read(HEAD + text), "model", "size", "dtype", "gpus", "accelerator", "step_time_s", "line") == [
        ("llama3.1", "8b", "fp8", "8", "H100", "2.5", "7"),
        ("llama3.1", "8b", "fp8", "16", "B200", "1.1", "7"),
        ("mixtral", "8x7b", "bf16", "8", "H100", "5", "8"),
    ]


@pytest.mark.parametrize(
    ("cells", "key", "texts"),
    [
        (("12.5 samples/s", "25 samples/s"), "samples_per_s", ["12.5", "25"]),
        (("1,250 tokens/s", "2500 tok/s"), "tokens_per_s", ["1250", "2500"]),
        (("1250 tok/s/GPU", "1200 tokens/s/gpu"), "tokens_per_s_per_gpu", ["1250", "1200"]),
        (("1250", "1200"), "tokens_per_s", []),
        (("1250 tok/s", "12 samples/s"), "tokens_per_s", []),
        (("1250 tok/s", "1200 TB/s"), "tokens_per_s", []),
    ],
)
def test_a_throughput_is_what_the_units_of_its_cells_say(
    read: Read, cells: tuple[str, str], key: str, texts: list[str]
) -> None:
    found = read(HEAD + table("GPUs | GBS | Throughput", f"8 | 128 | {cells[0]}", f"16 | 256 | {cells[1]}"))
    assert [text for (text,) in rows(found, key)] == texts


@pytest.mark.parametrize(
    ("prose", "is_read"),
    [
        ("WPS (tokens per second per GPU) is what counts.", True),
        ("`WPS` is tokens/s/GPU.", True),
        ("WPS: words per second per device", True),
        ("WPS is tokens per\nsecond per GPU.", True),
        ("WPS means tokens per second.", False),
        ("WPS (words per second).", False),
        ("WPS is tokens/s/node.", False),
        ("WPS/GPU is tokens per second per GPU.", False),
        ("WPS is tokens per second; WPS (tokens/s/GPU) below.", False),
        ("We say WPS.", False),
    ],
)
def test_an_abbreviation_is_what_its_document_says(read: Read, prose: str, is_read: bool) -> None:
    found = read(HEAD + prose + "\n\n" + table("GPUs | GBS | WPS", "8 | 128 | 9000"))
    assert rows(found, "tokens_per_s_per_gpu") == ([("9000",)] if is_read else [])
