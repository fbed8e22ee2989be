"""Rows of Megatron-Bridge's summaries and cards, through launch scripts of their kind, on a real Slurm.

The scripts are of our own wording; they take the arguments that Megatron-Bridge's take.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import bundled_baselines
from tests.messages import wording

from .cluster import SlurmCluster
from .recipes import nemo_run
from .sessions import Misfortune, Session, Site

NANO = bundled_baselines() / "releases" / "26.06" / "megatron-bridge" / "nemotron3_nano.yaml"
#: Of the summaries: two nodes of eight H100. 1024 * 8192 / (14719 * 16) = 35.62 s.
SUMMARY = (NANO, "nemotron3_nano_fp8[H100x16-26.06]", 1024, 35.62)

#: As a card says it, on the nodes of a test.
CARD = """\
model: tiny
size: 1b
framework: megatron-bridge
dtype: mxfp8
recipe:
  directory: scripts/training
  script: train.sh
  launcher: nemo-run
  steps: 50
  arguments: [--recipe, tiny_pretrain_8gpu_gb200_fp8mx_config, --max_steps, "50", 'dataset.blend=[["a b",null]]']
sequence_length: 4096
statistic: mean[-10:]
tables:
  - rows:
      - {gpus: 8, gpus_per_node: 4, accelerator: GB200, global_batch_size: 512, step_time_s: 2.0,
         attributes: {container: "nvcr.io/nvidia/nemo:26.08"}}
"""

CLUSTERS = """\
clusters:
  eos:
    scheduler: slurm
    accelerator: {accelerator}
    gpus_per_node: {per_node}
    account: root
    partition: batch
    stage: {directory}/stage
    recipes: {directory}/bridge
    sbatch: [--mem=50M, --nice=3]
    arguments: [--offline]
