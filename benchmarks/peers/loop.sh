#!/bin/bash
# What one would type: one sbatch after another, then one squeue an interval until no job is left.
#
#   loop.sh JOBS INTERVAL_S OPTION… SCRIPT

set -eu

jobs=$1 interval_s=$2
shift 2
for ((number = 1; number <= jobs; number++)); do
    sbatch --parsable -J "loop-$number" "$@"
done
while queued=$(squeue -h --me -o %i) && [[ -n $queued ]]; do
    sleep "$interval_s"
done
