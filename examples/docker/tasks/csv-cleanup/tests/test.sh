#!/bin/bash
# Checks each rule with an export that needs no other one. The reward is the share of rules kept.
set -u
passed=0 total=0 work=$(mktemp -d)
cd "$work" || exit 1

# check NAME: is export, below the header, cleaned to what stdin says?
check() {
  total=$((total + 1))
  { echo id,name,email,phone,joined,notes; cat; } > want
  if timeout 10 /app/clean "$work/export" > got 2> err && cmp -s want got; then
    passed=$((passed + 1))
    echo "ok   $1"
  else
    echo "FAIL $1"
    { diff -u --label wanted --label got want got; cat err; } | head -n 20 | cat -v | sed 's/^/     | /'
  fi
}

# export_of: makes an export of the records on stdin.
export_of() { { echo id,name,email,phone,joined,notes; cat; } > export; }

export_of <<'END'
1,Ada,ada@example.org,+441,2025-01-01,ok
2,Ünal,unal@example.org,+902,2025-01-02,
END
sed -i '1s/^/\xef\xbb\xbf/; s/$/\r/' export
check "1 byte order mark and CRLF" <<'END'
1,Ada,ada@example.org,+441,2025-01-01,ok
2,Ünal,unal@example.org,+902,2025-01-02,
END

printf '%s\n' ' 1 ,  Ada  Lovelace ,	ada@example.org, +441 ,2025-01-01	,	two  words ' '2,,, ,	, ' | export_of
check "2 space around fields" <<'END'
1,Ada  Lovelace,ada@example.org,+441,2025-01-01,two  words
2,,,,,
END

export_of <<'END'
1,"Lovelace, Ada","ada@example.org",+441,2025-01-01,"she said ""yes"""
2,"Plain",b@example.org,+442,2025-01-02,""
3,O'Neil,c@example.org,+443,2025-01-03,""","""
END
check "3 quotes" <<'END'
1,"Lovelace, Ada",ada@example.org,+441,2025-01-01,"she said ""yes"""
2,Plain,b@example.org,+442,2025-01-02,
3,O'Neil,c@example.org,+443,2025-01-03,""","""
END

printf '1,Ada,ada@example.org,+441,2025-01-01,"one\ntwo\n\nfour"\n2,"B\r\nC",b@example.org,+442,2025-01-02,x\n' | export_of
check "4 line breaks inside fields" <<'END'
1,Ada,ada@example.org,+441,2025-01-01,one two  four
2,B C,b@example.org,+442,2025-01-02,x
END

export_of <<'END'
1,First,Ada@Example.ORG,+441,2025-01-01,
2,Second,ada@example.org,+442,2025-01-02,
3,Nobody,,+443,2025-01-03,
4,Nobody,,+443,2025-01-03,
5,Third,ADA@example.org,+442,2025-01-02,
6,Other,ada@example.net,+442,2025-01-02,
END
check "5 email addresses" <<'END'
1,First,ada@example.org,+441,2025-01-01,
3,Nobody,,+443,2025-01-03,
4,Nobody,,+443,2025-01-03,
6,Other,ada@example.net,+442,2025-01-02,
END

n=1
for date in 31.12.2025 12/31/2025 2025-12-31 1.2.2024 1/2/2024 29.2.2024 12.31.2025 31/12/2025 2025-13-01 tomorrow 31.12.25 ''; do
  printf '%d,N,%d@example.org,+441,%s,\n' $n $n "$date"
  n=$((n + 1))
done | export_of
check "6 dates" <<'END'
1,N,1@example.org,+441,2025-12-31,
2,N,2@example.org,+441,2025-12-31,
3,N,3@example.org,+441,2025-12-31,
4,N,4@example.org,+441,2024-02-01,
5,N,5@example.org,+441,2024-01-02,
6,N,6@example.org,+441,2024-02-29,
7,N,7@example.org,+441,,
8,N,8@example.org,+441,,
9,N,9@example.org,+441,,
10,N,10@example.org,+441,,
11,N,11@example.org,+441,,
12,N,12@example.org,+441,,
END

export_of <<'END'
1,N,1@example.org,+44 20 7946-0958,2025-01-01,
2,N,2@example.org,0044(20)7946.0958,2025-01-01,
3,N,3@example.org,030/555 0100,2025-01-01,
4,N,4@example.org,555+0100,2025-01-01,
5,N,5@example.org,n/a,2025-01-01,
6,N,6@example.org,1002003,2025-01-01,
END
check "7 phone numbers" <<'END'
1,N,1@example.org,+442079460958,2025-01-01,
2,N,2@example.org,+442079460958,2025-01-01,
3,N,3@example.org,0305550100,2025-01-01,
4,N,4@example.org,5550100,2025-01-01,
5,N,5@example.org,,2025-01-01,
6,N,6@example.org,1002003,2025-01-01,
END

export_of <<'END'
100,C,c@example.org,+441,2025-01-01,
20,B,b@example.org,+441,2025-01-01,
9,A,a@example.org,+441,2025-01-01,
7,Short,s@example.org,+441,2025-01-01
8,Long,l@example.org,+441,2025-01-01,,
20,B too,b2@example.org,+441,2025-01-01,
12345678901,D,d@example.org,+441,2025-01-01,
END
check "8 six fields, sorted by id" <<'END'
9,A,a@example.org,+441,2025-01-01,
20,B,b@example.org,+441,2025-01-01,
20,B too,b2@example.org,+441,2025-01-01,
100,C,c@example.org,+441,2025-01-01,
12345678901,D,d@example.org,+441,2025-01-01,
END

echo "$passed of $total rules are kept"
awk -v passed=$passed -v total=$total 'BEGIN { print passed / total }' > /logs/verifier/reward.txt
