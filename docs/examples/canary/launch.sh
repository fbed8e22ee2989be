#!/bin/bash
#SBATCH --ntasks-per-node=8
#SBATCH --exclusive
#SBATCH --time=0:10:00

# The recipe of the canary: NVIDIA's nccl-tests (all_reduce_perf, built with MPI=1, on the PATH), one cycle a line.

set -eu -o pipefail

: "${STAGE_PATH:?is not set: the staging area, under which results are written}"
gpus=$(( SLURM_JOB_NUM_NODES * RUN_CONF_GPU_PER_NODE ))
results=$STAGE_PATH/results/canary/$DTYPE/$MODEL_SIZE/$gpus
log=$results/log-nccl-tests_all_reduce_${MODEL_SIZE}_${gpus}_$SLURM_JOB_ID.out
mkdir -p "$results"

test=(all_reduce_perf -b 1G -e 1G -g 1 -w 5 -n 20 -N 20)
if [[ -z ${GSW_LOCAL:-} ]] && command -v srun >/dev/null; then
    test=(srun --mpi=pmix "${test[@]}")
fi

{
    echo "GSW: MODEL=all_reduce FRAMEWORK=nccl-tests MODEL_SIZE=$MODEL_SIZE JOB_NUM_NODES=$SLURM_JOB_NUM_NODES" \
        "GPUS_PER_NODE=$RUN_CONF_GPU_PER_NODE DTYPE=$DTYPE JOB_ID=$SLURM_JOB_ID"
    # Columns: size, count, type, redop, root, time in microseconds, and more. A line of MaxText's has a loss; nothing is
    # trained here, so it is 0.
    NCCL_DEBUG=VERSION "${test[@]}" 2>&1 | awk '
        { print }
        $1 == 1073741824 { printf "completed step: %d, seconds: %.6f, loss: 0.000, all-reduce of %s bytes\n", n++, $6 / 1e6, $1 }'
} >"$log"
