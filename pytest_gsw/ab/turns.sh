#!/bin/bash
# The turns of one comparison: the recipe's own launch script, once a turn, in one allocation.
#
#   GSW_AB_DIRECTORY   where each turn leaves its log, its output and how it ended: 1-A, 2-B, 3-B, 4-A ...
#   GSW_AB_ORDER       the sides, turn by turn: "A B B A"
#   GSW_AB_SCRIPT      the launch script, which is run in the directory that the job starts in
#   GSW_AB_LOGS        pattern of the job's logs, with {job_id} for the job's id
#   GSW_AB_LIMIT_S     how long one turn may take; empty for no limit
#   GSW_AB_NAMES_A     names of the variables of side A, whose values are in GSW_AB_A_<name>; B likewise
#
# pytest-gsw compare-ab sets them all, and puts the launch script's own #SBATCH lines below the first line. This needs
# bash 4.2, and of coreutils mkdir, mv and timeout: compute nodes have no more for sure.
#
# A turn that fails is a result like any other. What keeps turns apart must not fail: then the job ends.

set -eu -o pipefail
shopt -s nullglob

# What the recipe has written under this job's id, into GSW_AB_FOUND.
find_logs() {
    local IFS= # a pattern may hold blanks
    # shellcheck disable=SC2206 # it is to be expanded
    GSW_AB_FOUND=(${GSW_AB_LOGS//\{job_id\}/$SLURM_JOB_ID})
}

# The recipe names its log by the job's id, which is the same for every turn.
put_aside() { # DIRECTORY
    local log aside
    find_logs
    if ((!${#GSW_AB_FOUND[@]})); then
        return # bash 4.2 takes an empty array for an unset variable
    fi
    for log in "${GSW_AB_FOUND[@]}"; do
        aside=$1/${log#"$STAGE_PATH"/}
        mkdir -p "${aside%/*}"
        mv "$log" "$aside"
        if [[ -e ${log%.out}.err ]]; then
            mv "${log%.out}.err" "${aside%.out}.err"
        fi
    done
}

# All names are such as no setting may have. A variable that cannot be set makes the turn fail, or it would be
# a turn of the other side.
turn() (
    set -- ${GSW_AB_LIMIT_S:+timeout --kill-after=60 "$GSW_AB_LIMIT_S"} bash "$GSW_AB_SCRIPT"
    GSW_AB_NAMES=GSW_AB_NAMES_$GSW_AB_SIDE
    for GSW_AB_NAME in ${!GSW_AB_NAMES}; do
        GSW_AB_VALUE=GSW_AB_${GSW_AB_SIDE}_$GSW_AB_NAME
        export "$GSW_AB_NAME=${!GSW_AB_VALUE}" || exit 1
    done
    unset "${!GSW_AB_@}"
    exec "$@"
)

GSW_AB_SEED=${GSW_DEMO_SEED:-} # the simulated recipe makes the same noise of the same seed

find_logs
if ((${#GSW_AB_FOUND[@]})); then
    echo "job $SLURM_JOB_ID has not begun, and there is its log: ${GSW_AB_FOUND[0]}" >&2
    echo "An earlier job had the same id; move its results away." >&2
    exit 1
fi

GSW_AB_TURN=0
for GSW_AB_SIDE in $GSW_AB_ORDER; do
    GSW_AB_TURN=$((GSW_AB_TURN + 1))
    GSW_AB_PLACE=$GSW_AB_DIRECTORY/$GSW_AB_TURN-$GSW_AB_SIDE
    echo "turn $GSW_AB_TURN, side $GSW_AB_SIDE"
    mkdir "$GSW_AB_PLACE"
    if [[ $GSW_AB_SEED ]]; then
        export GSW_DEMO_SEED=$GSW_AB_SEED-$GSW_AB_TURN
    fi
    printf -v GSW_AB_START_S '%(%s)T' -1
    GSW_AB_EXIT_CODE=0
    turn </dev/null >"$GSW_AB_PLACE/output" 2>&1 || GSW_AB_EXIT_CODE=$?
    printf -v GSW_AB_END_S '%(%s)T' -1
    put_aside "$GSW_AB_PLACE"
    # Under its name it is there whole or not at all, and after all that belongs to the turn.
    printf '{"job_id": "%s", "exit_code": %d, "start_s": %d, "end_s": %d}\n' \
        "$SLURM_JOB_ID" "$GSW_AB_EXIT_CODE" "$GSW_AB_START_S" "$GSW_AB_END_S" >"$GSW_AB_PLACE/ended.part"
    mv "$GSW_AB_PLACE/ended.part" "$GSW_AB_PLACE/ended.json"
done