"""

#: What the launch scripts are told becomes what the skeleton of a recipe takes from its environment.
BEGIN = """\
printf '%s\\n' "$@" >arguments
told() { while (($# > 1)); do if [ "$1" = "--$name" ]; then echo "$2"; fi; shift; done; }
of() { name=$1; shift; told "$@"; }
if [ "${0##*/}" = train.sh ]; then
    image=$(of container-image "$@") TIME_LIMIT=$(of time "$@") gpus=$(of gpus-per-node "$@")
    JOB_TOTAL_GPUS=$(($(of nodes "$@") * gpus))
else
    image=$(of container_image "$@") TIME_LIMIT=$(of time_limit "$@") JOB_TOTAL_GPUS=$(of num_gpus "$@")
fi
SBATCH_PARTITION=$(of partition "$@") ADDITIONAL_SLURM_PARAMS=$(of additional_slurm_params "$@") MODEL_SIZE=x
export IMAGE=$image BATCH=BATCH_SIZE SECONDS_PER_STEP=STEP_TIME LLMB_INSTALL=$NEMORUN_HOME
unset STAGE_PATH
"""

#: A job's log, and the configuration that it ran.
BODY = """\
mkdir -p "$EXPERIMENT/configs"
cat >"$EXPERIMENT/configs/ConfigContainer.yaml" <<'YAML'
mixed_precision:
  bf16: true
  fp4: null
  fp8: e4m3
  fp8_recipe: RECIPE
model:
  seq_length: LENGTH
train:
  global_batch_size: GLOBAL
YAML
for ((step = 1; step <= 50; step++)); do
    echo " [2026-11-22 10:00:00] iteration $step/      50 | consumed samples: 1 | elapsed time per iteration (ms):" \\
        "$SECONDS_PER_STEP | learning rate: 1.0E-04 | global batch size: $BATCH | lm loss: 8.000000E+00 |" \\
        "loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations: 0 | number of nan iterations: 0 |"
done >"${LOG}_${SLURM_JOB_ID}_0.out"
"""


def script(batch: int, step_time_s: float, length: int, recipe: str, *, more: str = "") -> str:
    body = BODY.replace("RECIPE", recipe).replace("LENGTH", str(length)).replace("GLOBAL", str(batch)) + more
    begin = BEGIN.replace("BATCH_SIZE", str(batch)).replace("STEP_TIME", str(step_time_s * 1000))
    return nemo_run(body, begin=begin)


class Bridge:
    """A project whose cluster has a checkout of Megatron-Bridge, or what stands in for it."""

    def __init__(self, site: Site, cluster: SlurmCluster, root: Path) -> None:
        self._site, self.cluster, self.directory = site, cluster, root / "project"

    def card(self, own: str, *, table: str = CARD, more: str = "") -> Session:
        files = {"bridge/scripts/training/train.sh": own, "clusters.yaml": self._clusters("GB200", 4) + more}
        return self._site.run(self.cluster, Misfortune("", table=table, files=files), self.directory)

    def summary(self, own: str) -> Session:
        table, row, _, _ = SUMMARY
        files = {"bridge/scripts/performance/setup_experiment.py": own, "clusters.yaml": self._clusters("H100", 8)}
        told = Misfortune("", options=("-k", row.partition("[")[0]), table=table.read_text(), files=files)
        return self._site.run(self.cluster, told, self.directory)

    def _clusters(self, accelerator: str, per_node: int) -> str:
        return CLUSTERS.format(directory=self.directory, accelerator=accelerator, per_node=per_node)


@pytest.fixture
def bridge(tmp_path: Path, slurm8: SlurmCluster) -> Iterator[Bridge]:
    site = Site(tmp_path)
    yield Bridge(site, slurm8, tmp_path)
    site.close()
    slurm8.cancel_all()


def the_row(session: Session) -> str:
    (outcome,) = session.rows().values()
    return outcome


def test_a_row_of_a_card(bridge: Bridge) -> None:
    session = bridge.card(script(512, 2.0, 4096, "mxfp8"))
    assert the_row(session) == "passed", session.output
    told = (bridge.directory / "bridge" / "scripts" / "training" / "arguments").read_text().splitlines()
    assert told == [
        *("--offline", "--recipe", "tiny_pretrain_8gpu_gb200_fp8mx_config", "--max_steps", "50"),
        *('dataset.blend=[["a b",null]]', "logger.save_config_filepath=/nemo_run/configs/ConfigContainer.yaml"),
        *("--nodes", "2", "--gpus-per-node", "4", "--container-image", "nvcr.io/nvidia/nemo:26.08"),
        *("--account", "root", "--partition", "batch", "--time", "00:30:00"),
        *("--additional_slurm_params", "mem=50M;nice=3"),
    ]
    log = next(bridge.directory.glob("stage/workloads/*/experiments/*/*/*/log-*_0.out"))
    job = log.name.split("_")[-2]
    facts = bridge.cluster.run("sacct", "-X", "-n", "-P", "-j", job, "-o", "NNodes,ReqMem,TimelimitRaw").strip()
    assert facts == "2|100M|30"


def test_a_row_of_a_summary(bridge: Bridge) -> None:
    _, row, batch, step_time_s = SUMMARY
    session = bridge.summary(script(batch, step_time_s, 8192, "tensorwise"))
    assert session.rows() == {row: "passed"}, session.output
    told = (bridge.directory / "bridge" / "scripts" / "performance" / "arguments").read_text().splitlines()
    assert {"nemotron_3_nano", "fp8_cs", "h100", "nvcr.io/nvidia/nemo:26.06"} <= {*told}


@pytest.mark.parametrize(
    ("batch", "step_time_s", "length", "recipe", "fact"),
    [
        (512, 2.5, 4096, "mxfp8", "throughput 838,861 tokens/s is 20.0 % below the documented 1,048,576 (allowed 5 %)"),
        (256, 1.0, 4096, "mxfp8", "the log belongs to another run, by its global batch size"),
        (512, 1.0, 2048, "mxfp8", "the run was not the row's: sequence length 2048 in the log, 4096 in the row"),
        (
            512,
            2.0,
            4096,
            "tensorwise",
            "the run was not the row's: precision fp8_tensorwise in the log, mxfp8 in the row",
        ),
    ],
    ids=["slow", "batch", "length", "precision"],
)
def test_a_run_that_is_not_the_rows(
    bridge: Bridge, batch: int, step_time_s: float, length: int, recipe: str, fact: str
) -> None:
    session = bridge.card(script(batch, step_time_s, length, recipe))
    assert the_row(session) == fact, session.output


def test_a_run_of_nine_steps_has_no_mean_of_the_last_ten(bridge: Bridge) -> None:
    own = script(512, 2.0, 4096, "mxfp8").replace("step <= 50; step++", "step <= 9; step++")
    assert the_row(bridge.card(own)) != "passed"


def test_ctrl_c_ends_the_job(bridge: Bridge) -> None:
    ready = bridge.directory / "ready"
    session = bridge.card(script(512, 2.0, 4096, "mxfp8", more=f'echo "$SLURM_JOB_ID" >{ready}; sleep 300\n'))
    job_id = session.job_id()
    session.process.send_signal(signal.SIGINT)
    assert f"job {job_id}" in the_row(session), session.output
    bridge.cluster.wait_until(lambda: not bridge.cluster.run("squeue", "-h").strip(), "an empty queue", 60)


def test_another_container_is_refused_before_anything_is_submitted(bridge: Bridge) -> None:
    more = "    environment: {RUN_CONF_IMAGE: /images/nvidia+nemo+26.06.sqsh}\n"
    session = bridge.card(script(512, 2.0, 4096, "mxfp8"), more=more)
    assert the_row(session) == wording("image of the environment", documented="nemo:26.08", image="nemo:26.06")
    assert not bridge.cluster.run("squeue", "-h").strip()
    assert not (bridge.directory / "stage").exists()


def test_a_script_that_takes_other_nodes_than_the_row_has(bridge: Bridge) -> None:
    own = script(512, 2.0, 4096, "mxfp8").replace("unset STAGE_PATH", "unset STAGE_PATH; JOB_TOTAL_GPUS=16")
    session = bridge.card(own)
    outcome = the_row(session)
    assert outcome.endswith(wording("nodes of the row", nodes=4, wanted=2)), session.output
