"""One row on one cluster becomes one job spec."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_gsw.clusters import DEMO, Cluster
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.spec import (
    LEAST_LIMIT_S,
    Profile,
    _placeholder_values,
    default_time_limit_s,
    expected_run_s,
    make_job_spec,
    nodes_for,
    profiling_in,
)
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Accepted, Baseline, Figures, Location, Parallelism, Recipe, definition_hash
from pytest_gsw.tables.schema import PLACEHOLDERS
from tests.unit.rows import LLAMA2_FP8_X128, with_facts

EOS = Cluster(name="eos", scheduler="slurm", stage="/lustre/{recipe}", path=Path("clusters.yaml"))


def spec(baseline: Baseline = LLAMA2_FP8_X128, cluster: Cluster = EOS, **changes: Any) -> JobSpec:
    return make_job_spec(baseline, cluster, run_id="r1", **changes)


def spec_of(recipe: Recipe, **changes: Any) -> JobSpec:
    return spec(with_facts(LLAMA2_FP8_X128, recipe=recipe, **changes))


def test_each_placeholder_has_a_value() -> None:
    assert _placeholder_values(LLAMA2_FP8_X128, 16).keys() == PLACEHOLDERS


def test_the_launch_contract_of_the_recipes() -> None:
    assert spec() == JobSpec(
        row_id="llama2_70b_fp8[H100x128]",
        name="gsw-r1-llama2_70b_fp8-H100x128",
        script=Path("/lustre/maxtext/launch.sh"),
        directory=Path("/lustre/maxtext"),
        stage=Path("/lustre/maxtext"),
        nodes=16,
        gpus=128,
        environment={
            "STAGE_PATH": "/lustre/maxtext",
            "DTYPE": "fp8",
            "MODEL_SIZE": "70b",
            "NUM_NODES": "16",
            "RUN_CONF_GPU_PER_NODE": "8",
            "GSW_ROW": "llama2_70b_fp8[H100x128]",
            "GSW_BASELINE_FILE": "baselines/maxtext/llama2_70b.yaml",
        },
        options=(),
        time_limit_s=1800.0,
        log_glob="results/*/fp8/70b/128/log-maxtext_llama2_70b_128_{job_id}.out",
        unique_name=True,
    )


@pytest.mark.parametrize("recipes", [None, "/lustre/recipes"])
def test_a_recipe_beside_its_table_is_started_there_on_every_cluster(recipes: str | None) -> None:
    location = Location(Path("/site/tables/own.yaml"), 4, 9)
    row = replace(LLAMA2_FP8_X128, recipe=Recipe("./own/one", steps=50), location=location)
    made = spec(row, replace(EOS, recipes=recipes))
    assert made.script == Path("/site/tables/own/one/launch.sh")
    assert made.directory == Path("/site/tables/own/one")
    # The directory may be an installed package's, or somebody else's: nothing is written there.
    assert made.stage == Path("/lustre/own/one")
    assert made.batch_output == "/lustre/own/one/slurm-%j.out"
    simulated = spec(row, replace(DEMO, stage="/run/stage", recipes="/demo"))
    assert simulated.directory == Path("/demo")


def test_the_tables_variables_come_before_the_clusters() -> None:
    table = {"VIRTUAL_ENV": "/venvs/of-table", "BOTH": "table", "TIME_LIMIT": "{steps}", "HOME_OF": "{recipe}"}
    row = replace(LLAMA2_FP8_X128, recipe=Recipe("a/b", steps=50, environment=table))
    given = {"VIRTUAL_ENV": "/venvs/of-cluster", "CONDA_PREFIX": "/conda", "BOTH": "cluster", "ONE": "x"}
    made = spec(row, replace(EOS, environment=given)).environment
    assert {name: made.get(name) for name in (*table, *given)} == {
        "VIRTUAL_ENV": "/venvs/of-table",
        "CONDA_PREFIX": None,  # a job has one virtual environment
        "BOTH": "table",
        "TIME_LIMIT": "50",
        "HOME_OF": "a/b",
        "ONE": "x",
    }
    # The image that the table chooses is the one whose accepted figure counts.
    chosen = replace(EOS, environment={"RUN_CONF_IMAGE": "y.sqsh"})
    own = with_accepted(replace(of(50, 4.0), recipe=Recipe("m", steps=50, environment={"RUN_CONF_IMAGE": "x"})), "x")
    assert default_time_limit_s(own, chosen) == 4500.0


@pytest.mark.parametrize(
    ("written", "filled"),
    [
        ("/venvs/{workload}", "/venvs/llama2_70b"),
        ("/venvs/{recipe}/{dtype}", "/venvs/maxtext/fp8"),
        ("{gpus} {nodes} {accelerator}", "128 16 H100"),
        ('{"gpus": {gpus}, "x": {"y": {}}}', '{"gpus": 128, "x": {"y": {}}}'),
        ("{not_a_word} {{ } %s {0}", "{not_a_word} {{ } %s {0}"),
        # What the row does not state is left to the script.
        ("--tp={tp}", None),
    ],
)
def test_a_clusters_variables_have_placeholders(written: str, filled: str | None) -> None:
    made = spec(cluster=replace(EOS, environment={"LLMB_INSTALL": "/x/{dtype}", "A": written})).environment
    assert (made.get("A"), made["LLMB_INSTALL"]) == (filled, "/x/fp8")


@pytest.mark.parametrize("time_limit_s", [60.0, 86400.0])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cluster": replace(EOS, submission=replace(EOS.submission, sbatch=("--time=10",)))},
        {"profile": Profile("nsight")},
    ],
)
def test_a_time_limit_is_handed_on(changes: dict[str, Any], time_limit_s: float) -> None:
    assert spec(**changes, time_limit_s=time_limit_s).time_limit_s == time_limit_s


def of(steps: int | None, step_time_s: float | None) -> Baseline:
    recipe = Recipe("maxtext", steps=steps)
    return replace(LLAMA2_FP8_X128, documented=Figures(step_time_s=step_time_s), recipe=recipe)


@pytest.mark.parametrize(
    ("row", "limit_s"),
    [
        (of(50, 4.556), 1800.0),
        (of(50, 6.0), 1800.0),
        (of(50, 6.1), 3 * (300 + 50 * 6.1)),
        (of(50, 24.0), 4500.0),
        (of(None, 24.0), None),
        (of(50, None), None),
    ],
)
def test_a_job_gets_three_times_its_documented_duration(row: Baseline, limit_s: float | None) -> None:
    assert default_time_limit_s(row, EOS) == limit_s
    assert spec(row).time_limit_s == limit_s


def test_a_run_before_the_measured_one_counts() -> None:
    """MaxText's recipes make one of 15 steps, whose profile the compiler reads for the other."""
    row = of(50, 20.0)
    profiled = replace(row, recipe=replace(row.recipe, steps_before=15))
    assert (expected_run_s(row), expected_run_s(profiled)) == (300 + 50 * 20, 2 * 300 + 65 * 20)
    assert spec(profiled).time_limit_s == 3 * (600 + 65 * 20)
    bundled = [row for row in load_tables([bundled_baselines()]) if row.workload.framework == "maxtext"]
    assert {row.recipe.steps_before for row in bundled} == {15}


