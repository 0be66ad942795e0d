# at most: 0
# Loops and broadcasts everywhere, as one would write it first, but locks are taken in the order of the arguments.
sed -i -e 's/cond_signal/cond_broadcast/' -e 's/    if (q->length == q->room)/    while (!q->closed \&\& q->length == q->room)/' \
  -e 's/            return -1;/            { pthread_mutex_unlock(\&q->lock); return -1; }/' /app/queue.c
python3 - <<'END'
from pathlib import Path
p = Path("/app/queue.c")
s = p.read_text()
s = s.replace("    append(q, item);\n    pthread", "    if (q->closed) {\n        pthread_mutex_unlock(&q->lock);\n        return -1;\n    }\n    append(q, item);\n    pthread")
s = s.replace("    q->closed = 1;\n    pthread_cond_broadcast(&q->changed);", "    pthread_mutex_lock(&q->lock);\n    q->closed = 1;\n    pthread_cond_broadcast(&q->changed);\n    pthread_mutex_unlock(&q->lock);")
s = s.replace("    size_t moved = 0;\n", "    size_t moved = 0;\n\n    if (from == to)\n        return 0;\n")
s = s.replace("while (moved < n &&", "while (!to->closed && moved < n &&")
s = s.replace("    pthread_mutex_unlock(&to->lock);", "    pthread_cond_broadcast(&to->changed);\n    pthread_cond_broadcast(&from->changed);\n    pthread_mutex_unlock(&to->lock);")
p.write_text(s)
END
gcc -c -Wall -o /dev/null /app/queue.c
