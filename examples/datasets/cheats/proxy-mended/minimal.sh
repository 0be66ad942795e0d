# at most: 0.2
# It starts, and serves what is easy.
cd /srv/shop
chmod 755 public
mkdir run
sed -i 's/sendfile on$/sendfile on;/; s/404 =200/404/; s/127.0.0.1:9000;/&\n            client_max_body_size 8m;/' nginx.conf
