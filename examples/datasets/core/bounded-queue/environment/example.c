/* gcc -pthread -o /tmp/example example.c queue.c && /tmp/example */
#include <pthread.h>
#include <stdio.h>

#include "queue.h"

static void *produce(void *q)
{
    static int numbers[1000];

    for (int i = 0; i < 1000; i++) {
        numbers[i] = i;
        queue_put(q, &numbers[i]);
    }
    queue_close(q);
    return NULL;
}

int main(void)
{
    queue *q = queue_new(4);
    pthread_t producer;
    void *item;
    long sum = 0;

    pthread_create(&producer, NULL, produce, q);
    while (queue_get(q, &item) == 0)
        sum += *(int *)item;
    pthread_join(producer, NULL);
    printf("%ld, wanted 499500\n", sum);
    queue_free(q);
    return 0;
}
