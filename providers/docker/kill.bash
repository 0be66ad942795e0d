# Kills every process that a command started, and the command, in the pid namespace that this runs
# in. $1 is when the command began: field 22 of its /proc/<pid>/stat, in clock ticks.
#
# What began later was started by the command, unless it descends from something older that is
# still alive: PID 1 does not count, for orphans become its children; but what shares a session with
# something older does, for a session can be left but never joined.
#
# Only what is built into bash is used: there may be no process id left to fork with, and the
# environment's programs may have been replaced. Naps are reads from a silent stdin.
# Exit code 0: all are dead. 1: some live on, after 20 seconds. 2: /proc cannot be read.

since=$1
exec 2>&- # the processes that end while they are looked at
shopt -s nullglob
SECONDS=0

# scan lists in victims what is to be killed and lives.
scan() {
    local path line pid ancestor tasks
    local -a parent=() session=() start=() state=() elders=()
    victims=()
    for path in /proc/[0-9]*/stat; do
        IFS= read -r line <"$path" || continue
        pid=${line%% *}
        set -- ${line##*) }
        state[pid]=$1 parent[pid]=$2 session[pid]=$4 start[pid]=${20}
        ((${20} < since || pid == 1)) && (($4 > 0)) && elders[$4]=1
    done
    [[ ${start[1]} ]] || exit 2
    for pid in "${!start[@]}"; do
        ((pid == 1 || pid == $$ || start[pid] < since)) && continue
        [[ ${elders[session[pid]]} ]] && continue
        if [[ ${state[pid]} == [ZXx] ]]; then
            tasks=(/proc/"$pid"/task/*) # the first thread may be dead and others not
            ((${#tasks[@]} < 2)) && continue
        fi
        ancestor=${parent[pid]}
        while ((ancestor > 1)) && [[ ${start[ancestor]} ]] && ((start[ancestor] >= since)); do
            ancestor=${parent[ancestor]}
        done
        ((ancestor > 1)) && [[ ${start[ancestor]} ]] && continue
        victims+=("$pid")
    done
}

# A stopped process starts no others: stop them all first, until no new ones appear.
stopped=()
while ((SECONDS < 10)); do
    scan
    fresh=()
    for pid in "${victims[@]}"; do
        [[ ${stopped[pid]} ]] || fresh+=("$pid")
        stopped[pid]=1
    done
    ((${#fresh[@]})) || break
    kill -STOP "${fresh[@]}"
done

while ((SECONDS < 20)); do
    scan
    ((${#victims[@]})) || exit 0
    kill -KILL "${victims[@]}"
    read -r -t 0.01
done
exit 1
