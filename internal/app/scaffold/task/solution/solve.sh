#!/bin/bash
# Does what the instruction asks for. The agent never sees it; "rollout validate --run" proves with it that the task can be solved.
set -euo pipefail
echo "solution/solve.sh is to be written" >&2
exit 1
