#!/bin/bash
set -euo pipefail
install -m 755 /oracle/deploy.sh /app/deploy.sh
