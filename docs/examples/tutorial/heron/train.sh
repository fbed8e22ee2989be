#!/bin/bash
# Fifty steps of a training that does not happen: each takes as long as the README says, and a little noise.
#   HERON_NCCL  the release of NCCL; with 2.23.4 a step on two nodes or more takes 12 % longer
#   HERON_SLOW  a number of GPUs on which it takes 9 % longer
set -eu
nccl=${HERON_NCCL:-2.21.5}
echo "GSW: MODEL=heron FRAMEWORK=maxtext MODEL_SIZE=$MODEL_SIZE DTYPE=$DTYPE GSW_VERSION=$GSW_VERSION" \
    "GPUS_PER_NODE=$RUN_CONF_GPU_PER_NODE JOB_NUM_NODES=$SLURM_JOB_NUM_NODES JOB_ID=$SLURM_JOB_ID"
echo "NCCL version $nccl+cuda12.4"
case $JOB_TOTAL_GPUS in 8) seconds=2.048 ;; 16) seconds=2.080 ;; *) seconds=2.125 ;; esac
factor=1
if [[ $nccl == 2.23.4 && $SLURM_JOB_NUM_NODES -gt 1 ]]; then factor=1.12; fi
if [[ ${HERON_SLOW:-} == "$JOB_TOTAL_GPUS" ]]; then factor=1.09; fi
awk -v seconds="$seconds" -v factor="$factor" -v seed="$SLURM_JOB_ID" 'BEGIN {
    srand(seed)
    job = 1 + 0.004 * (rand() - 0.5)  # jobs differ more than the steps of one job
    for (step = 0; step < 50; step++)
        printf "completed step: %d, seconds: %.3f, TFLOP/s/device: 412.0, loss: %.3f\n", \
            step, seconds * factor * job * (1 + 0.002 * (rand() - 0.5)), 11 / (1 + step / 20)
}'
