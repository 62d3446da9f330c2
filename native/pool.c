/* pool.c: the thread pool.
 *
 * A launch is one 64-bit word: limit | count | next. Whoever raises `next` from i to i + 1 while
 * i < count owns index i of the launch that is current at that moment, so a worker that comes late
 * (it looked at an older launch) either fails its compare-and-swap or does useful work for the new
 * one. The fields of a launch are read only after an index was won: the launch cannot end, and
 * the fields cannot change, until that index is done. The caller works too and waits only for
 * indices that were won, never for threads.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
#define WORKER_SPINS 20000 /* covers gaps of 100 us and more between launches, not idle time */
#define CALLER_SPINS 2000  /* then yield: the worker may need this CPU */
#define REPLACE_INTERVAL_NS 1000000

#define NEXT_BITS 24
#define COUNT_BITS 24
/* `next` may pass `count` by one for each thread; the margin keeps it inside of its bits. */
#define MAX_COUNT (((int64_t)1 << COUNT_BITS) - 65536)
#define MAX_LIMIT 65535

typedef struct worker {
    _Alignas(LINE) _Atomic uint32_t asleep;
    int index;
    pthread_t thread;
    smelt_pool *pool;
} worker;

struct smelt_pool {
    /* The launch: written by the caller, read by every worker. */
    _Alignas(LINE) _Atomic uint64_t state;
    smelt_task task;
    void *closure;
    int64_t first; /* index of task 0 of this segment */
    /* Its result: written by everybody. */
    _Alignas(LINE) _Atomic int64_t pending;
    _Atomic int32_t status;
    _Alignas(LINE) _Atomic int32_t busy;
    _Atomic int32_t sleepers;
    _Atomic int32_t stop;
    int32_t threads; /* the caller included */
    int32_t started; /* workers running */
    int32_t caller_cpu;
    int64_t placed_at;
    worker *workers;
    smelt_pool *next_pool;
#ifdef __linux__
    cpu_set_t allowed;
    int movable; /* more than one CPU is allowed */
#endif
};

/* Every pool of this library, for the child of a fork. */
static smelt_pool *all_pools;
static pthread_mutex_t all_pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static inline uint64_t make_state(int64_t limit, int64_t count) {
    return (uint64_t)limit << (COUNT_BITS + NEXT_BITS) | (uint64_t)count << NEXT_BITS;
}
static inline int64_t state_next(uint64_t s) { return (int64_t)(s & ((1u << NEXT_BITS) - 1)); }
static inline int64_t state_count(uint64_t s) {
    return (int64_t)(s >> NEXT_BITS & ((1u << COUNT_BITS) - 1));
}
static inline int64_t state_limit(uint64_t s) { return (int64_t)(s >> (COUNT_BITS + NEXT_BITS)); }

static inline int is_open(uint64_t s, int worker_index) {
    return state_next(s) < state_count(s) && worker_index + 1 < state_limit(s);
}

/* ---- working ----------------------------------------------------------------------------------- */

/* Runs index `next` and all that can be won after it, then reports them done. */
static void work(smelt_pool *pool, int64_t next) {
    smelt_task task = pool->task;
    void *closure = pool->closure;
    int64_t first = pool->first;
    int64_t done = 0;
    uint64_t s;
    do {
        /* After a failure the rest is claimed but not run. */
        if (atomic_load_explicit(&pool->status, memory_order_relaxed) == 0) {
            int32_t status = task(closure, first + next);
            int32_t none = 0;
            if (status != 0)
                atomic_compare_exchange_strong(&pool->status, &none, status);
        }
        done++;
        /* Our index is not reported yet, so the launch is still current: a plain add is enough. */
        s = atomic_fetch_add_explicit(&pool->state, 1, memory_order_acq_rel);
        next = state_next(s);
    } while (next < state_count(s));
    atomic_fetch_sub_explicit(&pool->pending, done, memory_order_release);
}

