"""What recipes that submit their jobs themselves are told of a row and of Slurm, and what they say of a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster, Submission
from pytest_gsw.errors import LogError, RefusedError, SubmissionError
from pytest_gsw.jobs.model import ExperimentInfo, JobSpec
from pytest_gsw.jobs.preflight import recipe_problem
from pytest_gsw.jobs.replay import ReplayLauncher
from pytest_gsw.jobs.slurm.client import sbatch_command
from pytest_gsw.jobs.spec import Profile, job_environment
from pytest_gsw.tables.bundled import bundled_baselines, bundled_releases
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline
from tests.messages import wording
from tests.unit.nvidia.started import launch, started
from tests.unit.rows import LLAMA2_FP8_X128

INSTALL = "/lustre/llmb"


@pytest.fixture
def eos(tmp_path: Path) -> Cluster:
    recipe = tmp_path / "maxtext"
    recipe.mkdir()
    (recipe / "launch.sh").write_text('sbatch "${ADDITIONAL_SLURM_PARAMS:-}"\n')
    return Cluster(
        name="eos",
        scheduler="slurm",
        submission=Submission(
            launcher="nemo-run", account="eng", gres="gpu:8", sbatch=("--qos=night", "-x", "n1", "--exclusive")
        ),
        stage=INSTALL,
        recipes=str(tmp_path),
        environment={"LLMB_INSTALL": INSTALL, "VIRTUAL_ENV": "/lustre/venv"},
    )


def spec(cluster: Cluster) -> JobSpec:
    return started(LLAMA2_FP8_X128, cluster)


def variables(job: JobSpec) -> dict[str, str]:
    return job.launch.variables(job)


def test_a_script_that_submits_its_job(eos: Cluster) -> None:
    job = spec(eos)
    assert job.launch.command(job) == ("./launch.sh",)
    assert variables(job.again(("n2",))) == {
        "SBATCH_ACCOUNT": "eng",
        "ADDITIONAL_SLURM_PARAMS": "gres=gpu:8;qos=night;exclude=n1,n2;exclusive",
        "TIME_LIMIT": "00:30:00",
        "SBATCH_JOB_NAME": "again2.gsw-r1-llama2_70b_fp8-H100x128",
        "COLUMNS": "10000",
    }


def test_a_script_before_25_10(eos: Cluster, tmp_path: Path) -> None:
    (tmp_path / "maxtext" / "launch.sh").write_text("sbatch\n")
    own = variables(spec(replace(eos, submission=replace(eos.submission, sbatch=("--qos=night", "--exclusive")))))
    assert {"SBATCH_GRES": "gpu:8", "SBATCH_QOS": "night", "SBATCH_EXCLUSIVE": "1"}.items() <= own.items()
    with pytest.raises(RefusedError, match=wording("takes no option", option="--exclude")):
        spec(eos)


def test_the_recipes_environment(eos: Cluster) -> None:
    session = {"PATH": "/usr/bin", "PYTHONHOME": "/usr", "STAGE_PATH": "/old", "VIRTUAL_ENV": "/of/pytest"}
    own = job_environment(session, spec(eos))
    assert {
        "PATH": "/lustre/venv/bin:/usr/bin",
        "VIRTUAL_ENV": "/lustre/venv",
        "JOB_TOTAL_GPUS": "128",
        "GPU_TYPE": "h100",
        "GPUS_PER_NODE": "8",
        "LLMB_INSTALL": INSTALL,
    }.items() <= own.items()
    assert {"STAGE_PATH", "PYTHONHOME"}.isdisjoint(own)
    # Release 25.04 has a staging area.
    assert spec(replace(eos, environment={})).environment["STAGE_PATH"] == INSTALL


@pytest.mark.parametrize(
    ("accelerator", "gpus_per_node", "segment"), [("H100", 8, ()), ("GB200", 4, ("--segment=16",)), ("GB300", 8, ())]
)
def test_configured_sbatch(eos: Cluster, accelerator: str, gpus_per_node: int, segment: tuple[str, ...]) -> None:
    sbatch = ("--segment=4",) if accelerator == "GB300" else ()
    job = spec(
        replace(
            eos,
            submission=replace(eos.submission, launcher="configured-sbatch", sbatch=sbatch),
            accelerator=accelerator,
            gpus_per_node=gpus_per_node,
        )
    )
    place = f"{INSTALL}/workloads/maxtext/experiments/maxtext_70b_fp8_gpus128/gsw-r1-llama2_70b_fp8-H100x128"
    assert job.environment["LLMB_EXPERIMENT_DIR"] == place
    assert job.batch_output == f"{place}/slurm-%j.out"
    assert job.options == ("--account=eng", "--gres=gpu:8", f"--ntasks-per-node={gpus_per_node}", *sbatch)
    # Slurm knows the option since 24.05; one that the cluster's file gives is the user's own.
    for version, own in (
        ("", segment),
        ("24.05.0", segment),
        ("24.11.5-1", segment),
        ("23.11.10", ()),
        ("22.05.8", ()),
    ):
        command = sbatch_command(job, version)
        assert tuple(word for word in command if word.startswith("--segment")) == own + sbatch


CLUSTER_CONFIG = """\
schema_version: 2
llmb_install: /lustre/llmb
environment: {HF_TOKEN: x}
workloads:
  installed: [pretrain_llama3.1, finetune_llama3]
  config:
    pretrain_llama3.1:
      venv_path: /lustre/llmb/venvs/shared_1a2b
      venv_type: uv
      environment: {A: b}
    finetune_llama3: {venv_path: /lustre/llmb/venvs/tuned, venv_type: conda}
    pretrain_bare: {environment: {A: b}}
