#!/bin/bash
#SBATCH --job-name=smoke_gpt
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=0:30:00

# A recipe that really trains: a small Llama on synthetic tokens, by Hugging Face's Trainer.
#
#   STAGE_PATH                    staging area; results go to $STAGE_PATH/results/...
#   DTYPE, MODEL_SIZE             what to train: fp32 or bf16, and a size that train.py knows
#   ACCELERATOR                   what it trains on: CPU, or any GPU
#   GBS, MBS, SEQ_LEN, MAX_STEPS  global batch size, micro-batch size, sequence length, training steps
#   RUN_CONF_GPU_PER_NODE         processes on each node: one for each GPU, or, without GPUs, for each core used
#   RUN_CONF_PYTHON               a Python that has torch, transformers and accelerate (default python3)
#   SMOKE_FAULT                   a fault to show that it is found: slow:30%, oom, nan or hang
#
# sbatch runs a copy of this script from its spool directory, so nothing here may be looked
# for beside "$0"; the working directory is the one that the job was submitted from.

set -eu -o pipefail

: "${STAGE_PATH:?is not set: the staging area, under which results are written}"
: "${MODEL_SIZE:?is not set: the size of the model, such as 20m}"
: "${DTYPE:?is not set: the number format, fp32 or bf16}"
export DTYPE=${DTYPE,,} MODEL_SIZE=${MODEL_SIZE,,}

export MODEL=smoke_gpt FRAMEWORK=huggingface GSW_VERSION=1
export GPUS_PER_NODE=${RUN_CONF_GPU_PER_NODE:-${SLURM_NTASKS_PER_NODE:-8}}
export JOB_TOTAL_GPUS=$(( SLURM_JOB_NUM_NODES * GPUS_PER_NODE ))

RESULT_DIR=$STAGE_PATH/results/$GSW_VERSION/$DTYPE/$MODEL_SIZE/$JOB_TOTAL_GPUS
LOG=$RESULT_DIR/log-${FRAMEWORK}_${MODEL}_${MODEL_SIZE}_${JOB_TOTAL_GPUS}_$SLURM_JOB_ID.out
mkdir -p "$RESULT_DIR"

# Without a GPU, a process is one thread: so many of them as there are cores can run side by side.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export PYTHONUNBUFFERED=1
python=${RUN_CONF_PYTHON:-python3}

export WORLD_SIZE=$JOB_TOTAL_GPUS
if [[ -z ${GSW_LOCAL:-} ]]; then
    # Rank 0 runs where srun does, on the job's first node, whose address srun tells; the port is the job's own.
    unset RANK LOCAL_RANK MASTER_ADDR
    export MASTER_PORT=$(( 10000 + SLURM_JOB_ID % 20000 ))
    srun --ntasks="$JOB_TOTAL_GPUS" --ntasks-per-node="$GPUS_PER_NODE" --kill-on-bad-exit=1 \
        --output="$LOG" "$python" train.py
elif (( JOB_TOTAL_GPUS > 1 )); then
    "$python" -m torch.distributed.run --standalone --nproc-per-node="$JOB_TOTAL_GPUS" train.py >"$LOG" 2>&1
else
    "$python" train.py >"$LOG" 2>&1
fi