/* Wins one index of the current launch, whichever that is. */
static int join_launch(smelt_pool *pool, int worker_index, int64_t *next) {
    uint64_t s = atomic_load_explicit(&pool->state, memory_order_relaxed);
    while (is_open(s, worker_index)) {
        if (atomic_compare_exchange_weak_explicit(&pool->state, &s, s + 1, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            *next = state_next(s);
            return 1;
        }
    }
    return 0;
}

static void wake_workers(smelt_pool *pool, int from, int to) {
    for (int i = from; i < to && i < pool->started; i++) {
        worker *w = &pool->workers[i];
        if (atomic_load(&w->asleep) && atomic_exchange(&w->asleep, 0))
            smelt_wake(&w->asleep);
    }
}

static void sleep_worker(worker *self) {
    smelt_pool *pool = self->pool;
    atomic_store(&self->asleep, 1);
    atomic_fetch_add(&pool->sleepers, 1);
    /* The caller stores the launch, then looks for sleepers; we do it the other way round, so one
     * of the two sees the other. */
    if (!is_open(atomic_load(&pool->state), self->index) && !atomic_load(&pool->stop))
        smelt_sleep_while(&self->asleep, 1);
    atomic_store(&self->asleep, 0);
    atomic_fetch_sub(&pool->sleepers, 1);
    /* Waking many one by one is slow: each woken worker wakes two more. */
    uint64_t s = atomic_load(&pool->state);
    int last = (int)state_limit(s) - 1;
    int child = 2 * self->index + 1;
    if (state_next(s) < state_count(s) && child < last)
        wake_workers(pool, child, child + 2 < last ? child + 2 : last);
}

static void *worker_main(void *argument) {
    worker *self = argument;
    smelt_pool *pool = self->pool;
    int spins = 0;
    while (!atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        int64_t next;
        if (join_launch(pool, self->index, &next)) {
            work(pool, next);
            spins = 0;
        } else if (++spins < WORKER_SPINS) {
            smelt_pause();
        } else {
            sleep_worker(self);
            spins = 0;
        }
    }
    return NULL;
}

/* ---- placing workers --------------------------------------------------------------------------- */

#ifdef __linux__

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Two spinning threads on one CPU cost a time slice per launch, so workers may run anywhere but on
 * the caller's CPU. */
static void place_workers(smelt_pool *pool) {
    int cpu = smelt_current_cpu();
    if (cpu == pool->caller_cpu || cpu < 0 || !pool->movable)
        return;
    /* Callers on two CPUs that take turns must not move the workers at every launch. */
    int64_t time = now();
    if (pool->caller_cpu >= 0 && time - pool->placed_at < REPLACE_INTERVAL_NS)
        return;
    cpu_set_t set = pool->allowed;
    CPU_CLR(cpu, &set);
    for (int i = 0; i < pool->started; i++)
        pthread_setaffinity_np(pool->workers[i].thread, sizeof set, &set);
    pool->caller_cpu = cpu;
    pool->placed_at = time;
}

static void find_allowed(smelt_pool *pool) {
    pool->movable = sched_getaffinity(0, sizeof pool->allowed, &pool->allowed) == 0 &&
                    CPU_COUNT(&pool->allowed) > 1;
}

#else

static void place_workers(smelt_pool *pool) { (void)pool; }
static void find_allowed(smelt_pool *pool) { (void)pool; }

#endif

static void start_workers(smelt_pool *pool) {
    sigset_t all, before;
    /* Signals are for the host program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = pool->started; i < pool->threads - 1; i++) {
        worker *w = &pool->workers[i];
        w->index = i;
        w->pool = pool;
        atomic_store(&w->asleep, 0);
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
            pool->threads = i + 1; /* fewer threads are slower, not wrong */
            break;
        }
        pool->started = i + 1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->caller_cpu = -1;
}

/* ---- launching --------------------------------------------------------------------------------- */

int32_t smelt_serial_for(void *unused, smelt_task task, void *closure, int64_t count) {
    (void)unused;
    for (int64_t i = 0; i < count; i++) {
        int32_t status = task(closure, i);
        if (status != 0)
            return status;
    }
    return 0;
}

static void launch_segment(smelt_pool *pool, int64_t first, int64_t count, int limit) {
    pool->first = first;
    atomic_store_explicit(&pool->pending, count, memory_order_relaxed);
    /* Index 0 is the caller's: it is won before anybody can see the launch. */
    atomic_store(&pool->state, make_state(limit, count) + 1);
    if (atomic_load(&pool->sleepers) > 0)
        wake_workers(pool, 0, (int)(count < limit ? count : limit) - 1);
    work(pool, 0);
    int spins = 0;
    while (atomic_load_explicit(&pool->pending, memory_order_acquire) > 0) {
        if (++spins < CALLER_SPINS)
            smelt_pause();
        else
            sched_yield();
    }
}

