export HOME="${HOME:-/root}"
home=/opt/rollout-agent
[ -d "$home/bin" ] || home="$HOME/.rollout-agent" # skills of the job are in the first, whoever installed
# The programs of the task come before Node.js of the agent.
export PATH="$home/bin:$PATH:$home/node/bin"
model=${ROLLOUT_MODEL_NAME:-}

keep_sessions() { # DIRECTORY: it is written to the logs, where it survives a timeout
  mkdir -p "$(dirname "$1")" /logs/agent/sessions
  [ -e "$1" ] || ln -s /logs/agent/sessions "$1"
}

copy_skills() { # DIRECTORY
  local from
  for from in /opt/rollout-agent/skills "${ROLLOUT_TASK_SKILLS:-}"; do
    if [ -n "$from" ] && [ -d "$from" ]; then
      mkdir -p "$1" && cp -R "$from/." "$1/"
    fi
  done
}

merge_json() { # FILE JSON: adds settings to a file
  mkdir -p "$(dirname "$1")"
  node -e '
    const fs = require("fs"), [file, text] = process.argv.slice(1)
    const isMapping = v => v && typeof v === "object" && !Array.isArray(v)
    const merge = (to, from) => {
      for (const [key, value] of Object.entries(from)) to[key] = isMapping(value) && isMapping(to[key]) ? merge(to[key], value) : value
      return to
    }
    const old = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : {}
    fs.writeFileSync(file, JSON.stringify(merge(old, JSON.parse(text)), null, 2))' "$1" "$2"
}
