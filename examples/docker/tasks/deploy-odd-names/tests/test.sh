#!/bin/bash
# Deploys sites whose names are as odd as Linux allows. All or nothing: a script that loses one file in
# a thousand is not repaired.
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

deploy() { timeout 20 /app/deploy.sh "$@"; }

# files FOLDER: its regular files with their permissions and contents, line breaks in names as "?".
files() {
  (
    cd -- "$1"
    find . -type f -printf '%P mode %m\0' | sort -z | tr '\n\0' '?\n'
    find . -type f -print0 | sort -z | xargs -0 -r sha256sum --
  )
}

# same SOURCE RELEASE: they hold the same files.
same() { diff <(files "$1") <(files "$2"); }

# put NAME...: files of these names, each with its own content.
put() {
  local name
  for name; do
    case $name in */*) mkdir -p -- "./${name%/*}" ;; esac
    printf 'content of %q\n' "$name" > "./$name"
  done
}

odd=(
  'Spring sale (50% off).html' '*NEW*.png' $'line\nbreak.txt' $'ends with one\n' 'two  spaces' ' leading' 'trailing '
  -rf --help -n '?' '[a-z]' "it's" '"quoted"' '$(touch pwned)' '`touch pwned`' ';touch pwned;' '$HOME' '~' 'back\slash'
  $'tab\there' '.hidden' '%s%n' '#comment' $'not \xff UTF-8' '{a,b}' '!' '&'
)

plain_site() {
  put site/index.html site/img/logo.png site/.htaccess site/bin/run
  chmod 750 site/bin/run
  chmod 600 site/.htaccess
  files site > before
  deploy "$PWD/site" "$PWD/www" v1
  same site www/releases/v1
  files site | diff before -
}

odd_files() {
  mkdir site
  (cd site && put "${odd[@]}")
  deploy site www v1
  same site www/releases/v1
  [ ! -e pwned ]
}

odd_folders() {
  mkdir site
  (cd site && put "${odd[@]/%//file}" "${odd[@]/%//deep/-er/*}")
  deploy "$PWD/site" "$PWD/www" v1
  same site www/releases/v1
}

odd_arguments() {
  local name
  for name in "${odd[@]:0:7}" '$(touch pwned)' "it's" '"quoted"' 'back\slash'; do
    put "./$name from/index.html"
    deploy "./$name from" "./$name to" "$name"
    same "./$name from" "./$name to/releases/$name"
    [ "$(readlink -- "./$name to/current"; echo x)" = "releases/$name"$'\nx' ]
  done
  [ ! -e pwned ]
}

leading_dash() {
  put -s/index.html
  deploy -s -t -i
  same ./-s ./-t/releases/-i
}

ignored_files() {
  put site/a.log site/logs/b.log site/keep.txt 'site/draft one.html' site/draft site/one.html site/tmp/x site/tmp/deep/y \
    site/c1 site/c2 site/c3 'site/#c4' site/e site/end site/ee
  put other.log # must not take the place of the pattern
  printf '%s\n' '# notes' '*.log' '' 'draft one.html' 'tmp/*' 'c[!2]' '  ' '#c4' > site/.deployignore
  printf 'end' >> site/.deployignore # without a line end
  deploy site www v1
  files www/releases/v1 | grep -o '^.* mode' > got
  printf '%s mode\n' '#c4' c2 draft e ee keep.txt one.html | diff - got
}

current_link() {
  put one/index.html two/index.html
  deploy one www v1
  [ "$(readlink www/current)" = releases/v1 ]
  touch watch
  trap 'rm -f watch' EXIT
  while [ -e watch ]; do
    [ -L www/current ] || echo "there was a moment without current"
  done > gaps &
  for n in 2 3 4 5 6; do deploy two www "v$n"; done
  rm watch
  wait
  [ "$(readlink www/current)" = releases/v6 ]
  [ -e www/current/index.html ]
  cat gaps
  [ ! -s gaps ]
}

old_releases() {
  local id
  put site/index.html
  for id in 'z 1' m $'old\none' '* three' 'b four' -five; do
    deploy site www "$id"
    sleep 0.02 # times of files are coarse
  done
  (cd www/releases && printf '%s\n' *) > got
  printf '%s\n' '* three' -five 'b four' | diff - got
}

refusals() {
  put site/index.html file
  deploy site www v1
  find . -printf '%p %T@ %l\n' | sort > before
  local id
  for id in v1 '' . .. a/b /etc; do
    if deploy site www "$id"; then echo "ID '$id' was accepted"; exit 1; fi
  done
  if deploy missing www v2; then echo "a missing SOURCE was accepted"; exit 1; fi
  if deploy file www v2; then echo "a file was accepted as SOURCE"; exit 1; fi
  find . -printf '%p %T@ %l\n' | sort > "$work/after"
  grep -v '^\./before ' before > "$work/before"
  grep -v '^\./before \|^\. ' "$work/after" | diff <(grep -v '^\. ' "$work/before") -
  if deploy site new ..; then exit 1; fi
  [ ! -e new ]
}

check "a plain site, hidden files and permissions" plain_site
check "odd names of files" odd_files
check "odd names of folders" odd_folders
check "odd names of SOURCE, TARGET and ID, relative paths" odd_arguments
check "leading dashes" leading_dash
check ".deployignore" ignored_files
check "the link to the current release is replaced, never missing" current_link
check "the three last releases remain" old_releases
check "what cannot be deployed changes nothing" refusals

echo "$passed of $total checks passed"
if [ "$passed" -eq "$total" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
