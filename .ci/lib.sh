# Functions for .ci/run: what a machine needs is installed and started, and work goes on side by side.
# shellcheck shell=bash

image=debian:bookworm
newer_image=       # a second one, for tests of agents that need a newer Python
work=$(mktemp -d)
chmod 755 "$work" # other users' tests run in it
mkdir "$work/log" "$work/passed" "$work/took" "$work/times"
left_out=() # what did not run, and why, for the table at the end
changed=()         # settings of the machine to be restored: a file, and what it had
temporary=         # a directory for temporary files, whose path is short: it is that of sockets, too
current='the beginning'
declare -A running # what goes on in the background: the process of each name

finish() {
  local status=$? name n
  trap - EXIT
  for name in "${!running[@]}"; do
    kill -- "-${running[$name]}" 2> /dev/null || true
  done
  for name in "${!running[@]}"; do
    wait "${running[$name]}" 2> /dev/null || true
  done
  if [ "$status" -ne 0 ]; then # parts in the background may have failed, too, or have been stopped just now
    for name in "${!running[@]}"; do
      [ -e "$work/passed/$name" ] || printf '\n=== %s: not passed, the end of its output\n%s\n' "$name" "$(tail -n 100 "$work/log/$name")"
    done
  fi
  if [ "$status" -lt 128 ]; then
    keep_records || true
  fi
  if [ -e "$work/node" ]; then # a Kubernetes node
    .ci/kubernetes down "$work/node" || true
  fi
  if [ -e "$work/docker.pid" ]; then
    stop_docker
    umount --lazy "$work"/docker/netns/* 2> /dev/null || true # of containers that were running
  fi
  if [ -e "$work/podman" ]; then
    stop_podman || true
  fi
  for ((n = 0; n < ${#changed[@]}; n += 2)); do
    echo "${changed[n + 1]}" > "${changed[n]}" || true
  done
  if [ "$status" -ne 0 ]; then
    table || true
    printf '\nCI FAILED after %d s, in: %s\n' "$SECONDS" "$current"
  fi
  if mountpoint --quiet "$temporary"; then
    umount --lazy "$temporary" || true
  fi
  rm -rf --one-file-system "$work" "$temporary" || true
  exit "$status"
}

step() {
  current=$1
  printf '\n=== %s (%d s)\n' "$1" "$SECONDS"
}

# begin NAME COMMAND...: runs it in the background, in a group of processes of its own. Its output is kept for await.
begin() {
  local name=$1
  shift
  set -m
  (
    set +m
    began=$SECONDS
    "$@"
    times > "$work/times/$name" # of this shell and of its children
    computed=$(awk -F '[ ms]+' '{sum += 60 * ($1 + $3) + $2 + $4} END {printf "%.0f", sum}' "$work/times/$name")
    printf '%6d %6d\n' "$((SECONDS - began))" "$computed" > "$work/took/$name"
    printf 'took %d s, and %d s of processors\n' "$((SECONDS - began))" "$computed"
    : > "$work/passed/$name"
  ) > "$work/log/$name" 2>&1 < /dev/null &
  running[$name]=$!
  set +m
}

# await NAME...: waits for each, prints its output, and fails if it failed.
await() {
  local name
  for name in "$@"; do
    wait "${running[$name]}" || true # the shell may have forgotten its status
    kill -- "-${running[$name]}" 2> /dev/null || true # what it left
    unset "running[$name]"
    step "$name"
    cat "$work/log/$name"
    [ -e "$work/passed/$name" ] || return 1
  done
}

# queue NAME COMMAND [AFTER]: notes the command, a name without arguments, for work_off. It does not begin before AFTER has passed.
queued=()
queue() { queued+=("$1" "$2" "${3:-}"); }

# work_off N NAME...: runs what is queued, in this order and at most N at a time, and awaits each as soon as it ends. What is
# named does not count: it goes on anyway, or begins however many run.
work_off() {
  local most=$1 name count n begun
  shift
  while :; do
    count=0
    for name in "${!running[@]}"; do
      if [ -e "$work/passed/$name" ] || ! kill -0 "${running[$name]}" 2> /dev/null; then
        await "$name"
      elif [[ " $* " != *" $name "* ]]; then
        count=$((count + 1))
      fi
    done
    begun=''
    for ((n = 0; n < ${#queued[@]}; n += 3)); do
      if [ "$count" -ge "$most" ] && [[ " $* " != *" ${queued[n]} "* ]]; then
        continue
      fi
      if [ -z "${queued[n + 2]}" ] || [ -e "$work/passed/${queued[n + 2]}" ]; then
        begin "${queued[n]}" "${queued[n + 1]}"
        queued=("${queued[@]:0:n}" "${queued[@]:n+3}")
        begun=1
        break
      fi
    done
    if [ -z "$begun" ]; then
      [ $((${#queued[@]} + count)) -gt 0 ] || return 0
      sleep 0.5
    fi
  done
}

# longest_first PACKAGE...: prints the packages that it reads, these first.
longest_first() {
  local names name
  names=$(cat)
  [ -n "$names" ] || return 0
  for name in "$@"; do
    grep -xF -- "$name" <<< "$names" || true
  done
  grep -vxF -- "$(printf '%s\n' "$@")" <<< "$names" || true
}

# divide MACHINE PURE: notes in four arrays how the packages that it reads are tested. Files name those whose tests look at the machine, and
# those that only compute. What has passed is in none of the arrays.
#
# A package that the change reaches is in race, or, if it only computes, in pure. Others, whose tests are those of the commit that the change
# begins at, are tested without the race detector: in cached, where Go may know that they pass, because their tests ask for nothing of the machine.
divide() {
  local package
  race=() pure=() others=() cached=()
  while read -r package; do
    case ${state["tests $package"]} in
      passed) continue ;;
      same)
        if grep -qxF -- "$package" "$1"; then
          others+=("$package")
        else
          cached+=("$package")
        fi
        ;;
      *)
        if grep -qxF -- "$package" "$2"; then
          pure+=("$package")
        else
          race+=("$package")
        fi
        ;;
    esac
  done
}

# table prints how long each part took, how much of that it computed, and what was left out.
table() {
  local file
  printf '\n=== seconds of each part, and of processors in it; several parts run at a time\n'
  for file in "$work"/took/*; do
    [ ! -e "$file" ] || printf '%s  %s\n' "$(< "$file")" "${file##*/}"
  done | sort -nr
  [ ${#left_out[@]} -eq 0 ] || printf '   left out: %s\n' "${left_out[@]}"
}

cache=${ROLLOUT_CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rollout-ci} # outlives the run
mkdir -p "$cache/passed"
cache=$(cd "$cache" && pwd)

# plan finds out what has to run: the parts of internal/test/testsets, and their states. What a part depends on is its inputs, which have
# a digest. If the cache has a record that a part with this digest has passed here, it is left out. Where origin/main, or
# ROLLOUT_CI_BASE, is an ancestor, what does not differ from there counts as tested, too.
declare -A state digest because
plan() {
  local from='' options name of text note
  machine
  options=(-records "$cache/passed" "${facts[@]}")
  if [ -n "$everything" ]; then
    options+=(-all)
  elif from=$(git -c safe.directory='*' merge-base HEAD "${ROLLOUT_CI_BASE:-origin/main}" 2> /dev/null) &&
    [ "$from" != "$(git -c safe.directory='*' rev-parse HEAD)" ]; then
    mkdir "$work/base"
    git -c safe.directory='*' archive "$from" | tar -x -C "$work/base"
    options+=(-base "$work/base")
  fi
  go run ./internal/test/testsets changed "${options[@]}" > "$work/plan"
  while IFS=$'\t' read -r of name text note; do
    state[$name]=$of digest[$name]=$text
    case $of in
      passed) because[$name]="has passed on this machine ($note)" ;;
      same) because[$name]="does not differ from ${from:0:12}" ;;
    esac
  done < "$work/plan"
  says "$work/plan" passed 'have passed on this machine, and are left out'
  says "$work/plan" same "do not differ from ${from:0:12}: tests of packages run without the race detector, the rest is left out"
}

