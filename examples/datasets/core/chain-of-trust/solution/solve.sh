#!/bin/bash
# A search for the way from a certificate to a root, with openssl as the judge of each.
set -euo pipefail
install -m 755 /oracle/bundle /app/bundle
mkdir -p /app/tls
/app/bundle /app/pile www.shop.invalid /app/tls
openssl x509 -in /app/tls/fullchain.pem -noout -subject -issuer -dates
