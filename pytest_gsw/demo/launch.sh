#!/bin/bash
#SBATCH --job-name=gsw_demo
#SBATCH --dependency=singleton
#SBATCH --exclusive
#SBATCH --time=1:00:00

# A recipe in the shape of the real ones, whose training is simulated: it uses no GPU and
# writes the log that the framework of a baseline row would write, at the documented speed.
#
#   STAGE_PATH                    staging area; results go to $STAGE_PATH/results/...
#   DTYPE, MODEL_SIZE             what to train, as for any recipe
#   MAX_STEPS                     more steps than the row's: with checkpoints below the staging area
#   GSW_BASELINE_FILE, GSW_ROW    the baseline row to simulate (pytest-gsw sets both)
#   GSW_DEMO_TRAINS               that row's model and framework; without it the Python below is asked
#   GSW_PYTHON                    a Python that has pytest-gsw
#   GSW_DEMO                      faults, such as 'grok1*=slow:12%;*=fail'
#   GSW_DEMO_SECONDS              how long the whole training takes in reality (default 1)
#   GSW_DEMO_SEED                 makes two runs of a row write the same figures
#
# sbatch runs a copy of this script from its spool directory, so nothing here may be looked
# for beside "$0"; the working directory is the one that the job was submitted from.

set -eu -o pipefail

: "${STAGE_PATH:?is not set: the staging area, under which results are written}"
DTYPE=${DTYPE:-fp8}
MODEL_SIZE=${MODEL_SIZE:-any}  # of a model that has but one
export MAX_STEPS=${MAX_STEPS:-}
export DTYPE=${DTYPE,,} MODEL_SIZE=${MODEL_SIZE,,}

export GSW_VERSION=${GSW_VERSION:-demo}
export GPUS_PER_NODE=${SLURM_NTASKS_PER_NODE:-${RUN_CONF_GPU_PER_NODE:-8}}
export JOB_TOTAL_GPUS=${SBATCH_GPUS:-$(( SLURM_JOB_NUM_NODES * GPUS_PER_NODE ))}

train=("${GSW_PYTHON:-python3}" -m pytest_gsw.demo.recipe)

# A real recipe trains one model with one framework and exports both here as constants.
trains=${GSW_DEMO_TRAINS:-$("${train[@]}" model-and-framework)}
read -r MODEL FRAMEWORK <<<"$trains"
export MODEL FRAMEWORK

version_dir=$GSW_VERSION
if [[ ${ENABLE_NCCL_TRACE:-false} == true ]]; then
    version_dir=$GSW_VERSION-nccl-trace
fi
RESULT_DIR=$STAGE_PATH/results/$version_dir/$DTYPE/$MODEL_SIZE/$JOB_TOTAL_GPUS
RESULT_FILES_NAME=log-${FRAMEWORK}_${MODEL}_${MODEL_SIZE}_${JOB_TOTAL_GPUS}
export GSW_DEMO_LOG=$RESULT_DIR/${RESULT_FILES_NAME}_$SLURM_JOB_ID.out
umask o-w  # results are nobody else's to write
mkdir -p "$RESULT_DIR"

if [[ -z ${GSW_LOCAL:-} ]] && command -v srun >/dev/null; then
    # One task stands for all ranks, whatever the job was given.
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --output="$GSW_DEMO_LOG" "${train[@]}"
else
    "${train[@]}" >"$GSW_DEMO_LOG" 2>&1 || {
        code=$?
        grep -a 'DUE TO NODE FAILURE' "$GSW_DEMO_LOG" >&2 || true
        exit "$code"
    }
fi
