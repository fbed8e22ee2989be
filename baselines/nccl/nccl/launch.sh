#!/bin/bash
#SBATCH --job-name=nccl_tests
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --time=1:00:00

# A collective of nccl-tests (https://github.com/NVIDIA/nccl-tests, or rccl-tests), one task for each GPU.
#
#   STAGE_PATH                         staging area; results go to $STAGE_PATH/results/...
#   DTYPE                              the datatype: float, half, bfloat16, ...
#   NCCL_TESTS_COLLECTIVE              the collective: all_reduce, all_gather, alltoall, ...
#   NCCL_TESTS_DIR                     directory of all_reduce_perf and the others, built with MPI=1; else they are in PATH
#   NCCL_TESTS_MIN, NCCL_TESTS_MAX     smallest and largest size (8M and 16G), each twice the one before
#   NCCL_TESTS_ITERS                   measured iterations of each size (20)
#   NCCL_TESTS_MPI                     MPI of srun (pmix)
#   IMAGE                              container image, for pyxis; without it the programs of the nodes run
#   NCCL_TESTS_MOUNTS                  mounts of the container
#   RUN_CONF_GPU_PER_NODE              tasks on each node
#
# Variables of NCCL, such as NCCL_IB_HCA, reach the programs as the cluster's table sets them.

set -eu -o pipefail

: "${STAGE_PATH:?is not set: the staging area, under which results are written}"
: "${NCCL_TESTS_COLLECTIVE:?is not set: the collective, such as all_reduce}"
export MODEL=$NCCL_TESTS_COLLECTIVE FRAMEWORK=nccl-tests GSW_VERSION=1 DTYPE=${DTYPE:-float}
gpus_per_node=${RUN_CONF_GPU_PER_NODE:-${SLURM_NTASKS_PER_NODE:-8}}
gpus=$(( SLURM_JOB_NUM_NODES * gpus_per_node ))

results=$STAGE_PATH/results/$GSW_VERSION/$DTYPE/any/$gpus
log=$results/log-${FRAMEWORK}_${MODEL}_any_${gpus}_$SLURM_JOB_ID.out
mkdir -p "$results"

echo "GSW: MODEL=$MODEL FRAMEWORK=$FRAMEWORK DTYPE=$DTYPE GSW_VERSION=$GSW_VERSION GPUS_PER_NODE=$gpus_per_node" \
    "JOB_NUM_NODES=$SLURM_JOB_NUM_NODES JOB_ID=$SLURM_JOB_ID IMAGE='${IMAGE:-}'" >"$log"

program=${NCCL_TESTS_DIR:+$NCCL_TESTS_DIR/}${NCCL_TESTS_COLLECTIVE}_perf
test=("$program" -b "${NCCL_TESTS_MIN:-8M}" -e "${NCCL_TESTS_MAX:-16G}" -f 2 -g 1 -d "$DTYPE" -n "${NCCL_TESTS_ITERS:-20}")

if [[ -n ${GSW_LOCAL:-} ]]; then
    # One process with all GPUs of this machine.
    "${test[@]}" -t "$gpus_per_node" >>"$log" 2>&1
    exit
fi
container=()
if [[ -n ${IMAGE:-} ]]; then
    container=(--container-image="$IMAGE")
    if [[ -n ${NCCL_TESTS_MOUNTS:-} ]]; then
        container+=(--container-mounts="$NCCL_TESTS_MOUNTS")
    fi
fi
srun --mpi="${NCCL_TESTS_MPI:-pmix}" --ntasks="$gpus" --ntasks-per-node="$gpus_per_node" --kill-on-bad-exit=1 \
    --open-mode=append --output="$log" ${container[@]+"${container[@]}"} "${test[@]}"
