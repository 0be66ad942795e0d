#!/bin/bash
# The configuration anew; the workers, who are not root, have to reach the files.
set -euo pipefail
chmod 755 /srv/shop/public
cp /oracle/nginx.conf /srv/shop/nginx.conf
install -m 755 /oracle/start /srv/shop/start
/srv/shop/start
cat > /tmp/get.py <<'END'
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8080/").read().decode())
END
python3 /tmp/get.py
