#!/bin/bash
set -euo pipefail
install -m 755 /oracle/clean /app/clean
