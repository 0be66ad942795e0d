export HOME="${HOME:-/root}"
home=/opt/rollout-agent
[ -d "$home/bin" ] || home="$HOME/.rollout-agent" # skills of the job are in the first, whoever installed
# The programs of the task come before Node.js of the agent.
export PATH="$home/bin:$PATH:$home/node/bin"
model=${ROLLOUT_MODEL_NAME:-}

remove_dangling() { # LINK of the image to what is not there
  if [ -L "$1" ] && [ ! -e "$1" ]; then rm -f "$1"; fi
}

keep_sessions() { # DIRECTORY: it is written to the logs, where it survives a timeout
  mkdir -p "$(dirname "$1")" /logs/agent/sessions
  remove_dangling "$1"
  [ -e "$1" ] || ln -s /logs/agent/sessions "$1"
}

copy_skills() { # DIRECTORY
  local from
  for from in /opt/rollout-agent/skills "${ROLLOUT_TASK_SKILLS:-}"; do
    if [ -n "$from" ] && [ -d "$from" ]; then
      remove_dangling "$1"
      mkdir -p "$1" && cp -R "$from/." "$1/" || {
        echo "The skills of the agent cannot be copied from $from to $1." >&2
        exit 1
      }
    fi
  done
}

is_short() { # whether the instruction can be one argument: Linux takes 128 KiB
  [ "$(wc -c <"$ROLLOUT_TASK_INSTRUCTION")" -le 130000 ]
}

# Some programs of Node.js give up on their input if it is not there half a second after they began to read, even if it is a file:
# on a busy machine, the timer is first. With this, they have it before any timer.
prime_input() {
  cat >"$HOME/.rollout-input.cjs" <<'EOF'
const fs = require("fs"), { Readable } = require("stream")
const forget = () => { // the tools of the agent run without this file
  const left = (process.env.NODE_OPTIONS || "").replace(/ ?--require="[^"]*\.rollout-input\.cjs"/, "")
  if (left) process.env.NODE_OPTIONS = left
  else delete process.env.NODE_OPTIONS
}
if (!require("worker_threads").isMainThread) return
if (!fs.fstatSync(0).isFile()) return forget()
// A program may start itself again, and only the last one reads.
const input = new Readable({ read() { forget(); this.push(fs.readFileSync(0)); this.push(null) } })
input.fd = 0
Object.defineProperty(process, "stdin", { configurable: true, enumerable: true, get: () => input })
EOF
  export NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }--require=\"$HOME/.rollout-input.cjs\""
}

merge_json() { # FILE JSON: adds settings to a file, which may have comments. Without its settings, the agent must not begin.
  mkdir -p "$(dirname "$1")"
  node -e '
    const fs = require("fs"), [file, text] = process.argv.slice(1)
    const isMapping = v => v && typeof v === "object" && !Array.isArray(v)
    const merge = (to, from) => {
      for (const [key, value] of Object.entries(from)) to[key] = isMapping(value) && isMapping(to[key]) ? merge(to[key], value) : value
      return to
    }
    const read = () => {
      const old = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : ""
      const bare = old.replace(/^\uFEFF/, "").replace(/("(?:\\.|[^"\\])*")|\/\/[^\n]*|\/\*[^]*?\*\//g, (_, string) => string || "")
      const settings = bare.trim() ? JSON.parse(bare) : {}
      if (!isMapping(settings)) throw new Error("it is no JSON object")
      return settings
    }
    try {
      fs.writeFileSync(file, JSON.stringify(merge(read(), JSON.parse(text)), null, 2))
    } catch (err) {
      console.error(`The settings of the agent in ${file} cannot be read or written: ${err.message}`)
      process.exit(1)
    }' "$1" "$2" || exit 1
}
