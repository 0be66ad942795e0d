import tempfile
from pathlib import Path

from checks import check, end, run, same

driver = Path(tempfile.mkdtemp()) / "driver.lua"
driver.write_text("""package.path = "/app/?.lua;" .. package.path
local formula = require("formula")
for i = 1, #cases do
  local cells, before = cases[i][2], ""
  local good, value, problem = pcall(formula.evaluate, cases[i][1], cells)
  local text
  if not good then text = "raised " .. tostring(value)
  elseif value == nil then text = "#" .. tostring(problem)
  elseif math.type(value) == "float" then text = ("%.12g"):format(value):gsub("^%-0$", "0")
  elseif type(value) == "string" then text = "'" .. value .. "'"
  elseif type(value) == "boolean" then text = tostring(value):upper()
  else text = "not a value: " .. tostring(value) .. " " .. tostring(math.type(value)) end
  io.write((text:gsub("\\n", " ")), "\\n")
end
""")


def lua(text):
    return '"' + "".join(c if c.isalnum() else "\\%03d" % ord(c) for c in text) + '"'


def evaluates(cells, *cases):
    """Each case is a formula and its value as the driver prints it."""
    table = "{" + ",".join(f"[{lua(k)}]={lua(v)}" for k, v in cells.items()) + "}"
    program = "cells = " + table + "\ncases = {" + ",".join(f"{{{lua(f)}, cells}}" for f, _ in cases) + "}\n" + driver.read_text()
    got = run("lua5.4", "-", input=program.encode("latin-1"), timeout=30).stdout.decode("latin-1").split("\n")[:-1]
    wrong = [(f[:60], g, w) for (f, w), g in zip(cases, got) if g != w]
    same((len(got), wrong), (len(cases), []), "how many came back, and which (formula, got, wanted) were wrong:")


@check("precedence", must=True)
def _():
    evaluates({}, ("2+3*4", "14"), ("(2+3)*4", "20"), ("10-4-3", "3"), ("100/10/5", "2"), ("2^3^2", "512"), ("2*3^2", "18"), ("1+2&3*4", "'312'"),
              ("1&2=12", "FALSE"), ("1&2=\"12\"", "TRUE"), ("1<2=TRUE", "TRUE"), ("3>2>1", "TRUE"), ("8-2*3+1", "3"), ("7", "7"))


@check("signs")
def _():
    evaluates({}, ("-2^2", "4"), ("2^-1", "0.5"), ("--2", "2"), ("-+-3", "3"), ("5--3", "8"), ("5+-3", "2"), ("-(1+2)", "-3"), ("2*-3", "-6"),
              ("2^-2^2", "16"), ("-TRUE", "-1"), ("+TRUE", "1"), ("1-1-1", "-1"), ("-\"a\"", "#value"))


@check("literals")
def _():
    evaluates({}, (".5", "0.5"), ("3.", "3"), ("1e3", "1000"), ("2.5E-1", "0.25"), ('"a""b"', "'a\"b'"), ('""', "''"), ('""""', "'\"'"), ("true", "TRUE"),
              ("  1 \t+ 1 ", "2"), ('"TRUE"', "'TRUE'"), ("0", "0"), ('"a b"&" c"', "'a b c'"))


@check("cells")
def _():
    cells = {"A1": "2", "A2": "A1*3", "B1": '"x"', "ABC12": "a2+1", "C1": "   ", "D1": "TRUE", "E1": "e9"}
    evaluates(cells, ("A1", "2"), ("a2", "6"), ("abc12", "7"), ("Z9", "0"), ("Z9+1", "1"), ('Z9&"x"', "'x'"), ("C1", "0"), ('C1&""', "''"), ("B1", "'x'"),
              ("D1+D1", "2"), ("Z9=0", "TRUE"), ("LEN(Z9)", "0"), ('Z9="" ', "FALSE"), ("E1+1", "1"))


@check("text and comparisons")
def _():
    evaluates({}, ("1.50&\"\"", "'1.5'"), ("1/3&\"\"", "'0.33333333333333'"), ("TRUE&1", "'TRUE1'"), ("1e20&\"\"", "'1e+20'"), ('"a"="A"', "TRUE"), ('"a"<"B"', "TRUE"),
              ('2<"1"', "TRUE"), ('"z"<FALSE', "TRUE"), ("FALSE<TRUE", "TRUE"), ('1="1"', "FALSE"), ("1=TRUE", "FALSE"), ("1<>TRUE", "TRUE"), ("2<=2", "TRUE"), ("2>=3", "FALSE"),
              ('"ab"<"abc"', "TRUE"), ("1&2+3", "'15'"), ('"a"<>"A"', "FALSE"))


