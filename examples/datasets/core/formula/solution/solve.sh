#!/bin/bash
# A parser that knows precedence, and an evaluation that knows which cells it is in the middle of.
set -euo pipefail
cp /oracle/formula.lua /app/formula.lua
printf 'A1 = 2+3*4\nA2 = SUM(A1:A1, 2^3^2)\nA3 = A3\n' > /tmp/example
lua5.4 /app/sheet /tmp/example
