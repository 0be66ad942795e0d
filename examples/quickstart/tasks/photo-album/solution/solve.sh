#!/bin/bash
set -euo pipefail
for camera in a b; do
  cd "/app/camera-$camera"
  for photo in *; do
    [[ $photo =~ ^IMG_(....)(..)(..)_(..)(..)(..)\.jpg$ && ${photo//[!0-9]/} == ?????????????? ]] || continue
    m=("${BASH_REMATCH[@]}")
    day=/app/album/${m[1]}/${m[2]}/${m[3]} name=${m[4]}-${m[5]}-${m[6]}
    mkdir -p "$day"
    [ ! -e "$day/$name.jpg" ] || name+=-$camera
    mv "$photo" "$day/$name.jpg"
  done
done
