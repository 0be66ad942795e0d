# Kills a command and every process that it started, in the pid namespace that this runs in.
# $1 is the command's process id, $2 when it began: fields 1 and 22 of its /proc/<pid>/stat.
#
# What began later was started by the command, unless it is an elder's: an elder began earlier, or came
# from outside of the namespace (its parent is 0), as this script did. An elder's are its descendants,
# and all in its session, for a session can be left but never joined. PID 1 is an elder only for its
# session, because orphans become its children.
#
# Only what is built into bash is used: there may be no process id left to fork with, and the
# environment's programs may have been replaced. Naps are reads from a silent stdin.
# Exit code 0: all are dead. 1: some live on, after 20 seconds. 2: /proc cannot be read.

root=$1 since=$2
exec 2>&- # errors about processes that end while they are looked at
shopt -s nullglob
SECONDS=0

# scan lists in victims what is to be killed and lives.
scan() {
    local path line pid ancestor tasks
    local -a parent=() session=() state=() elder=() elders_session=()
    victims=()
    for path in /proc/[0-9]*/stat; do
        IFS= read -r line <"$path" || continue
        pid=${line%% *}
        set -- ${line##*) } # state, parent, process group, session, ...
        state[pid]=$1 parent[pid]=$2 session[pid]=$4
        ((pid != 1 && (${20} < since || $2 == 0 && pid != root))) && elder[pid]=1
        (($4 > 0 && (pid == 1 || elder[pid]))) && elders_session[$4]=1
    done
    [[ ${state[1]} ]] || exit 2
    for pid in "${!state[@]}"; do
        ((pid == 1)) || [[ ${elders_session[session[pid]]} ]] && continue
        ancestor=$pid
        while ((ancestor > 1)) && [[ ! ${elder[ancestor]} ]]; do
            ancestor=${parent[ancestor]:-0}
        done
        ((ancestor > 1)) && continue
        if [[ ${state[pid]} == [ZXx] ]]; then
            tasks=(/proc/"$pid"/task/*) # the first thread may be dead and others not
            ((${#tasks[@]} < 2)) && continue
        fi
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
