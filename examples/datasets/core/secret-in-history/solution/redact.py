"""A filter between git fast-export and fast-import: replaces the token in every piece of data."""
import sys

TOKEN = b"tok_live_9fQ2sLx7Vb4NcE1"
source, sink = sys.stdin.buffer, sys.stdout.buffer

for line in source:
    if line.startswith(b"data "):
        data = source.read(int(line[5:])).replace(TOKEN, b"REDACTED")
        sink.write(b"data %d\n%s" % (len(data), data))
    else:
        sink.write(line)