"""


@pytest.mark.parametrize(
    ("workload", "named", "environment"),
    [
        (
            "{workload: llama3.1, workload_type: pretrain, images: [x]}",
            {},
            {"VIRTUAL_ENV": "/lustre/llmb/venvs/shared_1a2b"},
        ),
        ("{workload: llama3, workload_type: finetune}", {}, {"CONDA_PREFIX": "/lustre/llmb/venvs/tuned"}),
        ("{workload: bare, workload_type: pretrain}", {}, {}),
        ("{workload: gone, workload_type: pretrain}", {}, {}),
        ("[]", {}, {}),
        # What the cluster's file names counts before what llmb-run's does.
        ("{workload: llama3, workload_type: finetune}", {"VIRTUAL_ENV": "/own"}, {"VIRTUAL_ENV": "/own"}),
        ("{workload: llama3.1, workload_type: pretrain}", {"CONDA_PREFIX": "/own"}, {"CONDA_PREFIX": "/own"}),
    ],
)
@pytest.mark.parametrize("written", [CLUSTER_CONFIG, "", "[", "workloads: {config: x}\n"])
def test_the_virtual_environment_that_llmb_run_has_installed(
    eos: Cluster, tmp_path: Path, workload: str, named: dict[str, str], environment: dict[str, str], written: str
) -> None:
    (tmp_path / "maxtext/metadata.yaml").write_text(f"general: {workload}\n")
    (tmp_path / "cluster_config.yaml").write_text(written)
    job = spec(replace(eos, environment={"LLMB_INSTALL": str(tmp_path), **named}))
    found = {name: value for name, value in job.environment.items() if name in {"VIRTUAL_ENV", "CONDA_PREFIX"}}
    assert found == (environment if written == CLUSTER_CONFIG else named)
    # llmb-run reads its own file; a script for sbatch has no environment to run in here.
    assert (
        spec(
            replace(
                eos,
                environment={"LLMB_INSTALL": str(tmp_path)},
                submission=replace(eos.submission, launcher="llmb-run"),
            )
        )
        .environment.keys()
        .isdisjoint({"VIRTUAL_ENV", "CONDA_PREFIX"})
    )


def test_llmb_run(eos: Cluster) -> None:
    job = spec(replace(eos, submission=replace(eos.submission, launcher="llmb-run")))
    assert job.launch.command(job) == (
        *("llmb-run", "submit", "-w", "maxtext", "-s", "70b", "--dtype", "fp8", "--scale", "128"),
    )
    # What llmb-run hands on is not the shell's.
    exported = {"TP": "4", "MAX_STEPS": "9", "FP8_RECIPE": "mx", "CONFIG_VARIANT": "v1", "HF_HOME": "/hf"}
    own = job_environment(exported, spec(replace(eos, submission=replace(eos.submission, launcher="llmb-run"))))
    assert own.keys() & exported.keys() == {"HF_HOME"}
    assert own["JOB_TOTAL_GPUS"] == "128"


def test_the_table_comes_before_the_cluster_and_needs_slurm(eos: Cluster) -> None:
    own = replace(LLAMA2_FP8_X128, recipe=replace(LLAMA2_FP8_X128.recipe, launcher="sbatch"))
    assert started(own, eos).launch.name == "sbatch"
    with pytest.raises(SubmissionError, match=wording("no submission", launcher="nemo-run")):
        spec(replace(eos, scheduler="local"))


def test_a_log_that_llmb_run_has_left_is_replayed(tmp_path: Path) -> None:
    log = tmp_path / "log-root-root.tiny_7_0.out"
    log.touch()
    replayed = Cluster("replay", "replay")
    own = replace(LLAMA2_FP8_X128, recipe=replace(LLAMA2_FP8_X128.recipe, launcher="nemo-run"))
    assert ReplayLauncher(log).submit(started(own, replayed)).id == "7"
    with pytest.raises(LogError, match=wording("log of another row")):
        ReplayLauncher(log).submit(started(LLAMA2_FP8_X128, replayed))


# ---- What Megatron-Bridge's own launch scripts are told of a row and of Slurm --------------------

SUMMARIES = {row.id: row for row in load_tables(bundled_releases()["nemo:26.06"])}
CARDS = {row.id: row for row in load_tables([bundled_baselines() / "releases" / "cards"])}
OF_SUMMARY = SUMMARIES["llama3.1_405b_fp8[H100x1024-26.06]"]
OF_CARD = CARDS["deepseek_v3_mxfp8[GB200x256-pretrain-performance]"]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(
        name="hsg",
        scheduler="slurm",
        submission=Submission(account="eng", partition="batch", sbatch=("--qos=night", "--exclusive")),
        stage="/lustre/stage",
        recipes=str(tmp_path),
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
    assert command(OF_CARD, replace(cluster, submission=replace(cluster.submission, gres="gpu:4", sbatch=()))) == [
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
    own = replace(cluster, submission=replace(cluster.submission, arguments=("--offline", "--seq_length=1")))
    assert command(OF_SUMMARY, own)[1:3] == ["--offline", "--seq_length=1"]


def test_a_cluster_does_not_change_what_is_trained(cluster: Cluster) -> None:
    with pytest.raises(SubmissionError, match=wording("changes the row", what="model\\.num_layers")) as raised:
        started(
            OF_CARD,
            replace(
                cluster, submission=replace(cluster.submission, arguments=("--env", "HF_TOKEN", "model.num_layers=2"))
            ),
        )
    assert "num_layers=" not in str(raised.value)  # of an option such as --env it could be a secret


@pytest.mark.parametrize(
    "words", [("-pp", "1"), ("--pipeline_model_parallel_size=1",), ("--tensor_model", "2"), ("--config_variant", "v2")]
)
def test_a_cluster_does_not_change_how_it_is_laid_out(cluster: Cluster, words: tuple[str, ...]) -> None:
    with pytest.raises(SubmissionError, match=wording("changes the row", what=words[0].partition("=")[0])):
        started(OF_SUMMARY, replace(cluster, submission=replace(cluster.submission, arguments=("--offline", *words))))


@pytest.mark.parametrize("row", [OF_SUMMARY, OF_CARD], ids=["summary", "card"])
@pytest.mark.parametrize("key", ["account", "partition"])
def test_what_the_scripts_do_not_start_without(cluster: Cluster, row: Baseline, key: str) -> None:
    with pytest.raises(RefusedError, match=f"submits the job itself, and asks for its {key}"):
        started(row, replace(cluster, submission=replace(cluster.submission, **{key: None})))  # type: ignore[arg-type]


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
        SubmissionError, match=wording("image of the environment", documented="nemo:26\\.\\S+", image="nemo")
    ):
        started(row, replace(cluster, environment={"RUN_CONF_IMAGE": image}))


def test_a_checkout_before_26_02_takes_other_arguments(cluster: Cluster, tmp_path: Path) -> None:
    scripts = tmp_path / "scripts" / "performance"
    scripts.mkdir(parents=True)
    (scripts / "argument_parser.py").write_text('"--model_name"\n')
    with pytest.raises(SubmissionError) as caught:
        started(OF_SUMMARY, cluster)
    assert caught.value.advice.startswith(wording("mbridge", container="26.02"))
    (scripts / "argument_parser.py").write_text('"--model_recipe_name"\n')
    started(OF_SUMMARY, cluster)


def test_profiling_is_not_asked_for_by_variables_that_nothing_reads(cluster: Cluster) -> None:
    with pytest.raises(SubmissionError, match=wording("own profile")):
        started(OF_SUMMARY, cluster, profile=Profile("nsight"))


def test_a_table_that_states_arguments_is_launched_with_them(cluster: Cluster) -> None:
    recipe = replace(OF_SUMMARY.recipe, arguments=("--size=1",), script="launch.sh", launcher="nemo-run")
    assert command(replace(OF_SUMMARY, recipe=recipe), cluster) == ["./launch.sh", "--size=1"]
    sbatch = replace(OF_SUMMARY, recipe=replace(recipe, launcher="sbatch"))
    with pytest.raises(SubmissionError, match=wording("no arguments", launcher="sbatch", script="launch\\.sh")):
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


# ---- What launch scripts say of the job that they have submitted, and where its log is -----------

NEMO_RUN = launch("nemo-run")
read_output, log_in, batch_output_in = NEMO_RUN.read_output, NEMO_RUN.log_in, NEMO_RUN.batch_output_in

TASK = """\
Experiment Status for tiny_1764