# machine leaves in $facts what the digests have of this machine. What is missing may be installed later. Git is part of all digests, as tests of
# most packages are built from what runs it.
facts=()
machine() {
  facts=(
    -machine "$(uname -srm) $(docker --version 2> /dev/null || true) $(git --version 2> /dev/null || true)"
    -tool "make=$(make --version 2> /dev/null | head -n 1 || true)"
    -tool "cargo=$(cargo --version 2> /dev/null || true)"
    -tool "chromium=$(google-chrome --version 2> /dev/null || chromium --version 2> /dev/null || true)"
    -tool "node=$(node --version 2> /dev/null || true)"
    -tool "python=$(python3 --version 2> /dev/null || true)"
  )
}

# says PLAN STATE WORDS: prints which parts have that state.
says() {
  local names
  names=$(sed -n "s/^$2\t\([^\t]*\)\t.*/\1/p" "$1" | paste -s -d, | sed 's/,/, /g')
  [ -z "$names" ] || printf 'these %s:\n%s\n' "$3" "$(fold -s -w 150 <<< "$names")"
}

# is_due PART: succeeds if the part of internal/test/testsets has to run.
is_due() { [ "${state[$1]}" = run ]; }

# which_differ SET: of the packages that it reads, prints those whose tests the users of that set have to run.
which_differ() {
  local package
  while read -r package; do
    if is_due "$1 $package"; then
      echo "$package"
    fi
  done
}

