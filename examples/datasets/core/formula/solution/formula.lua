-- Formulas of a spreadsheet. formula.evaluate(text, cells) returns a number, text or boolean, or nil and what is wrong.
-- A formula is parsed into nodes as a whole, so that its syntax is looked at first, and then evaluated.
local formula = {}

local function fail(problem) error({ problem = problem }, 0) end

-- Tokens: {kind, value}. Kinds: number, text, word, op, end.
local function tokenize(text)
  local list, at = {}, 1
  local function add(kind, value, length)
    list[#list + 1] = { kind = kind, value = value }
    at = at + length
  end
  while true do
    at = text:match("^%s*()", at)
    if at > #text then break end
    local digits = text:match("^%d+%.?%d*", at) or text:match("^%.%d+", at)
    if digits then
      local whole = digits .. (text:match("^[eE][-+]?%d+", at + #digits) or "")
      add("number", tonumber(whole) + 0.0, #whole)
      if text:match("^[%w.]", at) then fail("syntax") end
    elseif text:match('^"', at) then
      local length, value = 1, ""
      while true do
        local part = text:match('^([^"]*)"', at + length)
        if not part then fail("syntax") end
        value, length = value .. part, length + #part + 1
        if text:sub(at + length, at + length) ~= '"' then break end
        value, length = value .. '"', length + 1
      end
      add("text", value, length)
    elseif text:match("^%a", at) then
      local word = text:match("^%w+", at)
      add("word", word:upper(), #word)
    else
      local op = text:match("^<[=>]", at) or text:match("^>=", at) or text:match("^[-+*/^&=<>(),:]", at)
      if not op then fail("syntax") end
      add("op", op, #op)
    end
  end
  list[#list + 1] = { kind = "end" }
  return list
end

local function is_cell(word) return word:match("^%u%u?%u?[1-9]%d*$") ~= nil end

local arguments = { SUM = { 1, math.huge }, MIN = { 1, math.huge }, MAX = { 1, math.huge }, COUNT = { 1, math.huge },
  IF = { 3, 3 }, ROUND = { 2, 2 }, LEN = { 1, 1 } }
local aggregates = { SUM = true, MIN = true, MAX = true, COUNT = true }
local levels = { { ["="] = 1, ["<>"] = 1, ["<"] = 1, ["<="] = 1, [">"] = 1, [">="] = 1 }, { ["&"] = 1 }, { ["+"] = 1, ["-"] = 1 },
  { ["*"] = 1, ["/"] = 1 } }

local function parse(text)
  local list, at = tokenize(text), 1
  local expression

  local function op(value)
    if list[at].kind == "op" and list[at].value == value then
      at = at + 1
      return true
    end
  end
  local function need(value) if not op(value) then fail("syntax") end end

  local function call(name)
    local wanted, nodes = arguments[name], {}
    if not wanted then fail("syntax") end
    if not op(")") then
      repeat
        local from, colon, to = list[at], list[at + 1], list[at + 2]
        if aggregates[name] and from.kind == "word" and is_cell(from.value) and colon.kind == "op" and colon.value == ":" then
          if to.kind ~= "word" or not is_cell(to.value) then fail("syntax") end
          at = at + 3
          nodes[#nodes + 1] = { kind = "range", from = from.value, to = to.value }
        else
          nodes[#nodes + 1] = expression(1)
        end
      until not op(",")
      need(")")
    end
    if #nodes < wanted[1] or #nodes > wanted[2] then fail("syntax") end
    return { kind = "call", name = name, nodes = nodes }
  end

  local function primary()
    local token = list[at]
    at = at + 1
    if token.kind == "number" or token.kind == "text" then
      return { kind = "value", value = token.value }
    elseif token.kind == "word" then
      if op("(") then return call(token.value) end
      if token.value == "TRUE" or token.value == "FALSE" then return { kind = "value", value = token.value == "TRUE" } end
      if is_cell(token.value) then return { kind = "cell", name = token.value } end
    elseif token.kind == "op" and token.value == "(" then
      local node = expression(1)
      need(")")
      return node
    end
    fail("syntax")
  end

  local function signed()
    if op("-") then return { kind = "minus", node = signed() } end
    if op("+") then return { kind = "plus", node = signed() } end
    return primary()
  end

  local function power()
    local base = signed()
    if op("^") then return { kind = "chain", first = base, { op = "^", node = power() } } end
    return base
  end

  function expression(level)
    if not levels[level] then return power() end
    local node = expression(level + 1)
    while list[at].kind == "op" and levels[level][list[at].value] do
      local name = list[at].value
      at = at + 1
      -- Flat, so that many terms are no deep tree.
      if node.level ~= level then node = { kind = "chain", level = level, first = node } end
      node[#node + 1] = { op = name, node = expression(level + 1) }
    end
    if node.level == level then node.level = nil end -- what comes in parentheses is closed
    return node
  end

  local node = expression(1)
  if list[at].kind ~= "end" then fail("syntax") end
  return node
end

local empty = setmetatable({}, { __name = "empty" })

local function number(v)
  if v == empty then return 0.0 end
  if v == true then return 1.0 end
  if v == false then return 0.0 end
  if type(v) ~= "number" then fail("value") end
  return v
end

local function finite(v)
  if v ~= v or v == math.huge or v == -math.huge then fail("number") end
  return v
end

local function written(v)
  if v == empty then return "" end
  if type(v) == "boolean" then return v and "TRUE" or "FALSE" end
  if type(v) == "number" then return (("%.14g"):format(v):gsub("^%-0$", "0")) end
  return v
end

local rank = { number = 1, string = 2, boolean = 3 }
local function compare(a, b)
  if a == empty then a = 0.0 end
  if b == empty then b = 0.0 end
  if type(a) ~= type(b) then return rank[type(a)] - rank[type(b)] end
  if type(a) == "boolean" then a, b = number(a), number(b) end
  if type(a) == "string" then a, b = a:lower(), b:lower() end
  if a == b then return 0 end
  return a < b and -1 or 1
end

local operators = {
  ["+"] = function(a, b) a, b = number(a), number(b) return finite(a + b) end,
  ["-"] = function(a, b) a, b = number(a), number(b) return finite(a - b) end,
  ["*"] = function(a, b) a, b = number(a), number(b) return finite(a * b) end,
  ["/"] = function(a, b)
    a, b = number(a), number(b)
    if b == 0 then fail("zero") end
    return finite(a / b)
  end,
  ["^"] = function(a, b)
    a, b = number(a), number(b)
    if a == 0 and b < 0 then fail("zero") end
    return finite(a ^ b)
  end,
  ["&"] = function(a, b) return written(a) .. written(b) end,
  ["="] = function(a, b) return compare(a, b) == 0 end,
  ["<>"] = function(a, b) return compare(a, b) ~= 0 end,
  ["<"] = function(a, b) return compare(a, b) < 0 end,
  ["<="] = function(a, b) return compare(a, b) <= 0 end,
  [">"] = function(a, b) return compare(a, b) > 0 end,
  [">="] = function(a, b) return compare(a, b) >= 0 end,
}

local function round(x, n)
  x, n = number(x), number(n)
  n = n < 0 and math.ceil(n) or math.floor(n)
  local sign, size = x < 0 and -1 or 1, math.abs(x)
  if n > 300 or size * 10.0 ^ n >= 2 ^ 53 then return x end
  local scaled = size * 10.0 ^ n
  -- The nearest float may lie a little below the half that was meant, as in 1.005.
  local rounded = math.floor(tonumber(("%.15g"):format(scaled)) + 0.5)
  return finite(sign * tonumber(("%.0fe%d"):format(rounded, -n)) + 0.0)
end

local function columns(name)
  local n = 0
  for letter in name:gmatch("%u") do n = n * 26 + letter:byte() - 64 end
  return n
end
local function column(n)
  local text = ""
  while n > 0 do
    n, text = (n - 1) // 26, string.char(65 + (n - 1) % 26) .. text
  end
  return text
end

function formula.evaluate(text, cells)
  local by_name, known, busy = {}, {}, {}
  for name, content in pairs(cells) do by_name[tostring(name):upper()] = content end
  local evaluate

  local function blank(content) return content == nil or tostring(content):match("^%s*$") end

  local function cell(name)
    if known[name] == nil then
      if busy[name] then fail("cycle") end
      if blank(by_name[name]) then
        known[name] = empty
      else
        busy[name] = true
        known[name] = evaluate(parse(tostring(by_name[name])))
        busy[name] = nil
      end
    end
    return known[name]
  end

  local function in_range(node, each)
    local c1, c2 = columns(node.from), columns(node.to)
    local r1, r2 = math.tointeger(tonumber(node.from:match("%d+"))), math.tointeger(tonumber(node.to:match("%d+")))
    for r = math.min(r1, r2), math.max(r1, r2) do
      for c = math.min(c1, c2), math.max(c1, c2) do
        local v = cell(column(c) .. r)
        if type(v) == "number" then each(v) end
      end
    end
  end

  local function aggregate(name, nodes)
    local sum, count, min, max = 0.0, 0, nil, nil
    local function each(v)
      sum, count = sum + v, count + 1
      min, max = math.min(min or v, v), math.max(max or v, v)
    end
    for _, node in ipairs(nodes) do
      if node.kind == "range" then in_range(node, each) else each(number(evaluate(node))) end
    end
    if name == "SUM" then return finite(sum) end
    if name == "COUNT" then return count + 0.0 end
    return (name == "MIN" and min or max) or 0.0
  end

  function evaluate(node)
    if node.kind == "value" then return node.value end
    if node.kind == "cell" then return cell(node.name) end
    if node.kind == "minus" then return -number(evaluate(node.node)) end
    if node.kind == "plus" then return number(evaluate(node.node)) end
    if node.kind == "chain" then
      local left = evaluate(node.first)
      for _, part in ipairs(node) do left = operators[part.op](left, evaluate(part.node)) end
      return left
    end
    if aggregates[node.name] then return aggregate(node.name, node.nodes) end
    if node.name == "IF" then
      local test = evaluate(node.nodes[1])
      return evaluate(node.nodes[number(test) ~= 0 and 2 or 3])
    end
    local first = evaluate(node.nodes[1])
    if node.name == "LEN" then return #written(first) + 0.0 end
    return round(first, evaluate(node.nodes[2]))
  end

  -- In a coroutine of its own the stack is deep enough for cells in a row.
  local good, value = pcall(function() return evaluate(parse(tostring(text))) end)
  if good then
    if value == empty then return 0.0 end
    return value
  end
  if type(value) == "table" then return nil, value.problem end
  return nil, "syntax"
end

return formula
