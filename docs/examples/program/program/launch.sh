#!/bin/bash

# The recipe of a program: the row's command `new` and its command `base` in turn, PAIRS times.

set -eu -o pipefail

: "${STAGE_PATH:?is not set: the staging area, under which results are written}"
: "${GSW_ROW_BASE:?is not set: the command before the change}"
: "${GSW_ROW_NEW:?is not set: the command after the change}"
results=$STAGE_PATH/results/1/$DTYPE/any/1
mkdir -p "$results"
{
    echo "GSW: MODEL=$PROGRAM FRAMEWORK=program DTYPE=$DTYPE GPUS_PER_NODE=1 JOB_NUM_NODES=1 JOB_ID=$SLURM_JOB_ID"
    python3 in_turn.py "$GSW_ROW_BASE" "$GSW_ROW_NEW" "${PAIRS:-4}"
} >"$results/log-program_${PROGRAM}_any_1_$SLURM_JOB_ID.out" 2>&1