Task 0: tiny
- Status: RUNNING
- Executor: SlurmExecutor on root@localhost
- Job id: 3530909
- Local Directory: /lustre/experiments/tiny/tiny_1764/tiny

# The experiment was run with the following tasks: ['tiny']
"""


@pytest.mark.parametrize(
    ("said", "directory"),
    [
        (TASK, "/lustre/experiments/tiny/tiny_1764/tiny"),
        ("LAUNCHED: tiny jobid=3530909\nJobID: 3530909, Workdir: /a b\n", "/a b"),
        ("SUBMITTED: tiny - jobid=3530909 workdir=/lustre/x\n", "/lustre/x"),
        # llmb-run shows what the script says as well.
        (TASK + "JobID: 3530909, Workdir: /lustre/x\n", "/lustre/x"),
        # With FORCE_COLOR.
        (
            TASK.replace("Task 0: tiny", "\x1b[1;32mTask 0: \x1b[0mtiny").replace(
                "- Job id:", "\x1b[32m- Job id:\x1b[0m"
            ),
            "/lustre/experiments/tiny/tiny_1764/tiny",
        ),
    ],
)
def test_one_job(said: str, directory: str) -> None:
    assert read_output(said) == ExperimentInfo("3530909", Path(directory), job_ids=("3530909",))


@pytest.mark.parametrize("job_id", ["3530909", "3530909;eos"])
def test_a_job_that_llmb_run_has_given_to_sbatch_itself(job_id: str) -> None:
    """It does not say where that writes."""
    said = f"SUBMITTED: pretrain_tiny  model_size=1b, dtype=bf16, scale=8, jobid={job_id}\n"
    assert read_output(said) == ExperimentInfo("3530909", None, job_ids=("3530909",))


@pytest.mark.parametrize(
    ("said", "problem", "jobs"),
    [
        ("", "its output has no line 'Task 0:'", ()),
        (TASK.replace("Task 0", "Task 1"), "its output has the tasks 1, and one row is one job, task 0", ("3530909",)),
        (TASK + TASK.replace("09", "10"), "its output has the tasks 0, 0, and one row is one job, task 0", None),
        (TASK.replace("- Job id: 3530909", ""), "task 0 in its output has no '- Job id:'", ()),
        (TASK.replace("/lustre", "lustre"), "task 0 in its output has no '- Local Directory:'", ("3530909",)),
        (TASK + "JobID: 2, Workdir: /a\n", "it names 2 jobs, and one row is one job", ("2", "3530909")),
        ("JobID: 1, Workdir: /a\nJobID: 2, Workdir: /a\n", "it names 2 jobs, and one row is one job", ("1", "2")),
    ],
)
def test_no_job_and_several(said: str, problem: str, jobs: tuple[str, ...] | None) -> None:
    told = read_output(said)
    assert (told.job_id, told.directory, told.problem) == (None, None, problem)
    assert told.job_ids == jobs or (jobs is None and len(told.job_ids) == 2)


def test_the_log_of_the_last_start(tmp_path: Path) -> None:
    for name in (
        "log-tiny_7_0.out",
        "log-tiny_7_2.out",
        "log-tiny_7_10.out",
        "log-tiny_77_99.out",
        "sbatch_tiny_7.out",
    ):
        (tmp_path / name).touch()
    assert log_in(tmp_path, "7").name == "log-tiny_7_10.out"
    assert batch_output_in(tmp_path, "7") == tmp_path / "sbatch_tiny_7.out"


def test_where_no_log_is(tmp_path: Path) -> None:
    # What the batch shell writes is the log where there is no other.
    (tmp_path / "slurm-7.out").touch()
    assert log_in(tmp_path, "7") == batch_output_in(tmp_path, "7") == tmp_path / "slurm-7.out"
    # No log yet.
    with pytest.raises(LogError) as caught:
        log_in(tmp_path / "experiment", "7")
    assert caught.value.fact == "no log of job 7"
    assert batch_output_in(tmp_path / "experiment", "7") is None


#: Of a script that imports a checkpoint first.
TWO = """\
Experiment Status for sft_nemo_1764

