"""What Megatron-Bridge's own launch scripts are told of a row and of Slurm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.errors import RefusedError, SubmissionError
from pytest_gsw.jobs.environment import job_environment
from pytest_gsw.jobs.spec import Profile
from pytest_gsw.tables.bundled import bundled_baselines, bundled_releases
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline
from tests.unit.nvidia.started import started

SUMMARIES = {row.id: row for row in load_tables(bundled_releases()["nemo:26.06"])}
CARDS = {row.id: row for row in load_tables([bundled_baselines() / "releases" / "cards"])}
OF_SUMMARY = SUMMARIES["llama3.1_405b_fp8[H100x1024-26.06]"]
OF_CARD = CARDS["deepseek_v3_mxfp8[GB200x256-pretrain-performance]"]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(
        name="hsg",
        scheduler="slurm",
        account="eng",
        partition="batch",
        stage="/lustre/stage",
        recipes=str(tmp_path),
        sbatch=("--qos=night", "--exclusive"),
    )


def command(row: Baseline, cluster: Cluster) -> list[str]:
    spec = started(row, cluster, time_limit_s=3600)
    return list(spec.launch.command(spec))


def test_a_row_of_a_summary(cluster: Cluster) -> None:
    assert command(OF_SUMMARY, cluster) == [
        "./setup_experiment.py",
        *("--model_family_name", "llama", "--model_recipe_name", "llama31_405b", "--task", "pretrain"),
        *("--gpu", "h100", "--compute_dtype", "fp8_cs"),
        *("--max_steps", "50", "--global_batch_size", "1536", "--micro_batch_size", "1", "--seq_length", "8192"),
        *("--num_gpus", "1024", "--gpus_per_node", "8", "--container_image", "nvcr.io/nvidia/nemo:26.06"),
        *("--account", "eng", "--partition", "batch", "--time_limit", "01:00:00"),
        *("--additional_slurm_params", "qos=night"),
    ]


def test_a_row_of_a_card_is_run_by_the_cards_own_command(cluster: Cluster) -> None:
    assert command(OF_CARD, replace(cluster, gres="gpu:4", sbatch=())) == [
        "./train.sh",
        *("--recipe", "deepseek_v3_pretrain_256gpu_gb200_fp8mx_config", "--mode", "pretrain"),
        *("--max_steps", "50", "--seq_length", "4096"),
        "logger.save_config_filepath=/nemo_run/configs/ConfigContainer.yaml",
        *("--nodes", "64", "--gpus-per-node", "4", "--container-image", "nvcr.io/nvidia/nemo:26.08.rc5"),
        *("--account", "eng", "--partition", "batch", "--gres", "gpu:4", "--time", "01:00:00"),
    ]


def test_what_has_no_value_is_a_variable_of_sbatch(cluster: Cluster) -> None:
    spec = started(OF_SUMMARY, cluster).again(("n2",))
    assert spec.launch.variables(spec) == {
        "SBATCH_EXCLUSIVE": "1",
        "SBATCH_JOB_NAME": "again2.gsw-r1-llama3.1_405b_fp8-H100x1024-26.06",
        "COLUMNS": "10000",
        "NEMORUN_HOME": "/lustre/stage",
    }
    assert "qos=night;exclude=n2" in spec.launch.command(spec)


def test_the_clusters_own_arguments_come_before_the_rows(cluster: Cluster) -> None:
    own = replace(cluster, arguments=("--offline", "--seq_length=1"))
    assert command(OF_SUMMARY, own)[1:3] == ["--offline", "--seq_length=1"]


def test_a_cluster_does_not_change_what_is_trained(cluster: Cluster) -> None:
    with pytest.raises(
        SubmissionError, match=r"change what is trained, which is the row's: model\.num_layers"
    ) as raised:
        started(OF_CARD, replace(cluster, arguments=("--env", "HF_TOKEN", "model.num_layers=2")))
    assert "num_layers=" not in str(raised.value)  # of an option such as --env it could be a secret


@pytest.mark.parametrize(
    "words", [("-pp", "1"), ("--pipeline_model_parallel_size=1",), ("--tensor_model", "2"), ("--config_variant", "v2")]
)
def test_a_cluster_does_not_change_how_it_is_laid_out(cluster: Cluster, words: tuple[str, ...]) -> None:
    with pytest.raises(
        SubmissionError, match=f"change what is trained, which is the row's: {words[0].partition('=')[0]}"
    ):
        started(OF_SUMMARY, replace(cluster, arguments=("--offline", *words)))


@pytest.mark.parametrize("row", [OF_SUMMARY, OF_CARD], ids=["summary", "card"])
@pytest.mark.parametrize("key", ["account", "partition"])
def test_what_the_scripts_do_not_start_without(cluster: Cluster, row: Baseline, key: str) -> None:
    with pytest.raises(RefusedError, match=f"submits the job itself, and asks for its {key}"):
        started(row, replace(cluster, **{key: None}))


@pytest.mark.parametrize(
    "image", ["/lustre/images/mine.sqsh", "nvcr.io#nvidia/nemo:26.06", "nvidia+nemo+26.06.00.sqsh"]
)
def test_an_image_that_may_be_the_rows_is_taken(cluster: Cluster, image: str) -> None:
    assert image in command(OF_SUMMARY, replace(cluster, environment={"RUN_CONF_IMAGE": image}))


def test_the_image_that_runs_is_the_one_that_is_recorded_whatever_the_shell_exports(cluster: Cluster) -> None:
    spec = started(OF_SUMMARY, cluster)
    exported = job_environment({"RUN_CONF_IMAGE": "/images/mine.sqsh"}, spec)
    assert exported["RUN_CONF_IMAGE"] == "nvcr.io/nvidia/nemo:26.06"


@pytest.mark.parametrize(
    ("row", "image"), [(OF_SUMMARY, "nvcr.io/nvidia/nemo:26.04"), (OF_CARD, "/images/nvidia+nemo+26.06.sqsh")]
)
def test_an_image_of_another_container_is_refused(cluster: Cluster, row: Baseline, image: str) -> None:
    with pytest.raises(
        SubmissionError, match=r"the row's figures are of nemo:26\.\S+, and RUN_CONF_IMAGE chooses nemo"
    ):
        started(row, replace(cluster, environment={"RUN_CONF_IMAGE": image}))


def test_a_checkout_before_26_02_takes_other_arguments(cluster: Cluster, tmp_path: Path) -> None:
    scripts = tmp_path / "scripts" / "performance"
    scripts.mkdir(parents=True)
    (scripts / "argument_parser.py").write_text('"--model_name"\n')
    with pytest.raises(SubmissionError) as caught:
        started(OF_SUMMARY, cluster)
    assert caught.value.advice.startswith("its checkout is older than container 26.02: ")
    (scripts / "argument_parser.py").write_text('"--model_recipe_name"\n')
    started(OF_SUMMARY, cluster)


def test_profiling_is_not_asked_for_by_variables_that_nothing_reads(cluster: Cluster) -> None:
    with pytest.raises(SubmissionError, match="profiles by its own arguments"):
        started(OF_SUMMARY, cluster, profile=Profile("nsight"))


def test_a_table_that_states_arguments_is_launched_with_them(cluster: Cluster) -> None:
    recipe = replace(OF_SUMMARY.recipe, arguments=("--size=1",), script="launch.sh", launcher="nemo-run")
    assert command(replace(OF_SUMMARY, recipe=recipe), cluster) == ["./launch.sh", "--size=1"]
    sbatch = replace(OF_SUMMARY, recipe=replace(recipe, launcher="sbatch"))
    with pytest.raises(SubmissionError, match=r"the launcher sbatch gives launch\.sh no arguments"):
        started(sbatch, cluster)


@pytest.mark.parametrize("release", [name for name in bundled_releases() if name.startswith("nemo:26")])
def test_every_row_of_a_summary_is_launched(cluster: Cluster, release: str) -> None:
    for row in load_tables(bundled_releases()[release]):
        words = command(row, cluster)
        assert words[words.index("--num_gpus") + 1] == str(row.gpus)


def test_every_row_of_a_card_has_its_command(cluster: Cluster) -> None:
    for row in CARDS.values():
        words = command(row, cluster)
        assert int(words[words.index("--nodes") + 1]) * int(words[words.index("--gpus-per-node") + 1]) == row.gpus
        assert not {"--wait", "--experiment-name"} & {*words}
