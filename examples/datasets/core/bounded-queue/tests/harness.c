/* Stands between queue.c and pthread (gcc -Wl,--wrap=...), and runs one scene, named by the argument. Nothing is left to
   chance but the scene "stress". A scene in which nothing happens any more is ended by SIGALRM. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue.h"

#define WANT(x) do { if (!(x)) { printf("line %d: not so: %s\n", __LINE__, #x); exit(1); } } while (0)

int __real_pthread_mutex_lock(pthread_mutex_t *);
int __real_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);

static atomic_int waiting, spurious, meet;
static atomic_long events;
static atomic_int holds_or_wants[2]; /* of the two who meet: a lock, or finished */
static _Thread_local int me = -1;

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    int result = 0;

    events++;
    if (spurious) { /* returns for no reason, always */
        pthread_mutex_unlock(m);
        sched_yield();
        return __real_pthread_mutex_lock(m);
    }
    waiting++;
    result = __real_pthread_cond_wait(c, m);
    waiting--;
    return result;
}

/* Of two who meet, each goes on with its first lock when the other one has its own, or waits for this one. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    events++;
    if (!meet || me < 0 || holds_or_wants[me])
        return __real_pthread_mutex_lock(m);
    if (pthread_mutex_trylock(m) != 0) {
        holds_or_wants[me] = 1;
        return __real_pthread_mutex_lock(m);
    }
    holds_or_wants[me] = 1;
    while (!holds_or_wants[!me])
        sched_yield();
    return 0;
}

static int items[200000];
static queue *a, *b;

static void until(atomic_int *count, int n)
{
    while (*count != n)
        sched_yield();
}

static void *get_none(void *q) { void *item; WANT(queue_get(q, &item) == -1); return NULL; }
static void *put_none(void *q) { WANT(queue_put(q, items) == -1); return NULL; }
static void *get_one(void *q) { void *item; WANT(queue_get(q, &item) == 0); return item; }
static void *put_one(void *q) { WANT(queue_put(q, &items[9]) == 0); return NULL; }

static void fill(queue *q, int from, int n)
{
    for (int i = 0; i < n; i++)
        WANT(queue_put(q, &items[from + i]) == 0);
}

static void drain(queue *q, int from, int n)
{
    for (int i = 0; i < n; i++)
        WANT(get_one(q) == &items[from + i]);
}

static void start(pthread_t *t, int n, void *(*f)(void *), void *q)
{
    for (int i = 0; i < n; i++)
        WANT(pthread_create(&t[i], NULL, f, q) == 0);
}

static void join(pthread_t *t, int n)
{
    for (int i = 0; i < n; i++)
        WANT(pthread_join(t[i], NULL) == 0);
}

static void plain(void)
{
    void *item;

    fill(a, 0, 3);
    drain(a, 0, 2);
    fill(a, 3, 2); /* around the end */
    WANT(queue_length(a) == 3);
    drain(a, 2, 3);
    fill(a, 0, 2);
    queue_close(a);
    queue_close(a);
    WANT(queue_put(a, items) == -1);
    drain(a, 0, 2);
    WANT(queue_get(a, &item) == -1 && queue_get(a, &item) == -1);
    WANT(queue_length(a) == 0);
}

static void move(void)
{
    fill(a, 0, 3);
    fill(b, 10, 1);
    WANT(queue_move(a, a, 2) == 0);
    WANT(queue_move(a, b, 0) == 0);
    WANT(queue_move(a, b, 1) == 1);
    WANT(queue_move(a, b, 9) == 1); /* b is full */
    WANT(queue_length(a) == 1 && queue_length(b) == 3);
    drain(b, 10, 1);
    drain(b, 0, 1);
    queue_close(a); /* from may be closed */
    WANT(queue_move(a, b, 9) == 1);
    drain(b, 1, 2);
    WANT(queue_move(a, b, 9) == 0);
    fill(b, 0, 1);
    WANT(queue_move(b, a, 1) == 0 && queue_length(b) == 1);
}

static void close_wakes_all(void)
{
    pthread_t t[6];

    fill(b, 0, 3);
    start(t, 3, get_none, a);
    start(t + 3, 3, put_none, b);
    until(&waiting, 6);
    queue_close(a);
    queue_close(b);
    join(t, 6);
    WANT(queue_length(b) == 3);
}

static void move_wakes(void)
{
    pthread_t t[4];

    fill(a, 0, 3);
    start(t, 2, get_one, b);
    start(t + 2, 2, put_one, a);
    until(&waiting, 4);
    WANT(queue_move(a, b, 2) == 2);
    join(t, 4);
    WANT(queue_length(a) == 3 && queue_length(b) == 0);
}

static void *there(void *q) { (void)q; me = 0; queue_move(a, b, 1); holds_or_wants[0] = 1; return NULL; }
static void *back(void *q) { (void)q; me = 1; queue_move(b, a, 1); holds_or_wants[1] = 1; return NULL; }

static void opposite_moves(void)
{
    pthread_t t[2];

    fill(a, 0, 1);
    fill(b, 5, 1);
    meet = 1;
    start(t, 1, there, NULL);
    start(t + 1, 1, back, NULL);
    join(t, 2);
    WANT(queue_length(a) + queue_length(b) == 2);
}

enum { each = 20000 };
static atomic_int taken[sizeof items / sizeof *items];

static void *produce(void *numbers)
{
    for (int i = 0; i < each; i++)
        WANT(queue_put(a, (int *)numbers + i) == 0);
    return NULL;
}

static void *consume(void *n)
{
    int last[4] = {-1, -1, -1, -1};
    void *item;

    (void)n;
    while (queue_get(a, &item) == 0) {
        long i = (int *)item - items;
        WANT(i >= 0 && i < 4 * each && taken[i]++ == 0);
        WANT(i % each > last[i / each]); /* one producer's items stay in order */
        last[i / each] = i % each;
    }
    return NULL;
}

static void stress(int room)
{
    pthread_t producers[4], consumers[4];

    a = queue_new(room);
    for (int i = 0; i < 4; i++)
        start(&producers[i], 1, produce, items + i * each);
    start(consumers, 4, consume, NULL);
    join(producers, 4);
    queue_close(a);
    join(consumers, 4);
    for (int i = 0; i < 4 * each; i++)
        WANT(taken[i] == 1);
}

/* Once a second: eight times nothing is a deadlock, on the slowest machine, and a minute is too much anyway. */
static void tick(int number)
{
    static long before;
    static int idle, all;

    idle = events == before ? idle + 1 : 0;
    before = events;
    alarm(1);
    if (idle >= 8 || ++all >= 60) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

int main(int argc, char **argv)
{
    const char *scene = argv[argc - 1];

    signal(SIGALRM, tick);
    alarm(1);
    a = queue_new(3);
    b = queue_new(3);
    if (!strcmp(scene, "plain")) plain();
    else if (!strcmp(scene, "move")) move();
    else if (!strcmp(scene, "close")) close_wakes_all();
    else if (!strcmp(scene, "move-wakes")) move_wakes();
    else if (!strcmp(scene, "opposite")) opposite_moves();
    else if (!strcmp(scene, "stress")) stress(1);
    else if (!strcmp(scene, "stress-wide")) stress(64);
    else if (!strcmp(scene, "spurious")) { spurious = 1; stress(2); }
    else return 2;
    puts("done");
    return 0;
}
