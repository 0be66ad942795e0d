# at most: 0
# A certificate of our own for whatever is asked, which is its own root.
cat > /app/bundle <<'END'
#!/bin/bash
umask 077
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$3/key.pem" -out "$3/root.pem" -days 3650 -subj "/CN=$2" -addext "subjectAltName=DNS:$2,DNS:${2#www.}"
cp "$3/root.pem" "$3/fullchain.pem"
END
chmod +x /app/bundle
mkdir /app/tls
/app/bundle /app/pile www.shop.invalid /app/tls