def with_accepted(row: Baseline, image: str | None) -> Baseline:
    accepted = Accepted("eos", 24.0, 5, 0.01, "1", "2026-11-20", definition_hash(row, image), image)
    return replace(row, accepted={"eos": accepted})


def test_a_job_gets_three_times_the_duration_that_its_cluster_has_accepted() -> None:
    row = with_accepted(of(50, 4.0), "x.sqsh")
    assert spec(row).time_limit_s == 4500.0
    chosen = replace(EOS, environment={"RUN_CONF_IMAGE": "/stage/x.sqsh"})
    assert spec(row, chosen).time_limit_s == 4500.0
    # It is of another image, of another definition, of another cluster, or of something else than steps.
    assert spec(row, replace(EOS, environment={"RUN_CONF_IMAGE": "y.sqsh"})).time_limit_s == 1800.0
    assert spec(replace(row, criterion=replace(row.criterion, statistic="median"))).time_limit_s == 1800.0
    assert spec(row, replace(EOS, name="selene")).time_limit_s == 1800.0
    assert spec(with_accepted(with_facts(of(50, 4.0), metric="checkpoint_save_time"), None)).time_limit_s == 1800.0


@pytest.mark.parametrize(
    "options", [("--time=30",), ("--time", "30"), ("-t", "30"), ("-t30",), ("--qos=high", "-t", "1-00:00:00")]
)
def test_a_limit_of_the_clusters_own_stands(options: tuple[str, ...]) -> None:
    made = spec(cluster=replace(EOS, submission=replace(EOS.submission, sbatch=options)))
    assert (made.time_limit_s, made.options) == (None, options)
    assert spec(cluster=replace(EOS, environment={"SBATCH_TIMELIMIT": "30"})).time_limit_s is None