Task 0: import_ckpt_exp
- Status: PENDING
- Executor: SlurmExecutor on root@localhost
- Job id: 11
- Local Directory: /lustre/experiments/sft_nemo/sft_nemo_1764/import_ckpt_exp

Task 1: sft_nemo
- Status: PENDING
- Executor: SlurmExecutor on root@localhost
- Job id: 12
- Local Directory: /lustre/experiments/sft_nemo/sft_nemo_1764/sft_nemo
"""


def test_a_job_that_waits_for_others() -> None:
    home = Path("/lustre/experiments/sft_nemo/sft_nemo_1764")
    told = read_output(TWO)
    assert told == ExperimentInfo(
        "12", home / "sft_nemo", job_ids=("11", "12"), waits_for=(("11", home / "import_ckpt_exp"),)
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Experiment Status", "Status", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Task 1: sft_nemo", "Task 1: sft_nemo_nsys", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Task 1", "Task 2", "its output has the tasks 0, 2, and one row is one job, task 0"),
        ("Job id: 12", "Job id: 11", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Job id: 11", "Job id: x", "its output has the tasks 0, 1, and one row is one job, task 0"),
        ("Directory: /lustre", "Directory: lustre", "task 0 in its output has no '- Local Directory:'"),
    ],
)
def test_tasks_of_which_none_is_known_to_train(old: str, new: str, problem: str) -> None:
    told = read_output(TWO.replace(old, new, 1) if "Directory" in old else TWO.replace(old, new))
    assert (told.job_id, told.problem, told.waits_for) == (None, problem, ())
    assert set(told.job_ids) <= {"11", "12"}


@pytest.mark.parametrize(
    ("accelerator", "release", "clone"),
    [
        ("H100", None, "git clone --branch=v25.01.1 https://github.com/NVIDIA/dgxc-benchmarking"),
        *(
            (accelerator, release, "git clone https://github.com/NVIDIA-NeMo/Megatron-Bridge")
            for accelerator, release in (
                ("B200", "nemo:26.04.01"),
                ("B300", "nemo:26.06"),
                ("GB200", "nemo:26.08"),
                ("GB300", "nemo:26.08"),
                ("H100", "nemo:26.06"),
            )
        ),
    ],
)
@pytest.mark.parametrize("is_staged", [True, False], ids=["an empty stage", "no stage"])
def test_a_recipe_that_is_not_there_has_the_command_that_fetches_it(
    tmp_path: Path, accelerator: str, release: str | None, clone: str, is_staged: bool
) -> None:
    paths = [bundled_baselines() / "maxtext"] if release is None else bundled_releases()[release]
    rows = [row for row in load_tables(paths) if row.accelerator == accelerator]
    stage = tmp_path if is_staged else tmp_path / "stage"
    cluster = Cluster(
        "eos",
        "slurm",
        accelerator=accelerator,
        submission=Submission(account="eng", partition="batch"),
        stage=str(stage),
    )
    for row in rows:
        problem = recipe_problem(started(row, cluster), row, cluster)
        assert problem is not None
        assert problem.advice.startswith(clone)
        assert wording("recipes of the cluster") in problem.advice
    assert rows
