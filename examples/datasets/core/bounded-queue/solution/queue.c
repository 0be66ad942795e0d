#include "queue.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t more, less; /* something came; something went */
    size_t room, first, length;
    int closed;
    void *items[];
};

queue *queue_new(size_t room)
{
    queue *q = calloc(1, sizeof *q + room * sizeof(void *));

    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->more, NULL);
    pthread_cond_init(&q->less, NULL);
    q->room = room;
    return q;
}

void queue_free(queue *q)
{
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->more);
    pthread_cond_destroy(&q->less);
    free(q);
}

static void append(queue *q, void *item)
{
    q->items[(q->first + q->length++) % q->room] = item;
}

static void *take(queue *q)
{
    void *item = q->items[q->first];

    q->first = (q->first + 1) % q->room;
    q->length--;
    return item;
}

int queue_put(queue *q, void *item)
{
    int result = -1;

    pthread_mutex_lock(&q->lock);
    while (!q->closed && q->length == q->room)
        pthread_cond_wait(&q->less, &q->lock);
    if (!q->closed) {
        append(q, item);
        pthread_cond_signal(&q->more);
        result = 0;
    }
    pthread_mutex_unlock(&q->lock);
    return result;
}

int queue_get(queue *q, void **item)
{
    int result = -1;

    pthread_mutex_lock(&q->lock);
    while (!q->closed && q->length == 0)
        pthread_cond_wait(&q->more, &q->lock);
    if (q->length > 0) {
        *item = take(q);
        pthread_cond_signal(&q->less);
        result = 0;
    }
    pthread_mutex_unlock(&q->lock);
    return result;
}

void queue_close(queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = 1;
    pthread_cond_broadcast(&q->more);
    pthread_cond_broadcast(&q->less);
    pthread_mutex_unlock(&q->lock);
}

size_t queue_move(queue *from, queue *to, size_t n)
{
    size_t moved = 0;
    /* Whichever way items go, the locks are taken in the same order. */
    int forward = (uintptr_t)from < (uintptr_t)to;

    if (from == to)
        return 0;
    pthread_mutex_lock(forward ? &from->lock : &to->lock);
    pthread_mutex_lock(forward ? &to->lock : &from->lock);
    while (!to->closed && moved < n && from->length > 0 && to->length < to->room) {
        append(to, take(from));
        moved++;
    }
    if (moved > 0) { /* several may have waited for it */
        pthread_cond_broadcast(&from->less);
        pthread_cond_broadcast(&to->more);
    }
    pthread_mutex_unlock(&to->lock);
    pthread_mutex_unlock(&from->lock);
    return moved;
}

size_t queue_length(queue *q)
{
    size_t length;

    pthread_mutex_lock(&q->lock);
    length = q->length;
    pthread_mutex_unlock(&q->lock);
    return length;
}
