#!/bin/bash
#SBATCH --time=0:10:00
# The launch script of Heron 7B. Like a real one it starts one log below the staging area and a program on the job's
# nodes. Unlike a real one it trains nothing: train.sh writes lines such as MaxText writes.
set -eu -o pipefail
: "${STAGE_PATH:?the staging area, which all nodes see}" "${DTYPE:?}" "${MODEL_SIZE:?}" "${RUN_CONF_GPU_PER_NODE:?}"

export GSW_VERSION=1.0 JOB_TOTAL_GPUS=$((SLURM_JOB_NUM_NODES * RUN_CONF_GPU_PER_NODE))
results=$STAGE_PATH/results/$GSW_VERSION/$DTYPE/$MODEL_SIZE/$JOB_TOTAL_GPUS
mkdir -p "$results"
srun --nodes=1 --ntasks=1 --output="$results/log-maxtext_heron_${MODEL_SIZE}_${JOB_TOTAL_GPUS}_$SLURM_JOB_ID.out" ./train.sh
