
suits() { # PYTHON: whether its version is one of those that the package takes
  "$1" -c "import sys; sys.exit(not ((3, $python_least) <= sys.version_info[:2] <= (3, $python_most)))" 2>/dev/null
}
choose() { # sets python
  local minor name
  for name in python3 $(for ((minor = python_most; minor >= python_least; minor--)); do echo "python3.$minor"; done); do
    if python=$(command -v "$name") && suits "$python"; then return; fi
  done
  python=
}
# The version of PyPI's name for "the newest" is none.
wanted="$package==$version"
if [ "$version" = latest ]; then wanted="$package"; fi

choose
if [ -z "$python" ] && ! command -v python3 >/dev/null; then
  packages python3 && choose
fi
rm -rf "$home/venv"
if [ -n "$python" ]; then
  # Debian has the module ensurepip in a package of its own.
  "$python" -c 'import ensurepip, venv' 2>/dev/null || packages python3-venv || packages python3-pip
  "$python" -m venv "$home/venv"
  "$home/venv/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check "$wanted" ${with[@]+"${with[@]}"}
else
  # No Python of the image suits: uv brings one along.
  if ! uv=$(command -v uv); then
    fetch https://astral.sh/uv/install.sh "$home/uv.sh"
    UV_INSTALL_DIR="$home/uv" UV_NO_MODIFY_PATH=1 sh "$home/uv.sh"
    uv="$home/uv/uv"
  fi
  UV_PYTHON_INSTALL_DIR="$home/python" "$uv" venv --quiet --python "3.$python_most" "$home/venv"
  "$uv" pip install --quiet --python "$home/venv/bin/python" "$wanted" ${with[@]+"${with[@]}"}
fi
if [ "$version" != latest ]; then
  got=$("$home/venv/bin/python" -c 'import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))' "$package")
  [ "$got" = "$version" ] || { echo "$package $got was installed, not $version." >&2; exit 1; }
fi
if [ -n "$command" ]; then ln -sf "$home/venv/bin/$command" "$home/bin/$command"; fi
