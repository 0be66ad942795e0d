#!/bin/bash
set -euo pipefail
install -m 755 /oracle/fines /app/fines
