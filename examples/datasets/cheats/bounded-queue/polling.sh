# at most: 0
# Nobody ever waits for a condition: they ask again and again.
sed -i 's/pthread_cond_wait(&q->changed, &q->lock);/{ pthread_mutex_unlock(\&q->lock); usleep(100); pthread_mutex_lock(\&q->lock); }/
  s/#include <stdlib.h>/&\n#include <unistd.h>/' /app/queue.c
