#!/bin/bash
# Merges layers that the agent has not seen. All or nothing: a setting that is read wrongly is found out
# in production.
set -u
export LC_ALL=C
passed=0 total=0 work=$(mktemp -d)
cd "$work" || exit 1

# result NAME GOOD: counts a check; what there is to say if it is not good stands in the file output.
result() {
  total=$((total + 1))
  if [ "$2" = yes ]; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
    head -n 25 "$work/output" | sed 's/^/     | /'
  fi
  rm -f a b c
}

envmerge() { timeout 10 env -i PATH="$PATH" HOME=/root "${host[@]}" /app/envmerge "$@"; }
host=()

# merges NAME WANT: the files a, b and c together are WANT, read from stdin.
merges() {
  cat > want
  local good=no
  { envmerge a b c > got && diff -u --label wanted --label got want got && good=yes; } > output 2>&1
  result "$1" $good
}

# refuses NAME PLACE: the files are an error at PLACE.
refuses() {
  local good=no status
  envmerge a b c > got 2> output
  status=$?
  if [ $status -eq 1 ] && [ ! -s got ] && grep -q "^$2: ." output; then good=yes; fi
  echo "exit code $status, wanted 1 and '$2: ...'; on stdout:" | cat - got >> output
  result "$1" $good
}

cp /app/example/.env a
cp /app/example/.env.production b
merges "the example" <<'END'
API_HOST='api.example'
API_URL='https://api.example/v2'
APP_NAME='shop'
COLOUR='#ff8800'
GREETING='it is ${APP_NAME}'
LOG_FORMAT='%h	%m
'
END

printf '%s\n' 'Z=1' 'a=1' 'B_2=1' '_=1' 'AB=1' 'A=1' 'A_=1' > a
printf '%s\n' 'A=2' 'NEW=2' > b
printf 'A=3' > c
merges "later files win, names are sorted by bytes, the last line may lack its end" <<'END'
A='3'
AB='1'
A_='1'
B_2='1'
NEW='2'
Z='1'
_='1'
a='1'
END

printf '\t# x\n \n\t export \t A \t=\t 1 \t\n  B = two words  # no\nexport C=\nD=#a #b\nE= # none\nF=a#b\nexport = 1\nunset=2\n' > a
merges "blanks, comments and words that are also names" <<'END'
A='1'
B='two words'
C=''
D='#a'
E=''
F='a#b'
export='1'
unset='2'
END

cat > a <<'END'
S='a ${B} "x" \n #'   # comment
T=''
D="say \"hi\", \\ \n\t\x \$HOME \${S}|"	
E=""	#no
END
merges "quotes and escapes" <<'END'
D='say "hi", \ 
	\x $HOME ${S}|'
E=''
S='a ${B} "x" \n #'
T=''
END

cat > a <<'END'
X=it's "half" quoted\n
Y=a=b=c
Z="it's"
END
merges "quotes inside a value, and quotes in the output" <<'END'
X='it'\''s "half" quoted\n'
Y='a=b=c'
Z='it'\''s'
END

host=(FROM_HOST=h 'TRICKY=${A} $(id)' GONE=h SET=h)
cat > a <<'END'
A=one
B=${A}${A}-${FROM_HOST}-${NOWHERE}-
A=two
C="<${A}>" # ${B}
D='${A}'
E=${TRICKY}
unset GONE
F=[${GONE}]
SET=file
G=${SET}
END
cat > b <<'END'
H=${A}${C}
A=${A}${A}
unset C
I=${C}
END
merges "references see what was set before them, then the environment" <<'END'
A='twotwo'
B='oneone-h--'
D='${A}'
E='${A} $(id)'
F='[]'
G='file'
H='two<two>'
I=''
SET='file'
END
host=()

cat > a <<'END'
A=$(touch pwned) `touch pwned` ${touch pwned} $HOME ${ ${} ${1} $
B="$(touch pwned) `touch pwned` ${touch pwned} $HOME ${HOME:-x} $"
C=x[$(touch pwned)]
D=;touch pwned;
E=${HOME
F=a&b\&c*?[]~
END
merges "nothing is executed, what is no reference stays" <<'END'
A='$(touch pwned) `touch pwned` ${touch pwned} $HOME ${ ${} ${1} $'
B='$(touch pwned) `touch pwned` ${touch pwned} $HOME ${HOME:-x} $'
C='x[$(touch pwned)]'
D=';touch pwned;'
E='${HOME'
F='a&b\&c*?[]~'
END

printf 'A=1\r\nB="2"\r\n\r\n#\r\nunset A\r\nC=3 \r\n' > a
merges "CRLF" <<'END'
B='2'
C='3'
END

: > a
merges "no variables at all" < /dev/null

n=1
while read -r line; do
  printf 'A=1\n\n%s\nB=2\n' "$line" > b
  refuses "error $n: $line" b:3
  n=$((n + 1))
done <<'END'
no equals sign
1A=x
A-B=x
=x
A='open
A="open
A="open\"
A="x"y
A='x'#y
unset
unset 1A
unset A B
export A
"A"=1
END

if [ -e pwned ]; then
  passed=0
  echo "FAIL a command in a value was executed"
fi
echo "$passed of $total checks passed"
if [ "$passed" -eq "$total" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
