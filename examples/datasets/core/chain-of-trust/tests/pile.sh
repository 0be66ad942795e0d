# key NAME, issue NAME SUBJECT ISSUER FROM TO EXTENSION...: NAME.crt for NAME.key, signed with ISSUER's (itself: -).
set -euo pipefail
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
