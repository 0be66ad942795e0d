
registry=${NPM_CONFIG_REGISTRY:-${npm_config_registry:-https://registry.npmjs.org}}
node=$(command -v node || true)
npm=$(command -v npm || true)
if [ -z "$node" ] || [ -z "$npm" ] || [ "$("$node" -p 'process.versions.node.split(".")[0]')" -lt "$node_least" ]; then
  # The image has no Node.js, or an old one, which its own programs may need: the agent gets its own.
  if [ -f /etc/alpine-release ]; then
    packages nodejs npm
    node=$(command -v node) npm=$(command -v npm)
  else
    case $(uname -m) in x86_64) arch=x64 ;; aarch64 | arm64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
    node_version=24.21.0 npm_version=11.19.1
    mkdir -p "$home/node" "$home/npm-cli"
    fetch "${registry%/}/node-linux-$arch/-/node-linux-$arch-$node_version.tgz" "$home/node.tgz"
    tar -xzf "$home/node.tgz" -C "$home/node" --strip-components=1
    fetch "${registry%/}/npm/-/npm-$npm_version.tgz" "$home/npm.tgz"
    tar -xzf "$home/npm.tgz" -C "$home/npm-cli" --strip-components=1
    rm "$home/node.tgz" "$home/npm.tgz"
    node="$home/node/bin/node" npm="$home/npm-cli/bin/npm-cli.js"
    [ "$("$node" -p 'process.versions.node.split(".")[0]')" -ge "$node_least" ]
  fi
fi
# Scripts of packages look for node and npm by their names. npm 12 runs none of them unless it is told to, and some packages are not complete
# without theirs; older versions run them, and ignore the option.
(
  PATH="$(dirname "$node"):$PATH"
  "$node" "$npm" install --global --prefix "$home/npm" --no-audit --no-fund --no-update-notifier --loglevel=error --dangerously-allow-all-scripts "$package@$version" ${with[@]+"${with[@]}"}
)
rm -rf "$HOME/.npm/_cacache"
program="$home/npm/bin/$command"
rm -f "$home/bin/$command"
if head -c 80 "$program" | head -n 1 | grep -aq '^#!.*node'; then
  printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$node" "$program" >"$home/bin/$command"
  chmod 755 "$home/bin/$command"
else
  ln -s "$program" "$home/bin/$command"
fi
