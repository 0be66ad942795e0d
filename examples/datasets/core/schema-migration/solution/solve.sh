#!/bin/bash
# Tries the migration on a copy: the database itself is to stay as it is.
set -euo pipefail
cp /oracle/migrate.sql /app/migrate.sql
cp /app/shop.db /tmp/copy.db
sqlite3 -bail /tmp/copy.db < /app/migrate.sql
sqlite3 -box /tmp/copy.db 'SELECT * FROM orders; SELECT * FROM items; SELECT * FROM rejects;'
