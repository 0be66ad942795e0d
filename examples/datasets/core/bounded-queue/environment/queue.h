#ifndef QUEUE_H
#define QUEUE_H
#include <stddef.h>

/* A queue of pointers with room for a number of them, for any number of threads. */
typedef struct queue queue;

queue *queue_new(size_t room); /* room for at least one */
void queue_free(queue *q);     /* nobody uses it any more */

/* Appends. Waits while there is no room. 0, or -1 if the queue is closed (before or during the wait). */
int queue_put(queue *q, void *item);

/* Takes the oldest. Waits while there is nothing. 0, or -1 if the queue is closed and empty. */
int queue_get(queue *q, void **item);

/* Closes it: all who wait are woken. What is in the queue can still be taken. */
void queue_close(queue *q);

/* Moves the oldest items of one queue to the end of another, in their order: as many as there are and as the other
   has room for, but at most n. Waits for nobody's items or room. Returns how many; 0 if to is closed or both are
   the same queue. Nobody ever sees an item in neither of them, or in both. */
size_t queue_move(queue *from, queue *to, size_t n);

size_t queue_length(queue *q);
#endif
