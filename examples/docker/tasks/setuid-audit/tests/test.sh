#!/bin/bash
# Audits trees that the agent has not seen, then looks at what it did to the shop. All or nothing.
set -u
export LC_ALL=C
passed=0 total=0 work=$(mktemp -d)

# check NAME FUNCTION: one check, in an empty folder. The function fails with its first command.
check() {
  total=$((total + 1))
  mkdir "$work/$total"
  (set -e; cd "$work/$total"; "$2") > "$work/output" 2>&1
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
    head -n 20 "$work/output" | sed 's/^/     | /'
  fi
}

# put MODE NAME...: files of these names.
put() {
  local name
  for name in "${@:2}"; do
    mkdir -p "$(dirname "./$name")"
    echo "$name" > "./$name"
    chmod "$1" "./$name"
  done
}

# modes FOLDER: what is in it, with permissions.
modes() { (cd "$1" && find . -printf '%P %M\n' | sort); }

# audits CODE ARGUMENT...: the audit prints what stdin says and ends with CODE.
audits() {
  local status=0
  cat > "$work/want"
  timeout 20 /app/audit "${@:2}" > "$work/got" || status=$?
  diff -u --label wanted --label got "$work/want" "$work/got"
  [ $status -eq "$1" ] || { echo "exit code $status, wanted $1"; return 1; }
}

tree() {
  put 755 t/plain
  put 4755 't/a b/set uid' t/.hidden/x
  put 2750 t/g
  put 6777 t/all
  put 602 t/etc/w
  mkdir -p t/open t/sticky t/setgid
  chmod 777 t/open
  chmod 1777 t/sticky
  chmod 2755 t/setgid
  ln -s /bin/su t/link
  ln -s open t/link-to-folder
  mkfifo -m 666 t/pipe
}

reports() {
  tree
  modes t > before
  : > policy
  audits 1 t policy <<'END'
setgid all
setgid g
setuid .hidden/x
setuid a b/set uid
setuid all
world-writable all
world-writable etc/w
world-writable open
END
  modes t | diff before -
}

mends() {
  tree
  : > policy
  timeout 20 /app/audit t policy > risks || true
  [ -s risks ]
  audits 0 --fix t policy < risks
  modes t > got
  diff - got <<'END'
 drwxr-xr-x
.hidden drwxr-xr-x
.hidden/x -rwxr-xr-x
a b drwxr-xr-x
a b/set uid -rwxr-xr-x
all -rwxrwxr-x
etc drwxr-xr-x
etc/w -rw-------
g -rwxr-x---
link lrwxrwxrwx
link-to-folder lrwxrwxrwx
open drwxrwxr-x
pipe prw-rw-rw-
plain -rwxr-xr-x
setgid drwxr-sr-x
sticky drwxrwxrwt
END
  audits 0 t policy < /dev/null
  [ -u /bin/su ]
}

policies() {
  put 4755 t/bin/a t/bin/deep/b t/binary 't/x*y' t/xzy 't/q?' t/qq 't/[z]' t/z 't/two  spaces' 't/#odd'
  put 6755 t/both
  printf '%s\n' '# comment' '' 'setuid bin/*' 'setuid x*y' 'setuid q?' 'setuid [z]' 'setgid both' 'setuid two  spaces' \
    'world-writable *' > policy
  printf 'setuid #odd' >> policy # without a line end
  put 666 t/w
  audits 1 t policy <<'END'
setuid binary
setuid both
setuid qq
setuid xzy
setuid z
END
  cp "$work/want" risks
  audits 0 --fix t policy < risks
  [ -u t/bin/deep/b ]
  [ ! -u t/xzy ]
  [ -g t/both ]
  [ ! -u t/both ]
  put 4755 t/again
  printf '\nsetuid *\n' >> policy
  audits 0 t policy < /dev/null
}

the_root() {
  put 644 't/x' 'root with space/x'
  chmod 777 t 'root with space'
  : > policy
  audits 1 "$PWD/t" policy <<< 'world-writable .'
  audits 1 t/ policy <<< 'world-writable .'
  audits 0 --fix 'root with space' policy <<< 'world-writable .'
  [ "$(stat -c %a 'root with space')" = 775 ]
}

shop() {
  modes /srv/shop > got
  diff - got <<'END'
 drwxr-xr-x
bin drwxr-xr-x
bin/.cache helper -rwxr-xr-x
bin/backup -rwxr-xr-x
bin/games drwxr-xr-x
bin/games/chess -rwxr-sr-x
bin/games/score -rwxr-sr-x
bin/mail -rwxr-sr-x
bin/mount-helper -rwsr-xr-x
bin/shop -rw-r--r--
bin/shop.conf lrwxrwxrwx
etc drwxr-xr-x
etc/cron.d drwxr-xr-x
etc/cron.d/nightly -rw-rw-r--
etc/shop.conf -rw-r--r--
home drwxr-xr-x
home/ops team drwxr-xr-x
home/ops team/run me -rwxr-xr-x
lib drwxrwxr-x
lib/libshop.so -rw-r--r--
var drwxr-xr-x
var/drop box drwxr-xr-x
var/drop box/note -rw-rw-rw-
var/spool drwxrwsr-x
var/spool/in prw-rw-rw-
var/spool/job -rw-r--r--
var/tmp drwxrwxrwt
END
}

shop_report() {
  diff - /app/report.txt <<'END'
setgid home/ops team/run me
setuid bin/.cache helper
setuid bin/backup
setuid home/ops team/run me
world-writable etc/cron.d/nightly
world-writable etc/shop.conf
world-writable lib
END
}

check "risks are reported, nothing is changed" reports
check "risks are mended, nothing else is" mends
check "the policy" policies
check "ROOT itself" the_root
check "the shop is mended" shop
check "the report on the shop" shop_report

echo "$passed of $total checks passed"
if [ "$passed" -eq "$total" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
