# at most: 0
# Trusts that what can be decompressed is right.
cat > /app/salvage <<'END'
#!/bin/bash
mkdir -p "$2"
gzip -dc "$1" 2> /dev/null | tar -xv -C "$2" 2> /dev/null | grep -v '/$' | sort -u | sed 's/^/whole /' > /tmp/list
cat /tmp/list
[ -s /tmp/list ] || exit 2
gzip -tq "$1" 2> /dev/null
END
chmod +x /app/salvage
/app/salvage /app/photos.tgz /app/photos > /app/report.txt
true
