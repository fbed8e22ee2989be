"""Skeletons of the recipes of release 25.04 and later, in our own words, with a stand-in for what they train."""

from __future__ import annotations

from tests.integration.conftest import tiny_table

#: Ten steps of fifty, as the recipes' own tools measure.
TABLE = tiny_table("gpus: 8, step_time_s: 1.000, line: 10, statistic: 'mean[35:44]'", framework="nemo").replace(
    "steps: 20", "steps: 50"
)

#: Of a project whose recipe submits its job itself; sessions put its directory in.
CLUSTERS = """\
clusters:
  eos:
    scheduler: slurm
    launcher: nemo-run
    accelerator: H100
    partition: batch
    gpus_per_node: 8
    stage: {directory}/install
    recipes: {directory}/recipes
    sbatch: [--mem=50M]
    environment: {LLMB_INSTALL: {directory}/install}
"""
#: What a job of either kind trains: the log of one start of the job, in the format of NeMo 2.
TRAIN = """\
steps() {{ # LOG [LAST]
    for ((step = 0; step <= ${{2:-49}}; step++)); do
        echo "Training epoch 0, iteration $step/49 | lr: 1e-05 | global_batch_size: 64 | global_step: $step |" \\
            "reduced_train_loss: 9.021 | train_step_timing in s: ${{SECONDS_PER_STEP:-1.000}} | consumed_samples: 640"
    done >>"$1"
}}
"""

#: A launch script as NeMo-Run makes of a recipe: it submits the job itself, under a name of its own, and says so.
NEMO_RUN = (
    """\
#!/bin/bash
set -eu -o pipefail
{begin}
: "${{ADDITIONAL_SLURM_PARAMS=}}" "${{SBATCH_PARTITION:?}}" "${{JOB_TOTAL_GPUS:?}}" "${{GPU_TYPE:?}}"
if [ -n "${{STAGE_PATH+x}}" ]; then echo "STAGE_PATH is deprecated"; exit 1; fi
title=pretrain_tiny_${{MODEL_SIZE}}_${{DTYPE}}_gpus${{JOB_TOTAL_GPUS}}
experiment=$LLMB_INSTALL/workloads/pretrain_tiny/experiments/$title/${{title}}_$(date +%s%N)/$title
mkdir -p "$experiment"
nodes=$(((JOB_TOTAL_GPUS + GPUS_PER_NODE - 1) / GPUS_PER_NODE))
{{
    echo '#!/bin/bash'
    echo "#SBATCH --account=root"
    echo "#SBATCH --job-name=root-root.$title"
    echo "#SBATCH --nodes=$nodes"
    echo "#SBATCH --output=$experiment/sbatch_root-root.${{title}}_%j.out"
    echo "#SBATCH --time=${{TIME_LIMIT:-00:30:00}}"
    IFS=';'
    for parameter in $ADDITIONAL_SLURM_PARAMS; do echo "#SBATCH --$parameter"; done
    cat <<'SCRIPT'
"""
    + TRAIN
    + """\
{body}
SCRIPT
}} >"$experiment/sbatch.sh"
id=$(LOG=$experiment/log-root-root.$title EXPERIMENT=$experiment sbatch --requeue --parsable {sbatch} "$experiment/sbatch.sh")
{submitted}
echo "Experiment Status for ${{title}}_1"
echo
echo "Task 0: $title"
echo "- Status: RUNNING"
echo "- Executor: SlurmExecutor on $(id -un)@localhost"
echo "- Job id: $id"
echo "- Local Directory: $experiment"
echo "- Remote Directory: $experiment"
echo
echo "# You can inspect and reconstruct this experiment at a later point in time using:"
"""
)

#: What its job does by default.
PERFECT = 'steps "${LOG}_${SLURM_JOB_ID}_${SLURM_RESTART_COUNT:-0}.out"'

#: A script that sbatch is given, with a directory of the experiment's own.
CONFIGURED = (
    """\
#!/bin/bash
#SBATCH --mem=50M
set -eu -o pipefail
"""
    + TRAIN
    + """\
LOG=$LLMB_EXPERIMENT_DIR/log-tiny
{body}
"""
)

#: A script that sbatch is given, and that names its log itself.
NAMED = (
    """\
#!/bin/bash
#SBATCH --mem=50M
set -eu -o pipefail
export GPU_TYPE=${{GPU_TYPE:?}}
export LLMB_WORKLOAD=${{LLMB_INSTALL:?}}/workloads/tiny
export SLURM_LOG_DIR={logs}
mkdir -p $SLURM_LOG_DIR
RUN_TIMESTAMP=$(date +"%Y%m%d_%H%M%S")
"""
    + TRAIN
    + """\
export -f steps
srun --mem=0 \\
    --output $SLURM_LOG_DIR/tiny_${{JOB_TOTAL_GPUS:?}}gpus_{name}.out \\
    --error $SLURM_LOG_DIR/tiny_${{JOB_TOTAL_GPUS:?}}gpus_{name}.err \\
    bash -c "steps /dev/stdout"
"""
)


