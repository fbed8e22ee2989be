#!/bin/bash
#SBATCH --time=30

# The one job that all contenders submit: it sleeps, and leaves a MaxText log of ten steps
# where a recipe leaves it. Everything but mkdir and sleep is done by bash itself.

set -eu

gpus=$((SLURM_JOB_NUM_NODES * RUN_CONF_GPU_PER_NODE))
directory=$STAGE_PATH/results/25.01/$DTYPE/$MODEL_SIZE/$gpus
log=$directory/log-maxtext_llama2_${MODEL_SIZE}_${gpus}_$SLURM_JOB_ID.out
[[ -d $directory ]] || mkdir -p "$directory"
printf 'GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=%s DTYPE=%s JOB_NUM_NODES=%s GPUS_PER_NODE=%s JOB_ID=%s\n' \
    "$MODEL_SIZE" "$DTYPE" "$SLURM_JOB_NUM_NODES" "$RUN_CONF_GPU_PER_NODE" "$SLURM_JOB_ID" >"$log"
sleep "$BENCH_JOB_S"
for step in {0..9}; do
    printf 'completed step: %d, seconds: 4.300, TFLOP/s/device: 846.1, Tokens/s/device: 1905.1, loss: 9.021\n' "$step"
done >>"$log"
