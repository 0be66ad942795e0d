#!/bin/bash
# Makes /srv/shop, in the state in which the incident left it.
set -euo pipefail
mkdir -p /srv/shop && cd /srv/shop
mkdir -p bin/games etc/cron.d var/tmp 'var/drop box' var/spool 'home/ops team' lib
for file in bin/{mount-helper,backup,mail,shop,'.cache helper'} bin/games/{score,chess} etc/cron.d/nightly \
  etc/shop.conf 'var/drop box/note' var/spool/job 'home/ops team/run me' lib/libshop.so; do
  echo "# $file" > "$file"
done
chmod 4755 bin/mount-helper bin/backup 'bin/.cache helper'
chmod 6755 'home/ops team/run me'
chmod 2755 bin/games/score bin/games/chess bin/mail
chmod 666 etc/cron.d/nightly 'var/drop box/note'
chmod 1777 var/tmp
chmod 2775 var/spool
chmod 777 lib
chmod 646 etc/shop.conf
ln -s ../etc/shop.conf bin/shop.conf
mkfifo -m 666 var/spool/in
