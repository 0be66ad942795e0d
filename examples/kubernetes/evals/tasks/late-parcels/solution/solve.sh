#!/bin/bash
set -euo pipefail
awk -F, 'NR > 1 && $4 > $3 { print $2 }' /app/parcels.csv | sort -u > /app/late