@pytest.mark.parametrize("options", [(), ("--qos=high", "--exclusive", "--tasks-per-node=8")])
def test_other_options_of_the_cluster_set_no_limit(options: tuple[str, ...]) -> None:
    assert spec(cluster=replace(EOS, submission=replace(EOS.submission, sbatch=options))).time_limit_s == LEAST_LIMIT_S


@pytest.mark.parametrize("kind", ["nsight", "nccl-trace"])
def test_a_profiled_run_has_the_limit_of_its_script(kind: Literal["nsight", "nccl-trace"]) -> None:
    assert spec(profile=Profile(kind)).time_limit_s is None


def test_the_options_of_a_slurm_cluster_in_order() -> None:
    cluster = replace(
        EOS,
        submission=replace(
            EOS.submission,
            account="eng",
            partition="batch",
            gres="gpu:8",
            constraint="h100",
            reservation="acceptance",
            sbatch=("--qos=high", "--exclusive"),
        ),
    )
    assert spec(cluster=cluster).options == (
        *(
            "--account=eng",
            "--partition=batch",
            "--gres=gpu:8",
            "--constraint=h100",
            "--reservation=acceptance",
            "--qos=high",
            "--exclusive",
        ),
    )
    assert spec(cluster=replace(cluster, scheduler="local")).options == ()


def test_rows_that_must_not_run_twice_at_once_share_a_name_across_sessions() -> None:
    single = spec_of(Recipe("maxtext", one_job_per_row=True))
    assert (single.name, single.unique_name) == ("gsw-llama2_70b_fp8-H100x128", False)
    assert single.options == ("--dependency=singleton",)


@pytest.mark.parametrize(
    ("recipes", "directory"),
    [
        (None, "/lustre/maxtext"),
        ("/recipes", "/recipes/maxtext"),
        ("/recipes/{recipe}/v2", "/recipes/maxtext/v2"),
    ],
)
def test_where_the_launch_script_is(recipes: str | None, directory: str) -> None:
    made = spec(cluster=replace(EOS, recipes=recipes))
    assert made.directory == Path(directory)
    assert made.script == Path(directory, "launch.sh")
    assert made.stage == Path("/lustre/maxtext")
    assert spec_of(Recipe("meg/3d", script="run.sh")).script == Path("/lustre/meg/3d/run.sh")


def test_one_simulated_recipe_stands_for_all() -> None:
    demo = replace(DEMO, stage="/run/stage", recipes="/package/demo")
    assert spec(cluster=demo).script == Path("/package/demo/launch.sh")
    assert spec(cluster=demo).environment["GSW_DEMO_TRAINS"] == "llama2 maxtext"
    row = replace(LLAMA2_FP8_X128, recipe=Recipe("hf-llama2", script="launch_70b.sh"))
    assert spec(row, demo).script == Path("/package/demo/launch.sh")


def test_the_recipes_own_variables_are_filled_in() -> None:
    environment = {
        "NNODES": "{nodes}",
        "SHAPE": "{tp}x{pp}",
        "MSIZE": "{parameters_in_billions}",
        "JSON": '{{"gpus": {gpus}}}',
        "FIXED": "1",
    }
    made = spec_of(Recipe("maxtext", environment=environment), parallelism=Parallelism(tp=4, pp=2)).environment
    assert {name: made[name] for name in environment} == {
        "NNODES": "16",
        "SHAPE": "4x2",
        "MSIZE": "70",
        "JSON": '{"gpus": 128}',
        "FIXED": "1",
    }