@check("SUM, MIN, MAX, COUNT")
def _():
    cells = {"A1": "1", "A2": '"t"', "A3": "TRUE", "B1": "4", "B2": "", "B3": "2^3", "AA1": "100", "Z1": "10", "C1": "-5"}
    evaluates(cells, ("SUM(A1:B3)", "13"), ("SUM(B3:A1)", "13"), ("sum(B1:A3)", "13"), ("COUNT(A1:B3)", "3"), ("SUM(Z1:AA1)", "110"), ("MIN(A1:C3)", "-5"), ("MAX(A1:B3,9)", "9"),
              ("MAX(A2:A3)", "0"), ("MIN(C1,C1)", "-5"), ("COUNT(TRUE,1,A3)", "3"), ("SUM(1,TRUE,A1:A3,2*3)", "9"), ('SUM("1")', "#value"), ("SUM(A2)", "#value"), ("MAX(C1)", "-5"),
              ("COUNT(Q1:Q9)", "0"), ("SUM(A1:A1)", "1"), ("MAX(Q1:Q2)", "0"), ("COUNT(Q1)", "1"))


@check("IF, ROUND, LEN")
def _():
    evaluates({"A1": "A1"}, ("IF(1<2,\"y\",\"n\")", "'y'"), ("IF(0,1/0,7)", "7"), ("IF(TRUE,1,A1)", "1"), ("IF(2,1,2)", "1"), ('IF("x",1,2)', "#value"), ("IF(1=2,1,2)", "2"), ("IF(1/0,1,2)", "#zero"),
              ("ROUND(2.5,0)", "3"), ("ROUND(-2.5,0)", "-3"), ("ROUND(-1250,-2)", "-1300"), ("ROUND(3.14159,2)", "3.14"), ("ROUND(1234,1.9)", "1234"), ("ROUND(0.49999,0)", "0"), ("ROUND(55,-1.5)", "60"),
              ('LEN("abc"&12)', "5"), ("LEN(TRUE)", "4"), ("LEN(1/4)", "4"), ("IF(FALSE,1,FALSE)", "FALSE"))


@check("syntax")
def _():
    bad = ["", "  ", "1+", "*1", "(1", "1)", "1 2", "1..2", "A", "A0", "A01", "ABCD1", "FOO(1)", "SUM()", "SUM(1,)", "SUM(,1)", "IF(1,2)", "IF(1,2,3,4)", "ROUND(1)", "LEN(1,2)", '"a', "A1:A2", "IF(A1:A2,1,2)",
           "1e", "#", "1=<2", "=1", "SUM(A1:)", "SUM(1:2)", "a b", "1,2", "()", "SUM 1", "1/0+", "LEN(A1:A2)", "1!", "'a'", "TRUE(1)", "1A", "2A1", "{1}"]
    evaluates({}, *[(text, "#syntax") for text in bad])
    evaluates({"A1": "1+", "A2": "A1"}, ("A1", "#syntax"), ("A2+1", "#syntax"), ("IF(TRUE,1,A1)", "1"), ("1/0+A1", "#zero"))


@check("what is wrong, and what comes first")
def _():
    cells = {"A1": "A2", "A2": "A1", "A3": "SUM(A1:A9)", "B1": "B1+1", "C1": "1/0", "C2": "IF(FALSE,C2,3)"}
    evaluates(cells, ("1/0", "#zero"), ("0^-1", "#zero"), ("0/0", "#zero"), ("1e200*1e200", "#number"), ("(-8)^.5", "#number"), ('1+"1"', "#value"), ("A1", "#cycle"), ("1+A3", "#cycle"), ("B1", "#cycle"),
              ("C1&1", "#zero"), ("C2", "3"), ('1/0+("a"+1)', "#zero"), ('("a"+1)+1/0', "#value"), ("\"a\"+1/0", "#zero"), ("SUM(C1:C1)", "#zero"), ("MAX(1,C1)", "#zero"), ("A1+C1", "#cycle"), ("C1+A1", "#zero"),
              ("0^0", "1"), ("IF(C1,1,2)", "#zero"), ("2^10000", "#number"))


@check("large and deep")
def _():
    chain = {f"A{n}": f"A{n + 1}+1" for n in range(1, 1000)} | {"A1000": "1"}
    wide = {f"B{n}": f"B{n + 1}+B{n + 1}" for n in range(1, 60)} | {"B60": "1"}
    evaluates(chain | wide, ("A1", "1000"), ("(" * 100 + "1" + ")" * 100, "1"), ("+".join(["1"] * 10000), "10000"), ("-" * 99 + "1", "-1"), ("SUM(A1:A1000)", "500500"), ("B1", "5.76460752303e+17"))


end(partial=True)
