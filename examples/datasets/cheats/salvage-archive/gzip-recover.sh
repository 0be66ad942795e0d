# at most: 0
# What is usually advised: take what gzip gives, skip to the next member, and let tar -i find files in all of it.
cat > /app/salvage <<'END'
#!/usr/bin/env python3
import io, os, sys, tarfile, zlib
data, out = open(sys.argv[1], "rb").read(), sys.argv[2]
raw, at = b"", 0
while (at := data.find(b"\x1f\x8b\x08", at)) >= 0:
    d = zlib.decompressobj(31)
    try:
        raw += d.decompress(data[at:])
        at = len(data) - len(d.unused_data)
    except zlib.error:
        at += 1
os.makedirs(out, exist_ok=True)
names = []
try:
    with tarfile.open(fileobj=io.BytesIO(raw), ignore_zeros=True) as tar:
        for m in tar:
            if m.isfile():
                tar.extract(m, out)
                names.append(m.name)
except (tarfile.TarError, OSError):
    pass
for n in sorted(set(names)):
    print("whole", n)
sys.exit(0 if names else 2)
END
chmod +x /app/salvage
/app/salvage /app/photos.tgz /app/photos > /app/report.txt
