# Everything goes to one directory, so that the programs of the task stay as they are.
home=/opt/rollout-agent
mkdir -p "$home/bin" 2>/dev/null || home="$HOME/.rollout-agent"
mkdir -p "$home/bin"

is_installed() { # PROGRAM: whether it is there in the wanted version
  [ -x "$1" ] && [ "$version" != latest ] && [ "$version_option" != none ] &&
    "$1" ${version_option:---version} 2>/dev/null </dev/null | grep -qwF -- "$version"
}

packages() { # NAME...: installs packages of the distribution
  if command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
  elif command -v apk >/dev/null; then
    apk add --no-cache "$@"
  elif command -v dnf >/dev/null; then
    dnf install -y -q "$@"
  else
    echo "There is no apt-get, apk or dnf to install $* with: install it in the image." >&2
    return 1
  fi
}

fetch() { # URL FILE
  if command -v curl >/dev/null; then
    curl -fsSL --retry 5 --retry-connrefused -o "$2" "$1"
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1"
  else
    packages curl ca-certificates && curl -fsSL --retry 5 -o "$2" "$1"
  fi
}

if found=$(command -v "$command") && is_installed "$found"; then
  echo "$command $version is in the image already."
  exit 0
fi