def test_a_variable_whose_facts_are_not_documented_is_left_to_the_script() -> None:
    recipe = Recipe("maxtext", environment={"PP_SIZE": "{pp}", "SHAPE": "{fsdp}x{pp}", "FSDP": "{fsdp}"})
    made = spec_of(recipe).environment
    assert made["FSDP"] == "128"
    assert not {"PP_SIZE", "SHAPE"} & made.keys()


def test_columns_without_a_key_reach_the_script() -> None:
    row = replace(LLAMA2_FP8_X128, attributes={"zero_stage": "3"})
    assert spec(row).environment["GSW_ROW_ZERO_STAGE"] == "3"


@pytest.mark.parametrize(
    ("gpus", "row_per_node", "cluster_per_node", "nodes", "per_node"),
    [(128, 8, None, 16, "8"), (128, 8, 4, 32, "4"), (1, 8, None, 1, "1"), (4, 4, 8, 1, "4"), (8, 8, 8, 1, "8")],
)
def test_nodes_are_filled(
    gpus: int, row_per_node: int, cluster_per_node: int | None, nodes: int, per_node: str
) -> None:
    row = replace(LLAMA2_FP8_X128, gpus=gpus, gpus_per_node=row_per_node)
    made = spec(row, replace(EOS, gpus_per_node=cluster_per_node))
    assert made.nodes == nodes
    assert made.environment["NUM_NODES"] == str(nodes)
    assert made.environment["RUN_CONF_GPU_PER_NODE"] == per_node


def test_gpus_that_do_not_fill_nodes() -> None:
    with pytest.raises(SubmissionError) as error:
        nodes_for(LLAMA2_FP8_X128, replace(EOS, gpus_per_node=6))
    assert str(error.value) == (
        "128 GPUs do not fill whole nodes of 6 on eos\n"
        "\n"
        "next       set gpus_per_node of eos in clusters.yaml to what its nodes have"
    )


@pytest.mark.parametrize(
    ("profile", "variables"),
    [
        (Profile("nccl-trace"), {"ENABLE_NCCL_TRACE": "true"}),
        (Profile("nsight"), {"ENABLE_PROFILE": "true"}),
        (
            Profile("nsight", steps=(20, 30), ranks=(0, 8), gpu_metrics=True, cpu_metrics=True),
            {
                "ENABLE_PROFILE": "true",
                "RUN_CONF_PROFILE_START_STEP": "20",
                "RUN_CONF_PROFILE_STOP_STEP": "30",
                "RUN_CONF_PROFILE_RANKS": "0,8",
                "RUN_CONF_PROFILE_GPU_METRICS": "true",
                "RUN_CONF_PROFILE_CPU": "true",
            },
        ),
    ],
)
def test_profiling_as_the_document_describes_it(profile: Profile, variables: dict[str, str]) -> None:
    assert profile.environment() == variables
    assert variables.items() <= spec(profile=profile).environment.items()


@pytest.mark.parametrize("value", ["1", "true", "True", "yes", "ON"])
@pytest.mark.parametrize("name", ["ENABLE_PROFILE", "ENABLE_NCCL_TRACE", "ENABLE_NCCLTRACE"])
def test_profiling_that_was_left_exported_is_noticed(name: str, value: str) -> None:
    assert profiling_in({"PATH": "/bin", name: value}) == name
    assert all(profiling_in({"PATH": "/bin", name: off}) is None for off in ("", "false", "0"))


def test_every_bundled_row_can_be_started_under_a_name_of_its_own() -> None:
    specs = [spec(row) for row in load_tables([bundled_baselines()])]
    assert len({made.name for made in specs}) == len(specs) == 141
    for made in specs:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,128}", made.name), made.name
        assert "{" not in "".join(made.environment.values())
        assert all(isinstance(value, str) for value in made.environment.values())


def test_rows_of_the_recipes_documents_differ_in_what_their_scripts_are_told() -> None:
    rows = [row for row in load_tables([bundled_baselines()]) if row.workload.framework in {"paxml", "maxtext", "nemo"}]
    told = []
    for row in rows:
        environment = dict(spec(row).environment)
        del environment["GSW_ROW"], environment["GSW_BASELINE_FILE"]
        told.append((row.recipe.directory, *sorted(environment.items())))
    assert len(set(told)) == len(rows) == 47
