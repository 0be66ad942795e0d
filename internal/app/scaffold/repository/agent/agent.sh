#!/bin/bash
# Usage: agent.sh INSTRUCTION. A real agent would ask a model what to do.
set -euo pipefail
cat "$1"
echo "Hello, world!" > /app/hello.txt
