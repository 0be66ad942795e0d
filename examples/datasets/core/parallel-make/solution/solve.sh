#!/bin/bash
# The rules say what each file is made of, the headers included; make does the rest.
set -euo pipefail
cp /oracle/Makefile /app/Makefile
make -C /app -j4
/app/build/shop
make -C /app clean
