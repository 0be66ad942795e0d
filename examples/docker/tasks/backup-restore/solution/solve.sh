#!/bin/bash
set -euo pipefail
install -m 755 /oracle/restore /app/restore
/app/restore /backups /srv/shop
