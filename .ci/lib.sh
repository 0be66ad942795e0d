# Functions for .ci/run: what a machine needs is installed and started, and work goes on side by side.
# shellcheck shell=bash

image=debian:bookworm
newer_image=       # a second one, for tests of agents that need a newer Python
work=$(mktemp -d)
chmod 755 "$work" # other users' tests run in it
mkdir "$work/bin" "$work/log" "$work/passed"
export PATH="$work/bin:$PATH"
restricted=        # a setting of the machine to be restored
current='the beginning'
declare -A running # what goes on in the background: the process of each name

finish() {
  local status=$? name
  trap - EXIT
  for name in "${!running[@]}"; do
    kill -- "-${running[$name]}" 2> /dev/null || true
  done
  for name in "${!running[@]}"; do
    wait "${running[$name]}" 2> /dev/null || true
  done
  if [ "$status" -ne 0 ]; then # what went on beside may have failed, too, or have been stopped just now
    for name in "${!running[@]}"; do
      [ -e "$work/passed/$name" ] || printf '\n=== %s: not passed, the end of its output\n%s\n' "$name" "$(tail -n 100 "$work/log/$name")"
    done
  fi
  if [ -e "$work/node" ]; then # a Kubernetes node
    .ci/kubernetes down "$work/node" || true
  fi
  if [ -e "$work/docker.pid" ]; then
    stop_docker
  fi
  if [ -n "$restricted" ]; then
    echo 1 > "$restricted" || true
  fi
  rm -rf --one-file-system "$work" || true
  if [ "$status" -ne 0 ]; then
    printf '\nCI FAILED after %d s, in: %s\n' "$SECONDS" "$current"
  fi
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
    printf 'took %d s\n' "$((SECONDS - began))"
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
  setsid dockerd --pidfile "$work/docker.pid" --exec-root "$work/docker" > "$work/dockerd.log" 2>&1 &
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

# Ubuntu lets ordinary users make sandboxes only if this is off.
allow_user_namespaces() {
  local setting=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
  if [ -e "$setting" ] && [ "$(cat "$setting")" = 1 ]; then
    restricted=$setting
    echo 0 > "$setting"
  fi
}