def nemo_run(body: str = PERFECT, *, begin: str = ":", submitted: str = ":", sbatch: str = "") -> str:
    """A launch script that submits its job itself.

    Args:
        body: What the job does.
        begin: What the script does before it submits.
        submitted: What it does when it has, and has not yet said so.
        sbatch: Further options of its sbatch.
    """
    return NEMO_RUN.format(body=body, begin=begin, submitted=submitted, sbatch=sbatch)


def configured(body: str = PERFECT) -> str:
    """A script for sbatch that writes to its experiment's directory."""
    return CONFIGURED.format(body=body)


#: A project whose recipe fine-tunes: staged by STAGE_PATH, as that of v25.04 is.
FINETUNE_CLUSTERS = CLUSTERS.replace(
    "environment: {LLMB_INSTALL: {directory}/install}",
    "account: root\n    environment: {HF_TOKEN: of-nobody, NEMORUN_HOME: {directory}/install/logs}",
)
#: A launch script that asks what that one asks, and submits two jobs: the import of a checkpoint on one node, and the
#: training, which waits for it. What the training does depends on the kind that the script has asked for.
FINETUNE = (
    """\
#!/bin/bash
set -eu -o pipefail
export STAGE_PATH=${{STAGE_PATH?"is not set"}}
export HF_TOKEN=${{HF_TOKEN?"is not set"}}
export NEMORUN_HOME=${{NEMORUN_HOME:-$STAGE_PATH/logs}}
export DTYPE=${{DTYPE:-bf16}}
export MODEL_SIZE=${{MODEL_SIZE:-8b}}
export {scheme}=${{{scheme}:-'lora'}}
export JOB_TOTAL_GPUS=${{JOB_TOTAL_GPUS:-8}}
export RUN_CONF_GPUS_PER_NODE=${{RUN_CONF_GPUS_PER_NODE:-8}}
nodes=$((JOB_TOTAL_GPUS / RUN_CONF_GPUS_PER_NODE))
title=${{{scheme}}}_own_${{MODEL_SIZE}}_${{DTYPE}}_${{JOB_TOTAL_GPUS}}
id=${{title}}_$(date +%s)
home=$NEMORUN_HOME/experiments/$title/${{id}}_$$
submit() {{ # NAME NODES OPTION...
    mkdir -p "$home/$1"
    {{
        echo '#!/bin/bash'
        echo "#SBATCH --account=$SBATCH_ACCOUNT"
        echo "#SBATCH --partition=$SBATCH_PARTITION"
        echo "#SBATCH --job-name=$SBATCH_ACCOUNT-own.$1"
        echo "#SBATCH --nodes=$2"
        echo "#SBATCH --output=$home/$1/sbatch_own.$1_%j.out"
        echo "#SBATCH --time=00:30:00"
        cat
    }} >"$home/$1_sbatch.sh"
    LOG=$home/$1/log-own.$1 KIND=${{{scheme}}} sbatch --requeue --parsable "${{@:3}}" "$home/$1_sbatch.sh"
}}
first=$(
    submit import 1 <<'SCRIPT'
exec >"${{LOG}}_${{SLURM_JOB_ID}}_0.out" 2>&1
{imports}
SCRIPT
)
second=$(
    submit "$title" "$nodes" --dependency="afterok:$first" <<'SCRIPT'
"""
    + TRAIN
    + """\
case $KIND in sft) SECONDS_PER_STEP=1.000 ;; *) SECONDS_PER_STEP=0.700 ;; esac
{body}
SCRIPT
)
echo "Experiment Status for $id"
number=0
for task in "import $first" "$title $second"; do
    echo
    echo "Task $number: ${{task% *}}"
    echo "- Status: PENDING"
    echo "- Executor: SlurmExecutor on $(id -un)@localhost"
    echo "- Job id: ${{task#* }}"
    echo "- Local Directory: $home/${{task% *}}"
    number=$((number + 1))
done
"""
)


def finetune(body: str = PERFECT, *, imports: str = "echo imported", scheme: str = "FT_TYPE") -> str:
    """A launch script that imports a checkpoint in a job of its own before it trains.

    Args:
        body: What the training does.
        imports: What the import does.
        scheme: The variable that the script reads for the kind of training.
    """
    return FINETUNE.format(body=body, imports=imports, scheme=scheme)
