#!/bin/bash
# Makes /backups as the failing disk left them, and /srv/shop as it was when somebody noticed.
set -euo pipefail
mkdir -p /backups /srv/shop /tmp/shop/data
cd /tmp/shop
for day in 01 02 03 04 05 06 07 08 09; do
  echo "orders up to October $day" > data/orders.txt
  seq "${day#0}000" "${day#0}400" > data/items.txt
  chmod 640 data/orders.txt
  archive=shop-2026-10-$day.tar.gz
  tar -cf - data | gzip -n > "/backups/$archive"
  (cd /backups && sha256sum "$archive" > "$archive.sha256")
done
cd /backups
truncate -s 300 shop-2026-10-09.tar.gz # the night the disk was full
rm shop-2026-10-09.tar.gz.sha256
printf 'XXXX' | dd of=shop-2026-10-08.tar.gz bs=1 seek=200 conv=notrunc status=none
cp shop-2026-10-02.tar.gz shop-2026-10-07.tar.gz # something else under the name: only the checksum tells
: > shop-2026-10-04.tar.gz.sha256
touch -d '2027-01-01' shop-2026-10-01.tar.gz
echo 'rotate at 03:00' > README
rm -r /tmp/shop
echo 'half a file' > /srv/shop/stale.txt
