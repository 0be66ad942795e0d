# at most: 0
# Follows names from a certificate for the host to a root, and takes the first of each name.
cat > /app/bundle <<'END'
#!/usr/bin/env python3
import re, subprocess, sys, os
from pathlib import Path
os.umask(0o077)
pile, host, out = sys.argv[1:]
def o(*a, data=None): return subprocess.run(["openssl", *a], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
certs, keys = [], {}
for p in Path(pile).rglob("*"):
    if p.is_file():
        t = p.read_bytes()
        for m in re.findall(rb"-----BEGIN CERTIFICATE.*?END CERTIFICATE-----\n", t, re.S) or [o("x509", "-inform", "DER", data=t).encode()]:
            s = o("x509", "-noout", "-subject_hash", "-issuer_hash", data=m).split()
            if len(s) == 2 and "will expire" not in o("x509", "-checkend", "0", data=m):
                certs.append((s[0], s[1], m))
        for m in re.findall(rb"-----BEGIN [A-Z ]*PRIVATE KEY.*?PRIVATE KEY-----\n", t, re.S):
            keys[o("pkey", "-pubout", data=m)] = m
for s, i, m in certs:
    pub = o("x509", "-noout", "-pubkey", data=m)
    if "does match" in o("x509", "-noout", "-checkhost", host, data=m) and pub in keys:
        chain = [m]
        while True:
            up = [c for c in certs if c[0] == i]
            if not up: sys.exit(1)
            s, j, n = up[0]
            if s == j: break
            chain.append(n); i = j
        Path(out, "fullchain.pem").write_bytes(b"".join(chain)); Path(out, "key.pem").write_bytes(keys[pub]); Path(out, "root.pem").write_bytes(n)
        sys.exit(0)
sys.exit(1)
END
chmod +x /app/bundle
mkdir /app/tls
/app/bundle /app/pile www.shop.invalid /app/tls
true
