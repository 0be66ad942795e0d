#!/bin/bash
# Usage: make-pile.sh FOLDER. A pile of certificates and keys, as somebody who left might have kept them.
# key NAME, issue NAME SUBJECT ISSUER FROM TO EXTENSION...: NAME.crt for NAME.key, signed with ISSUER's (itself: -).
set -euo pipefail
mkdir -p "$1" && cd "$1"
ca='basicConstraints=critical,CA:TRUE' now=20200101000000Z later=21200101000000Z
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
issue() {
  local name=$1 subject=$2 issuer=$3 from=$4 to=$5 work by
  shift 5
  work=$(mktemp -d)
  : > "$work/index"
  printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s/index\nnew_certs_dir=%s\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n' \
    "$work" "$work" > "$work/conf"
  printf '%s\n' "${@:-basicConstraints=CA:FALSE}" > "$work/ext"
  [ -e "$name.key" ] || key "$name"
  openssl req -new -key "$name.key" -subj "$subject" -out "$work/csr"
  by=(-cert "$issuer.crt" -keyfile "$issuer.key")
  [ "$issuer" != - ] || by=(-selfsign -keyfile "$name.key")
  openssl ca -batch -notext -config "$work/conf" "${by[@]}" -in "$work/csr" -out "$name.crt" \
    -startdate "$from" -enddate "$to" -extfile "$work/ext" 2> "$work/problem" || { cat "$work/problem" >&2; exit 1; }
}
# keep NAME...: all else goes.
keep() {
  local file
  for file in *; do [[ " $* " == *" $file "* ]] || rm -r "$file"; done
}

issue root /CN=Old-Root - $now $later $ca
issue tier /CN=Tier-1 root $now 20210101000000Z $ca
cp tier.key renewed.key
issue renewed /CN=Tier-1 root $now $later $ca
issue shop /CN=www.shop.invalid renewed $now $later subjectAltName=DNS:shop.invalid,DNS:www.shop.invalid
issue old /CN=www.shop.invalid tier $now 20210101000000Z subjectAltName=DNS:www.shop.invalid
issue mail /CN=mail.shop.invalid renewed $now $later 'subjectAltName=DNS:mail.shop.invalid'
{ echo 'for www, do not lose!'; cat mail.key; } > www.txt
cat tier.crt mail.crt shop.crt > chain.pem
openssl x509 -in renewed.crt -outform DER -out letter.doc
mkdir backup
openssl pkcs8 -topk8 -nocrypt -in shop.key -out backup/mail.key
mv old.crt www.shop.invalid.crt
mv root.crt notes
keep www.txt chain.pem letter.doc backup www.shop.invalid.crt notes
