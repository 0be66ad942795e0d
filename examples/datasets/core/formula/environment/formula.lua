-- Formulas of a spreadsheet. formula.evaluate(text, cells) returns a number, text or boolean, or nil and what is wrong.
local formula = {}

local function tokens(text)
  local list, at = {}, 1
  while at <= #text do
    local rest = text:sub(at)
    local token = rest:match("^%s+") or rest:match("^%d+%.?%d*") or rest:match("^%a%w*") or rest:match('^"[^"]*"')
      or rest:match("^[<>=]+") or rest:match("^[-+*/^&(),:]")
    if not token then
      error("unexpected " .. rest:sub(1, 1), 0)
    end
    if not token:match("^%s") then
      list[#list + 1] = token
    end
    at = at + #token
  end
  return list
end

local functions = {
  SUM = function(values)
    local sum = 0
    for _, v in ipairs(values) do sum = sum + v end
    return sum
  end,
  MAX = function(values) return math.max(table.unpack(values)) end,
  COUNT = function(values) return #values end,
  IF = function(values) if values[1] then return values[2] else return values[3] end end,
}

local binary = {
  ["+"] = function(a, b) return a + b end,
  ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end,
  ["/"] = function(a, b) return a / b end,
  ["^"] = function(a, b) return a ^ b end,
  ["&"] = function(a, b) return a .. b end,
  ["="] = function(a, b) return a == b end,
  ["<"] = function(a, b) return a < b end,
  [">"] = function(a, b) return a > b end,
}

function formula.evaluate(text, cells)
  local list, at = tokens(text), 1
  local expression

  local function value()
    local token = list[at]
    at = at + 1
    if token == "(" then
      local v = expression()
      at = at + 1
      return v
    elseif token == "-" then
      return -expression()
    elseif tonumber(token) then
      return tonumber(token)
    elseif token:match('^"') then
      return token:sub(2, -2)
    elseif functions[token] then
      at = at + 1
      local values = {}
      while list[at] ~= ")" do
        values[#values + 1] = expression()
        if list[at] == "," then at = at + 1 end
      end
      at = at + 1
      return functions[token](values)
    end
    return formula.evaluate(cells[token], cells)
  end

  function expression()
    local left = value()
    while binary[list[at]] do
      local op = list[at]
      at = at + 1
      left = binary[op](left, value())
    end
    return left
  end

  return expression()
end

return formula
