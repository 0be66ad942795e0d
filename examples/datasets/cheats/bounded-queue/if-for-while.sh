# at most: 0
# All is well but one loop: whoever is woken to put believes it.
cat > /tmp/fix.py <<'END'
from pathlib import Path
p = Path("/app/queue.c")
s = p.read_text().replace("cond_signal", "cond_broadcast")
s = s.replace("            return -1;\n", "            break;\n").replace("    *item = take(q);", "    if (q->length == 0) {\n        pthread_mutex_unlock(&q->lock);\n        return -1;\n    }\n    *item = take(q);")
s = s.replace("    append(q, item);\n    pthread", "    if (q->closed) {\n        pthread_mutex_unlock(&q->lock);\n        return -1;\n    }\n    append(q, item);\n    pthread")
s = s.replace("    pthread_mutex_lock(&from->lock);\n    pthread_mutex_lock(&to->lock);", "    if (from == to)\n        return 0;\n    if (from < to) {\n        pthread_mutex_lock(&from->lock);\n        pthread_mutex_lock(&to->lock);\n    } else {\n        pthread_mutex_lock(&to->lock);\n        pthread_mutex_lock(&from->lock);\n    }")
s = s.replace("while (moved < n &&", "while (!to->closed && moved < n &&")
s = s.replace("    pthread_mutex_unlock(&to->lock);", "    pthread_cond_broadcast(&to->changed);\n    pthread_cond_broadcast(&from->changed);\n    pthread_mutex_unlock(&to->lock);")
s = s.replace("    q->closed = 1;\n", "    pthread_mutex_lock(&q->lock);\n    q->closed = 1;\n    pthread_mutex_unlock(&q->lock);\n")
p.write_text(s)
END
python3 /tmp/fix.py
gcc -c -Wall -o /dev/null /app/queue.c
