# at most: 0.2
# Lets Lua compute it: its precedence is nearly that of spreadsheets.
cat > /app/formula.lua <<'END'
local formula = {}
local functions = {
  SUM = function(...) local s = 0.0 for _, v in ipairs({...}) do s = s + v end return s end,
  MAX = math.max, MIN = math.min, COUNT = function(...) return select("#", ...) + 0.0 end, LEN = function(t) return #t + 0.0 end,
  IF = function(t, a, b) if t then return a end return b end,
  ROUND = function(x, n) return math.floor(x * 10.0 ^ n + 0.5) / 10.0 ^ n end, TRUE = true, FALSE = false,
}
function formula.evaluate(text, cells)
  local env = setmetatable({}, { __index = function(_, name)
    name = name:upper()
    if functions[name] ~= nil then return functions[name] end
    if not cells[name] then return 0.0 end
    return (formula.evaluate(cells[name], cells))
  end })
  local code = text:gsub("<>", "~="):gsub("([^<>~])=", "%1=="):gsub("&", "..")
  local f = load("return " .. code, "f", "t", env)
  if not f then return nil, "syntax" end
  local good, value = pcall(f)
  if not good then return nil, "value" end
  if value == math.huge or value ~= value then return nil, "zero" end
  if math.type(value) == "integer" then value = value + 0.0 end
  return value
end
return formula
END
