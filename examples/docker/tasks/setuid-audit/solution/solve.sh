#!/bin/bash
set -euo pipefail
install -m 755 /oracle/audit /app/audit
/app/audit --fix /srv/shop /app/policy > /app/report.txt
