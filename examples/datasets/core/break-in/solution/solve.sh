#!/bin/bash
# One thing leads to another: the web server's commands, the requests that came with them, the logins after them.
set -euo pipefail
python3 /oracle/solve.py
