"""Usage: make-archive.py FILE. An archive as our backup makes it, with some bytes as a bad disk left them."""
import gzip
import io
import random
import sys
import tarfile

dice = random.Random(11)
members, spans = [], []
for n in range(30):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for k in range(3):
            data = bytes(dice.randrange(256) for _ in range(dice.randrange(10, 3000)))
            info = tarfile.TarInfo(f"2019/{n:02}/IMG_{n * 3 + k:04}.jpg")
            info.size, info.mtime = len(data), 1560000000 + n * 3 + k
            tar.addfile(info, io.BytesIO(data))
        size = tar.offset
    spans.append(sum(map(len, members)))
    members.append(gzip.compress(raw.getvalue()[:size], mtime=0))
archive = bytearray(b"".join(members))
for n in (4, 5, 17):
    for k in range(40):
        archive[spans[n] + 1900 + k] ^= 0x5A
archive[spans[22]:spans[22] + 4] = bytes(4)
del archive[-700:]
open(sys.argv[1], "wb").write(archive)
