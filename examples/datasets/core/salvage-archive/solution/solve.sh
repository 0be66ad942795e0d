#!/bin/bash
# Members are looked for one by one, so that a damaged one costs its own files only.
set -euo pipefail
install -m 755 /oracle/salvage /app/salvage
/app/salvage /app/photos.tgz /app/photos > /app/report.txt || [ $? -eq 1 ]
grep -c whole /app/report.txt
