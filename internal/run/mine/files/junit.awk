# Prints "passed CLASS NAME" or "failed CLASS NAME" for each test in JUnit XML. Tests that were skipped
# are not printed. What is in CDATA, comments and processing instructions is not read.
BEGIN { RS = "<" }
ends != "" { if (index($0, ends)) ends = ""; next }
/^!\[CDATA\[/ { if (!index($0, "]]>")) ends = "]]>"; next }
/^!--/ { if (!index($0, "-->")) ends = "-->"; next }
/^testcase[ \t\r\n\/>]/ {
  rest = substr($0, 9)
  class = ""; name = ""; state = "passed"; open = 1
  while (match(rest, /^[ \t\r\n]+[A-Za-z_:.-]+[ \t\r\n]*=[ \t\r\n]*("[^"]*"|'[^']*')/)) {
    value = substr(rest, 1, RLENGTH)
    rest = substr(rest, RLENGTH + 1)
    key = value
    sub(/^[ \t\r\n]+/, "", key)
    sub(/[ \t\r\n]*=.*/, "", key)
    sub(/^[^=]*=[ \t\r\n]*/, "", value)
    value = substr(value, 2, length(value) - 2)
    if (key == "name") name = value
    if (key == "classname") class = value
  }
  if (rest ~ /^[ \t\r\n]*\//) close_test()
  next
}
/^(failure|error)[ \t\r\n\/>]/ { state = "failed" }
/^skipped[ \t\r\n\/>]/ { state = "skipped" }
/^\/testcase[ \t\r\n>]/ { close_test() }
function plain(text) {
  gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
  gsub(/&amp;/, "\\&", text)
  gsub(/[\001-\037\177]/, " ", text)
  return text
}
function close_test() {
  if (open && state != "skipped" && name != "" && length(name class) < 1000) {
    print state, (class == "" ? plain(name) : plain(class) " " plain(name))
  }
  open = 0
}
