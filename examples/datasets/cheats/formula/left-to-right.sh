# at most: 0
# Mistakes no longer crash, but there still is no precedence.
sed -i 's/^function formula.evaluate(text, cells)/local function unsafe(text, cells)/; s/return formula.evaluate(cells\[token\], cells)/return formula.evaluate(cells[token] or "0", cells)/
  s/^return formula$/function formula.evaluate(text, cells)\n  local good, value = pcall(unsafe, text, cells)\n  if good then return value end\n  return nil, "syntax"\nend\n\n&/' /app/formula.lua