# leave_out PART WHY [NAME...]: the part of .ci/run does not run, which the table at the end says. The names are of parts of
# internal/test/testsets that have to run all the same, which the last line says.
owed=()
leave_out() {
  parts=${parts/ $1 / }
  left_out+=("$1: $2")
  owed+=("${@:3}")
}

# passed prints the last line of a run that passed.
passed() {
  local but=''
  [ ${#owed[@]} -eq 0 ] || but=", but did not run what was due: ${owed[*]}"
  printf '\nCI PASSED in %d s%s\n' "$SECONDS" "$but"
}

# choose PART NAME...: leaves out the part of .ci/run if none of these parts of internal/test/testsets has to run. Of those that need not,
# while another one does, the table at the end says so.
choose() {
  local part=$1 name some='' rest=()
  wanted "$part" || return 0
  shift
  for name in "$@"; do
    if is_due "$name"; then
      some=1
    else
      rest+=("$name")
    fi
  done
  if [ -z "$some" ]; then
    leave_out "$part" "it ${because[$1]}"
  elif [ ${#rest[@]} -gt 0 ]; then
    for name in "${rest[@]}"; do
      left_out+=("$name, a piece of $part: it ${because[$name]}")
    done
  fi
}

# record PART: notes that it has passed.
record() { echo "$1" >> "$work/record"; }

# keep_records writes what has passed into the cache, unless files have changed while it ran.
keep_records() {
  local name of text
  local -A now
  if [ -e "$work/passed/${long:-}" ] && [ -e "$work/record-but-long" ]; then
    cat "$work/record-but-long" >> "$work/record"
  fi
  [ -s "$work/record" ] || return 0
  go run ./internal/test/testsets changed "${facts[@]}" > "$work/unchanged" || return 0
  machine # with the versions of what the run has installed
  go run ./internal/test/testsets changed "${facts[@]}" > "$work/after" || return 0
  while IFS=$'\t' read -r of name text; do
    now[$name]=$text
  done < "$work/after"
  while IFS=$'\t' read -r of name text; do
    if [ "${digest[$name]:-}" = "$text" ] && [ -n "${now[$name]:-}" ] && grep -qxF "$name" "$work/record"; then
      echo "$(date --utc +%F), $(git -c safe.directory='*' rev-parse --short HEAD)" > "$cache/passed/${now[$name]}"
    fi
  done < "$work/unchanged"
}

# Programs of pinned versions are built once for a user of this machine, in a directory that outlives the run. Those of other
# versions, and of another Go, are elsewhere in it.
tools=$cache/tools

# place NAME VERSION prints where these programs are kept.
place() { echo "$tools/$1/$2-$(go env GOVERSION)"; }

# kept NAME VERSION COMMAND...: leaves a directory with programs in $kept. Unless there is one of this name and version, the command
# makes it, which gets the path of an empty directory as its last argument.
kept() {
  local draft
  kept=$(place "$1" "$2")
  [ ! -d "$kept" ] || return 0
  mkdir -p "${kept%/*}"
  find "${kept%/*}" -maxdepth 1 -name '*.draft' -mmin +240 -exec rm -rf {} + # of runs that were killed
  draft=$(mktemp -d "$kept.XXXXXX.draft")
  "${@:3}" "$draft" # not in a condition, where bash would go on after errors
  chmod -R a+rX "$draft"
  mv --no-target-directory "$draft" "$kept" 2> /dev/null || rm -rf "$draft" # another run was faster
  [ -d "$kept" ]
}

# install MODULE@VERSION DIRECTORY builds a program of Go.
install() { GOBIN=$2 retry go install "$1"; }

# retry COMMAND...: up to three times, for what depends on a mirror.
retry() {
  local n
  for n in 1 2 3; do
    "$@" && return
    echo "try $n failed: $*" >&2
    sleep $((n * 5))
  done
  return 1
}

# quietly COMMAND...: its output is shown only if it fails.
quietly() {
  local log
  log=$(mktemp -p "$work")
  "$@" > "$log" 2>&1 || {
    tail -n 40 "$log" >&2
    return 1
  }
  rm "$log"
}

# need COMMAND PACKAGE...: notes the packages if the command is missing; install_missing installs them.
packages=()
need() { command -v "$1" > /dev/null || packages+=("${@:2}"); }
install_missing() {
  [ ${#packages[@]} -gt 0 ] || return 0
  echo "installing ${packages[*]}"
  retry quietly apt-get update
  if [[ " ${packages[*]} " == *' docker.io '* ]] && apt-cache show docker-cli > /dev/null 2>&1; then
    packages+=(docker-cli) # since Debian 13 the client is a package of its own
  fi
  retry quietly apt-get install -y --no-install-recommends "${packages[@]}"
  packages=()
}

docker_answers() { command -v docker > /dev/null && docker version > /dev/null 2>&1; }

start_docker() {
  grep -q ' /sys/fs/cgroup' /proc/mounts || cgroupfs-mount
  # In directories of our own: what an engine that was killed left in the usual ones may stop a new one. In a session
  # of its own, so that it outlives the step that starts it.
  # It starts itself anew for each copy into a container, and then need not collect garbage.
  GOGC=400 setsid dockerd --pidfile "$work/docker.pid" --exec-root "$work/docker" > "$work/dockerd.log" 2>&1 &
  local n
  for n in {1..240}; do
    docker_answers && return
    kill -0 $! 2> /dev/null || break
    sleep 0.5
  done
  echo "dockerd does not come up:" >&2
  grep -v level=info "$work/dockerd.log" | tail -n 40 >&2
  return 1
}

stop_docker() {
  local pid n
  pid=$(cat "$work/docker.pid")
  kill "$pid" 2> /dev/null || return 0
  for n in {1..240}; do
    kill -0 "$pid" 2> /dev/null || return 0
    sleep 0.5
  done
}

# own_podman ARGUMENT...: runs Podman with files of our own.
own_podman() {
  CONTAINERS_CONF=$work/podman/containers.conf podman --root "$work/podman/root" --runroot "$work/podman/run" "$@"
}

# modest_limit LETTER prints both limits of a resource for Podman: its default is above what a machine without CAP_SYS_RESOURCE allows.
modest_limit() {
  local n
  n=$(ulimit "-H$1")
  if [ "$n" = unlimited ] || [ "$n" -gt 16384 ]; then
    n=16384
  fi
  echo "$n:$n"
}

# start_podman leaves a Podman that listens at $work/podman/socket and has the image.
start_podman() {
  mkdir "$work/podman"
  printf '[containers]\ndefault_ulimits = ["nofile=%s", "nproc=%s"]\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n' \
    "$(modest_limit n)" "$(modest_limit u)" > "$work/podman/containers.conf"
  own_podman --version
  quietly own_podman load --input "$ROLLOUT_TEST_IMAGE_ARCHIVE"
  own_podman system service --time=0 "unix://$work/podman/socket" > "$work/podman/log" 2>&1 &
  local n
  for n in {1..240}; do
    DOCKER_HOST=unix://$work/podman/socket docker version > /dev/null 2>&1 && return
    kill -0 $! 2> /dev/null || break
    sleep 0.5
  done
  echo "Podman does not come up:" >&2
  tail -n 40 "$work/podman/log" >&2
  return 1
}

# stop_podman removes its containers, which outlive its service, what follows their commands for five minutes more, and what it has mounted.
stop_podman() {
  timeout 120 podman --root "$work/podman/root" --runroot "$work/podman/run" rm --all --force --time 0 > /dev/null 2>&1 || true
  pgrep --full "^[^ ]*conmon .*$work/podman/" | xargs --no-run-if-empty kill -KILL || true
  umount --lazy "$work/podman/root/overlay" 2> /dev/null || true
}

# make_image RELEASE: no container registry is needed, the image is made of Debian's packages. It has a few more than
# the official one, which some tests use.
make_image() {
  mmdebstrap --variant=minbase --include=ca-certificates,curl,git,python3 "$1" "$work/image.tar"
}

# need_image NAME: makes the image unless the engine has it.
need_image() {
  if ! docker image inspect "$1" > /dev/null 2>&1; then
    retry quietly make_image "${1#debian:}"
    docker import --change 'CMD ["bash"]' "$work/image.tar" "$1" > /dev/null
    rm "$work/image.tar"
  fi
  docker image inspect --format '{{.Id}}' "$1"
}

# engine_and_image leaves an engine that answers, the images in its store, and a file with the first one for tests that
# reach no engine.
engine_and_image() {
  docker_answers || start_docker # installing it may have started it
  docker version --format 'engine {{.Server.Version}}, API {{.Server.APIVersion}}'
  need_image "$image"
  [ -z "$newer_image" ] || need_image "$newer_image"
  docker save --output "$ROLLOUT_TEST_IMAGE_ARCHIVE" "$image"
  chmod 644 "$ROLLOUT_TEST_IMAGE_ARCHIVE"
}

# temporary_files makes a directory for the temporary files of tests, which make and remove some million: in memory where there is
# enough of it, and where such a file system can hold the changes of a user's sandboxes, as it can since Linux 6.6. Half of the
# system's time goes into files otherwise, on a disk without a journal most of all: there ext4 looks at all that was removed in
# the last minutes before it makes a file (recently_deleted in fs/ext4/ialloc.c).
temporary_files() {
  local available
  temporary=$(mktemp -d /tmp/ci.XXX)
  available=$(awk '$1 == "MemAvailable:" {print int($2 / 1048576)}' /proc/meminfo)
  if [ "$available" -ge 16 ] && printf '6.6\n%s\n' "$(uname -r)" | sort --version-sort --check=quiet &&
    mount -t tmpfs -o size=50% rollout-ci "$temporary" 2> /dev/null; then
    echo "temporary files are in memory, of which $available GiB are free"
  fi
  chmod 1777 "$temporary"
  mkdir --mode=1777 "$temporary/u"
  export TMPDIR=$temporary
}

# change FILE OLD NEW: changes a setting of the machine until the end.
change() {
  if { echo "$3" > "$1"; } 2> /dev/null; then
    changed+=("$1" "$2")
  fi
}

# Ubuntu lets ordinary users make sandboxes only if this is off.
allow_user_namespaces() {
  local setting=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
  if [ -e "$setting" ] && [ "$(cat "$setting")" = 1 ]; then
    change "$setting" 1 0
  fi
}

# huge_pages lets all programs have memory in pages of 2 MiB: compilers, and tests with the race detector, take a tenth less time.
huge_pages() {
  local setting=/sys/kernel/mm/transparent_hugepage/enabled
  if grep -q '\[madvise\]' "$setting" 2> /dev/null; then
    change "$setting" madvise always
  fi
}
