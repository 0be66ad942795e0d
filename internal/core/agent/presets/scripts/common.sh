# Everything goes to one directory, so that the programs of the task stay as they are.
home=/opt/rollout-agent
mkdir -p "$home/bin" 2>/dev/null || home="$HOME/.rollout-agent"
mkdir -p "$home/bin"

reported() { # PROGRAM: what it says about its version, if that tells which one is there
  [ -x "$1" ] && [ "$version" != latest ] && [ "$version_option" != none ] && "$1" ${version_option:---version} 2>/dev/null </dev/null
}

is_installed() { # PROGRAM: whether what was installed has the wanted version; grep reads all, as a program whose output nobody reads fails
  reported "$1" | grep -wF -- "$version" >/dev/null
}

is_there() { # PROGRAM of the image, which is believed: whether it has this version, and not 1.2.3-beta or 1.2.3.4 in place of 1.2.3
  reported "$1" | grep -oE '[0-9A-Za-z.+-]+' | sed 's/^v//; s/\.$//' | grep -xF -- "$version" >/dev/null
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

if found=$(command -v "$command") && is_there "$found"; then
  echo "$command $version is in the image already."
  exit 0
fi
