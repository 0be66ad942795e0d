#!/bin/bash
set -euo pipefail
cd /app/steps
for step in *; do
  echo "$step $step" # tsort's way to name one that may need nothing
  while read -r need; do
    echo "$need $step"
  done < "$step"
done | tsort > /app/order
