#!/bin/bash
# Looks at a copy in another place, from where absolute links lead elsewhere.
set -u
passed=0 total=0
cp -a /app /tmp/moved
cd /tmp/moved/site || exit 1

check() { # WHAT COMMAND...
  total=$((total + 1))
  if "${@:2}"; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
  fi
}
# leads LINK FILE: it is a link, and leads to this file of the library.
leads() { [ -L "$1" ] && [ "$(realpath "$1")" = "/tmp/moved/$2" ] && [ -s "$1" ]; }
gone() { [ ! -L "$1" ]; }

check "a link at the top" leads style.css library/style.css
check "one in a folder" leads about/logo.svg library/img/logo.svg
check "one deeper down, with a space in its name" leads "about/team/our logo.svg" library/img/logo.svg
check "one whose file is gone for good" gone shop/retired.svg
check "one that was not broken" leads shop/terms.txt library/terms.txt
check "one within the site" leads home.html site/index.html

echo "$passed of $total checks passed"
echo $((passed == total)) > /logs/verifier/reward.txt
