"""Where a recipe lies, by its README's place and words; GPUs of a node that nobody writes down."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.documents.importing import import_document
from pytest_gsw.documents.importing.directories import recipe_directory
from pytest_gsw.tables.yamlfile import Stated
from tests.unit.documents.importing.conftest import README, Read


@pytest.mark.parametrize(
    ("place", "directory"),
    [
        ("repository/grok1", "grok1"),
        ("repository/ft_llama3", "ft_llama3"),
        ("repository/deepseek_v3/pretraining", "deepseek_v3/pretraining"),
        ("repository/llama3/finetuning", "llama3/finetuning"),
        ("repository/llama3/Fine-Tune", "llama3/Fine-Tune"),
        ("repository/qwen3/pretrain/torchtitan", "qwen3/pretrain/torchtitan"),
        ("repository/scripts/train/benchmarking", "scripts/train/benchmarking"),
        ("repository/trainium", "trainium"),
    ],
)
def test_a_task_is_part_of_the_directory_above_it(tmp_path: Path, place: str, directory: str) -> None:
    assert recipe_directory(tmp_path / place / "README_8b.md", ()) == Stated(directory, 0, 1)


def test_no_directory_of_a_name_that_no_table_can_hold(tmp_path: Path) -> None:
    assert recipe_directory(tmp_path / "my recipes" / "pretraining" / "README.md", ()) is None
    assert recipe_directory(tmp_path / "grok1" / "performance.md", ()) is None
    assert recipe_directory(Path("/README.md"), ()) is None
    assert recipe_directory(Path("/pretraining/README.md"), ()) is None


@pytest.mark.parametrize(
    ("line", "directory", "at"),
    [
        ("Go there: `cd $REPO/deep/er/grok1/`", "deep/er/grok1", 2),
        ('cd "${REPO}/deep/er/grok1"', "deep/er/grok1", 2),
        ("cd <recipes>/er/grok1 && ./launch.sh", "er/grok1", 2),
        ("cd grok1.", "grok1", 2),
        ("cd $REPO/grok", "grok1", 0),
        ("cd $REPO/grok1/results", "grok1", 0),
        ("cd ../grok1", "grok1", 2),
        ("abcd grok1", "grok1", 0),
    ],
)
def test_what_the_document_says_counts_where_it_lies_there(tmp_path: Path, line: str, directory: str, at: int) -> None:
    path = tmp_path / "deep" / "er" / "grok1" / "README.md"
    assert recipe_directory(path, ("# Grok", line)) == Stated(directory, at, 1)


@pytest.mark.parametrize(
    ("line", "script", "directory", "at"),
    [
        ("cd heron && sbatch launch.sh", "heron/launch.sh", "heron", 2),
        ("cd $REPO/models/heron/", "models/heron/launch.sh", "models/heron", 2),
        ("cd heron && sbatch launch.sh", "heron/README.md", "site", 0),
        ("cd other", "heron/launch.sh", "site", 0),
        ("sbatch launch.sh", "launch.sh", "site", 0),
    ],
)
def test_what_the_document_says_counts_where_a_launch_script_lies_below_it(
    tmp_path: Path, line: str, script: str, directory: str, at: int
) -> None:
    (tmp_path / "site" / script).parent.mkdir(parents=True)
    (tmp_path / "site" / script).touch()
    assert recipe_directory(tmp_path / "site" / "README.md", ("# Heron", line)) == Stated(directory, at, 1)


def test_the_directory_in_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "tiny" / "pretraining"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(README)
    (text,) = import_document(folder / "README.md").yaml_text.values()
    assert '  directory: "tiny/pretraining"  # the document does not say: by convention\n' in text
    (folder / "README.md").write_text(README + "\nRun `cd $RECIPES/tiny/pretraining` first.\n")
    (text,) = import_document(folder / "README.md").yaml_text.values()
    assert '  directory: "tiny/pretraining"  # line 16\n' in text


@pytest.mark.parametrize(
    ("accelerator", "per_node"),
    [("A100", "8"), ("A100 80GB", "8"), ("A100-40GB", "8"), ("H20", "8"), ("MI300X", "8"), ("GB300", "4")],
)
def test_gpus_of_a_node_by_convention(read: Read, accelerator: str, per_node: str) -> None:
    text = README.replace("`N_GPUS_PER_NODE` is 8 for DGX H100.", "").replace("H100 GPUs", f"{accelerator} GPUs")
    (yaml,) = read(text).yaml_text.values()
    assert f"gpus_per_node: {per_node}  # the document does not say: by convention\n" in yaml


@pytest.mark.parametrize("accelerator", ["V100", "V100-32GB", "L40S", "GH200", "A40"])
def test_gpus_of_a_node_that_vary(read: Read, accelerator: str) -> None:
    text = README.replace("`N_GPUS_PER_NODE` is 8 for DGX H100.", "").replace("H100 GPUs", f"{accelerator} GPUs")
    found = read(text)
    assert {blank[2] for blank in found.blanks} == {"gpus_per_node"}


@pytest.mark.parametrize(
    ("sentence", "per_node"),
    [
        ("All runs used nodes with 16 GPUs each.", "16"),
        ("All runs used nodes of 16 A100 GPUs.", "16"),
        ("All runs used 16-GPU nodes.", "16"),
        ("Runs used nodes with 4 GPUs or 16.", "8"),
        ("Runs used nodes with 4 GPUs-like things.", "8"),
    ],
)
def test_what_the_document_says_of_nodes_counts_before_any_convention(read: Read, sentence: str, per_node: str) -> None:
    text = README.replace("`N_GPUS_PER_NODE` is 8 for DGX H100.", sentence).replace("H100 GPUs", "A100 GPUs")
    assert {row.values["gpus_per_node"].text for row in read(text).rows} == {per_node}
