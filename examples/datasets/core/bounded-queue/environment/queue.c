#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t room, first, length;
    int closed;
    void *items[];
};

queue *queue_new(size_t room)
{
    queue *q = calloc(1, sizeof *q + room * sizeof(void *));

    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->room = room;
    return q;
}

void queue_free(queue *q)
{
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
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
    pthread_mutex_lock(&q->lock);
    if (q->closed) {
        pthread_mutex_unlock(&q->lock);
        return -1;
    }
    if (q->length == q->room)
        pthread_cond_wait(&q->changed, &q->lock);
    append(q, item);
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return 0;
}

int queue_get(queue *q, void **item)
{
    pthread_mutex_lock(&q->lock);
    while (q->length == 0) {
        if (q->closed)
            return -1;
        pthread_cond_wait(&q->changed, &q->lock);
    }
    *item = take(q);
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return 0;
}

void queue_close(queue *q)
{
    q->closed = 1;
    pthread_cond_signal(&q->changed);
}

size_t queue_move(queue *from, queue *to, size_t n)
{
    size_t moved = 0;

    pthread_mutex_lock(&from->lock);
    pthread_mutex_lock(&to->lock);
    while (moved < n && from->length > 0 && to->length < to->room) {
        append(to, take(from));
        moved++;
    }
    pthread_mutex_unlock(&to->lock);
    pthread_mutex_unlock(&from->lock);
    return moved;
}

size_t queue_length(queue *q)
{
    return q->length;
}
