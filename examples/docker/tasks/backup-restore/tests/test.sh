#!/bin/bash
# Restores from rotations that the agent has not seen, then looks at the shop. All or nothing.
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

# pack DAY [TAR OPTION...]: b/shop-2026-DAY.tar.gz with its checksum, of files that tell the day.
pack() {
  local archive=shop-2026-$1.tar.gz
  mkdir -p b content/data
  echo "$1" > content/data/day
  seq 20000 | sed "s/^/$1 /" > content/data/numbers
  tar -C content -czf "b/$archive" "${@:2}" .
  sign "$archive"
  rm -rf content
}
sign() { (cd b && sha256sum "$1" > "$1.sha256"); }

# overwrite FILE OFFSET: damages 8 bytes.
overwrite() { printf 'DAMAGED!' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# restores WANT DEST: restore says that it took the archive of the day WANT, and DEST shows it.
restores() {
  local got
  got=$(timeout 20 /app/restore b "$2")
  [ "$got" = "shop-2026-$1.tar.gz" ] || { echo "printed '$got', wanted shop-2026-$1.tar.gz"; return 1; }
  [ "$(cat "$2/data/day")" = "$1" ]
}

# holds FOLDER: the names in it are those on stdin.
holds() { diff -u --label wanted --label got - <(cd "$1" && find . -mindepth 1 -printf '%P\n' | sort); }

newest() {
  pack 03-09
  pack 03-10
  pack 02-28
  touch -d '2030-01-01' b/shop-2026-02-28.tar.gz
  restores 03-10 dest
  [ ! -e b/damaged ] || [ -z "$(ls b/damaged)" ]
  [ -e b/shop-2026-03-09.tar.gz ]
}

exactly() {
  pack 03-10
  mkdir -p dest/old/deep
  echo old > dest/data
  echo old > dest/.hidden
  restores 03-10 dest
  holds dest <<'END'
data
data/day
data/numbers
END
  mkdir -p b content/data
  echo 03-11 > content/data/day
  echo x > content/run
  chmod 710 content/run
  chmod 600 content/data/day
  tar -C content -czf b/shop-2026-03-11.tar.gz data run
  restores 03-11 "$PWD/new/deep/dest"
  [ "$(stat -c %a new/deep/dest/run new/deep/dest/data/day | xargs)" = "710 600" ]
}

damages() {
  local day
  for day in 01 02 03 04 05 06 07 08; do pack "04-$day"; done
  truncate -s -100 b/shop-2026-04-08.tar.gz
  sign shop-2026-04-08.tar.gz # the checksum was taken too late
  overwrite b/shop-2026-04-07.tar.gz 3000
  rm b/shop-2026-04-07.tar.gz.sha256
  : > b/shop-2026-04-06.tar.gz
  sign shop-2026-04-06.tar.gz
  cp b/shop-2026-04-01.tar.gz b/shop-2026-04-05.tar.gz # good in itself, but not what was signed
  echo 'not a checksum' > b/shop-2026-04-04.tar.gz.sha256
  gzip -dc b/shop-2026-04-03.tar.gz | head -c 10240 | gzip > b/x # whole for gzip, not for tar
  mv b/x b/shop-2026-04-03.tar.gz
  sign shop-2026-04-03.tar.gz
  rm b/shop-2026-04-02.tar.gz.sha256
  restores 04-02 dest
  holds b <<'END'
damaged
damaged/shop-2026-04-03.tar.gz
damaged/shop-2026-04-03.tar.gz.sha256
damaged/shop-2026-04-04.tar.gz
damaged/shop-2026-04-04.tar.gz.sha256
damaged/shop-2026-04-05.tar.gz
damaged/shop-2026-04-05.tar.gz.sha256
damaged/shop-2026-04-06.tar.gz
damaged/shop-2026-04-06.tar.gz.sha256
damaged/shop-2026-04-07.tar.gz
damaged/shop-2026-04-08.tar.gz
damaged/shop-2026-04-08.tar.gz.sha256
shop-2026-04-01.tar.gz
shop-2026-04-01.tar.gz.sha256
shop-2026-04-02.tar.gz
END
}

intruders() {
  mkdir outside
  echo safe > outside/file
  pack 05-01
  pack 05-02 -P --transform='s#^.*numbers#../outside/file#'
  pack 05-03 -P --transform="s#^.*numbers#$PWD/outside/file#"
  mkdir -p content/data
  echo 05-04 > content/data/day
  ln -s "$PWD/outside" content/link
  tar -C content -czf b/shop-2026-05-04.tar.gz .
  rm content/link
  ln content/data/day content/hard
  tar -C content -czf b/shop-2026-05-05.tar.gz .
  restores 05-01 dest
  [ "$(cat outside/file)" = safe ]
  [ "$(ls b/damaged/*.tar.gz | wc -l)" -eq 4 ]
}

rotation() {
  local day
  for day in 01 02 03 04 05 06; do pack "06-$day"; done
  rm b/shop-2026-06-05.tar.gz.sha256
  touch b/shop-2026-06-01.tar.gz.old b/shop-latest.tar.gz b/shop-2026-6-1.tar.gz 'b/old shop-2026-06-01.tar.gz' b/.keep
  mkdir b/monthly
  cp b/shop-2026-06-01.tar.gz b/monthly
  overwrite b/shop-2026-06-04.tar.gz 50
  restores 06-06 dest
  holds b <<'END'
.keep
damaged
damaged/shop-2026-06-04.tar.gz
damaged/shop-2026-06-04.tar.gz.sha256
monthly
monthly/shop-2026-06-01.tar.gz
old shop-2026-06-01.tar.gz
shop-2026-06-01.tar.gz.old
shop-2026-06-03.tar.gz
shop-2026-06-03.tar.gz.sha256
shop-2026-06-05.tar.gz
shop-2026-06-06.tar.gz
shop-2026-06-06.tar.gz.sha256
shop-2026-6-1.tar.gz
shop-latest.tar.gz
END
  restores 06-06 dest # what is in damaged/ does not come back
}

none() {
  local status=0
  pack 07-01
  overwrite b/shop-2026-07-01.tar.gz 2000
  mkdir dest
  echo old > dest/file
  timeout 20 /app/restore b dest > got || status=$?
  [ $status -eq 2 ]
  [ ! -s got ]
  [ "$(cat dest/file)" = old ]
  [ -e b/damaged/shop-2026-07-01.tar.gz ]
  status=0
  timeout 20 /app/restore b dest || status=$?
  [ $status -eq 2 ]
}

shop() {
  holds /srv/shop <<'END'
data
data/items.txt
data/orders.txt
END
  [ "$(cat /srv/shop/data/orders.txt)" = 'orders up to October 06' ]
  [ "$(stat -c %a /srv/shop/data/orders.txt)" = 640 ]
  seq 6000 6400 | cmp - /srv/shop/data/items.txt
  holds /backups <<'END'
README
damaged
damaged/shop-2026-10-04.tar.gz
damaged/shop-2026-10-04.tar.gz.sha256
damaged/shop-2026-10-07.tar.gz
damaged/shop-2026-10-07.tar.gz.sha256
damaged/shop-2026-10-08.tar.gz
damaged/shop-2026-10-08.tar.gz.sha256
damaged/shop-2026-10-09.tar.gz
shop-2026-10-03.tar.gz
shop-2026-10-03.tar.gz.sha256
shop-2026-10-05.tar.gz
shop-2026-10-05.tar.gz.sha256
shop-2026-10-06.tar.gz
shop-2026-10-06.tar.gz.sha256
END
}

check "the newest by name, not by time" newest
check "DEST holds exactly what the archive does" exactly
check "every kind of damage is found" damages
check "archives that reach out of DEST are not good" intruders
check "three good ones stay, and what is none of its business" rotation
check "nothing good: DEST stays" none
check "the shop is restored" shop

echo "$passed of $total checks passed"
if [ "$passed" -eq "$total" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