static int32_t launch(smelt_pool *pool, smelt_task task, void *closure, int64_t count, int limit) {
    if (limit > pool->threads)
        limit = pool->threads;
    if (count <= 1 || limit <= 1 || atomic_load_explicit(&pool->busy, memory_order_relaxed) ||
        atomic_exchange_explicit(&pool->busy, 1, memory_order_acquire))
        return smelt_serial_for(NULL, task, closure, count);
    if (pool->started < pool->threads - 1)
        start_workers(pool);
    place_workers(pool);
    pool->task = task;
    pool->closure = closure;
    atomic_store_explicit(&pool->status, 0, memory_order_relaxed);
    int32_t status = 0;
    for (int64_t first = 0; first < count && status == 0; first += MAX_COUNT) {
        int64_t rest = count - first;
        launch_segment(pool, first, rest < MAX_COUNT ? rest : MAX_COUNT, limit);
        status = atomic_load_explicit(&pool->status, memory_order_relaxed);
    }
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
    return status;
}

int32_t smelt_pool_for(void *pool, smelt_task task, void *closure, int64_t count) {
    return launch(pool, task, closure, count, MAX_LIMIT);
}

int32_t smelt_pool_view_for(void *view, smelt_task task, void *closure, int64_t count) {
    const smelt_pool_view *v = view;
    return launch(v->pool, task, closure, count, v->max_threads);
}

/* ---- making and forking ------------------------------------------------------------------------ */

static void before_fork(void) { pthread_mutex_lock(&all_pools_lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&all_pools_lock); }

/* The child has none of the workers and possibly a launch that nobody will end. */
static void after_fork_in_child(void) {
    for (smelt_pool *pool = all_pools; pool != NULL; pool = pool->next_pool) {
        atomic_store(&pool->state, 0);
        atomic_store(&pool->pending, 0);
        atomic_store(&pool->sleepers, 0);
        pool->started = 0;
        atomic_store(&pool->busy, 0);
    }
    pthread_mutex_unlock(&all_pools_lock);
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

smelt_pool *smelt_pool_create(int32_t threads) {
    if (threads < 1 || threads > MAX_LIMIT) {
        smelt_fail(SMELT_BAD_ARGUMENT, "a pool of %d threads: 1 to %d are possible", (int)threads,
                   MAX_LIMIT);
        return NULL;
    }
    smelt_pool *pool = smelt_alloc(sizeof *pool);
    worker *workers = smelt_alloc((int64_t)sizeof *workers * threads);
    if (pool == NULL || workers == NULL) {
        smelt_free(pool);
        smelt_free(workers);
        smelt_fail(SMELT_NO_MEMORY, "no memory for a thread pool");
        return NULL;
    }
    memset(pool, 0, sizeof *pool);
    memset(workers, 0, sizeof *workers * (size_t)threads);
    pool->workers = workers;
    pool->threads = threads;
    pool->caller_cpu = -1;
    find_allowed(pool);
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&all_pools_lock);
    pool->next_pool = all_pools;
    all_pools = pool;
    pthread_mutex_unlock(&all_pools_lock);
    return pool;
}

void smelt_pool_destroy(smelt_pool *pool) {
    if (pool == NULL)
        return;
    pthread_mutex_lock(&all_pools_lock);
    smelt_pool **link = &all_pools;
    while (*link != NULL && *link != pool)
        link = &(*link)->next_pool;
    if (*link != NULL)
        *link = pool->next_pool;
    pthread_mutex_unlock(&all_pools_lock);
    atomic_store(&pool->stop, 1);
    for (int i = 0; i < pool->started; i++) {
        wake_workers(pool, i, i + 1);
        pthread_join(pool->workers[i].thread, NULL);
    }
    smelt_free(pool->workers);
    smelt_free(pool);
}

int32_t smelt_pool_threads(const smelt_pool *pool) { return pool->threads; }
