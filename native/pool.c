/* pool.c: the thread pool. It runs several launches at once, each in a slot of its own.
 *
 * A launch's state is one 64-bit word: helpers | count | next. Whoever raises `next` from i to i + 1
 * while i < count owns index i of the launch that is in the slot at that moment. `helpers` is how
 * many more workers may join; a worker joins by a compare-and-swap that takes one helper and one
 * index at once, and takes its further indices by plain adds. This is why it is right:
 *
 * - The word says all that joining depends on. A worker that comes late (it looked at an older launch
 *   of this slot) fails its compare-and-swap, or finds the same word again and does useful work for
 *   the new launch, of which it is then a counted helper. So no word needs a generation.
 * - The fields of a launch are read only after an index was won. The launch cannot end, and neither
 *   the fields nor the slot's owner can change, until that index is reported in `pending`. An add
 *   happens before the report of the index that stands behind it, so it meets no later launch.
 * - A slot belongs to the thread that set `taken`, until it has seen `pending` at 0. It works on its
 *   own launch only, and waits only for indices that were won, never for threads. An index that is
 *   won is run by a thread that waits for nothing, or for a launch that began later: a task may
 *   launch again, and nobody waits in a circle.
 * - After its report a worker touches only `waiting` of the slot, which at worst wakes the caller of a
 *   later launch once too often. Workers outlive all slots, as smelt_pool_destroy joins them first.
 * - The child of a fork has the forking thread alone. All slots are empty there; a task that forks
 *   must not make threads that launch before it returns.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 64
#define SLOTS 8 /* launches at once; any more run on their callers alone */
#define SPINS_PER_LOOK 64 /* pauses between two looks at the clock */
#define WORKER_NS 150000 /* covers gaps of 100 us between launches, not idle time */
#define CALLER_NS 200000 /* then asleep: who holds the last index may need this CPU */
#define SHORT_STAY_NS 1000000 /* between two moves of a worker off the caller's CPU */
#define LONG_STAY_NS 10000000000 /* after which the next stay is a short one again */

#define NEXT_BITS 24
#define COUNT_BITS 24
/* `next` may pass `count` by one for each thread; the margin keeps it inside of its bits. */
#define MAX_COUNT (((int64_t)1 << COUNT_BITS) - 65536)
#define MAX_LIMIT 65535
#define ONE_HELPER ((uint64_t)1 << (COUNT_BITS + NEXT_BITS))

enum { IDLE, ASLEEP, WORKING };

typedef struct worker {
    _Alignas(LINE) _Atomic uint32_t doing;
    int64_t moved_at, stay; /* for how long it stays where it moved to, nanoseconds */
    pthread_t thread;
    smelt_pool *pool;
} worker;

typedef struct launch {
    /* Written by the caller, read by every worker. */
    _Alignas(LINE) _Atomic uint64_t state;
    smelt_task task;
    void *closure;
    int64_t first; /* index of task 0 of this segment */
    /* The result: written by everybody. */
    _Alignas(LINE) _Atomic int64_t pending;
    _Atomic int32_t status;
    _Atomic uint32_t waiting; /* 1 while the caller sleeps */
    /* Of callers alone. */
    _Alignas(LINE) _Atomic int32_t taken;
} launch;

struct smelt_pool {
    launch slots[SLOTS];
    _Alignas(LINE) _Atomic int32_t sleepers;
    _Atomic int32_t stop;
    _Atomic int32_t threads; /* the caller included */
    _Atomic int32_t started; /* workers running */
    _Atomic int32_t caller_cpu; /* of the last launch that was alone */
    worker *workers;
    smelt_pool *next_pool;
};

/* Every pool of this library, for the child of a fork. The lock is also held while workers start, so
 * that no fork sees half of them. */
static smelt_pool *all_pools;
static pthread_mutex_t all_pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static inline int64_t state_next(uint64_t s) { return (int64_t)(s & ((1u << NEXT_BITS) - 1)); }
static inline int64_t state_count(uint64_t s) {
    return (int64_t)(s >> NEXT_BITS & ((1u << COUNT_BITS) - 1));
}
static inline int state_helpers(uint64_t s) { return (int)(s >> (COUNT_BITS + NEXT_BITS)); }

/* ---- waiting ----------------------------------------------------------------------------------- */

typedef struct patience {
    unsigned pauses;
    int64_t since, waited; /* nanoseconds */
} patience;

/* Waits for a moment; how many nanoseconds that makes so far. */
static inline int64_t spin(patience *p) {
    smelt_pause();
    if (++p->pauses % SPINS_PER_LOOK != 0)
        return p->waited;
    int64_t time = smelt_now();
    if (p->since == 0)
        p->since = time;
    return p->waited = time - p->since;
}

/* ---- working ----------------------------------------------------------------------------------- */

/* Runs index `next` and all that can be won after it, then reports them done. */
static void work(launch *l, int64_t next) {
    smelt_task task = l->task;
    void *closure = l->closure;
    int64_t first = l->first;
    int64_t done = 0;
    uint64_t s;
    do {
        /* After a failure the rest is claimed but not run. */
        if (atomic_load_explicit(&l->status, memory_order_relaxed) == 0) {
            int32_t status = task(closure, first + next);
            int32_t none = 0;
            if (status != 0)
                atomic_compare_exchange_strong(&l->status, &none, status);
        }
        done++;
        /* Our index is not reported yet, so the launch is still current: a plain add is enough. */
        s = atomic_fetch_add_explicit(&l->state, 1, memory_order_acq_rel);
        next = state_next(s);
    } while (next < state_count(s));
    if (atomic_fetch_sub(&l->pending, done) == done && atomic_load(&l->waiting) &&
        atomic_exchange(&l->waiting, 0))
        smelt_wake(&l->waiting);
}

/* The launch with the most indices left among those that a worker may join, and its state. */
static launch *find_launch(smelt_pool *pool, uint64_t *state) {
    launch *best = NULL;
    int64_t most = 0;
    for (launch *l = pool->slots; l < pool->slots + SLOTS; l++) {
        uint64_t s = atomic_load(&l->state);
        int64_t left = state_count(s) - state_next(s);
        if (left > most && state_helpers(s) > 0) {
            most = left;
            best = l;
            *state = s;
        }
    }
    return best;
}

/* Wins one index of some launch. */
static launch *join_launch(smelt_pool *pool, int64_t *next) {
    uint64_t s;
    launch *l;
    while ((l = find_launch(pool, &s)) != NULL) {
        if (atomic_compare_exchange_strong_explicit(&l->state, &s, s + 1 - ONE_HELPER,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            *next = state_next(s);
            break;
        }
    }
    return l;
}

static int wake(worker *w) {
    uint32_t asleep = ASLEEP;
    if (atomic_load(&w->doing) != ASLEEP ||
        !atomic_compare_exchange_strong(&w->doing, &asleep, IDLE))
        return 0;
    smelt_wake(&w->doing);
    return 1;
}

/* Sees to it that so many workers are free to join; one that is awake finds a launch by itself. */
static void wake_workers(smelt_pool *pool, int needed) {
    int started = atomic_load(&pool->started);
    for (int i = 0; i < started && needed > 0; i++) {
        worker *w = &pool->workers[i];
        if (wake(w) || atomic_load(&w->doing) == IDLE)
            needed--;
    }
}

static void sleep_worker(worker *self) {
    smelt_pool *pool = self->pool;
    uint64_t s;
    atomic_store(&self->doing, ASLEEP);
    atomic_fetch_add(&pool->sleepers, 1);
    /* The caller stores the launch, then looks for sleepers; we do it the other way round, so one
     * of the two sees the other. */
    if (find_launch(pool, &s) == NULL && !atomic_load(&pool->stop))
        smelt_sleep_while(&self->doing, ASLEEP);
    atomic_store(&self->doing, IDLE);
    atomic_fetch_sub(&pool->sleepers, 1);
}

/* Two threads of a launch on one CPU do the work of one. A worker that spins where the caller runs
 * moves away, but is not kept away, and moves ever more rarely: beside other processes the scheduler
 * knows better. */
static void step_aside(worker *self) {
#ifdef __linux__
    int cpu = smelt_current_cpu();
    if (cpu < 0 || cpu != atomic_load_explicit(&self->pool->caller_cpu, memory_order_relaxed))
        return;
    int64_t time = smelt_now(), stayed = time - self->moved_at;
    cpu_set_t all, others;
    if (stayed < self->stay || sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    self->moved_at = time;
    self->stay = stayed > LONG_STAY_NS ? SHORT_STAY_NS : 2 * self->stay;
    others = all;
    CPU_CLR(cpu, &others);
    if (sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all);
#else
    (void)self;
#endif
}

static void *worker_main(void *argument) {
    worker *self = argument;
    smelt_pool *pool = self->pool;
    patience p = {0};
    while (!atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        int64_t next;
        uint64_t s;
        launch *l = join_launch(pool, &next);
        if (l != NULL) {
            atomic_store_explicit(&self->doing, WORKING, memory_order_relaxed);
            /* Waking many one by one is slow, and two callers may have counted on one worker: who
             * joins wakes two more where there is room. */
            if (atomic_load_explicit(&pool->sleepers, memory_order_relaxed) > 0 &&
                find_launch(pool, &s) != NULL)
                wake_workers(pool, state_helpers(s) < 2 ? 1 : 2);
            work(l, next);
            atomic_store_explicit(&self->doing, IDLE, memory_order_relaxed);
            p = (patience){0};
        } else if (spin(&p) > WORKER_NS) {
            sleep_worker(self);
            p = (patience){0};
        } else if (p.pauses % SPINS_PER_LOOK == 0) {
            step_aside(self);
        }
    }
    return NULL;
}

static void start_workers(smelt_pool *pool) {
    sigset_t all, before;
    /* Signals are for the host program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&all_pools_lock);
    for (int i = pool->started; i < pool->threads - 1; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->stay = SHORT_STAY_NS;
        atomic_store(&w->doing, IDLE);
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
            pool->threads = i + 1; /* fewer threads are slower, not wrong */
            break;
        }
        pool->started = i + 1;
    }
    pthread_mutex_unlock(&all_pools_lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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

/* Waits for what others won: the last of them wakes a caller that sleeps. */
static void wait_for(launch *l) {
    patience p = {0};
    while (atomic_load_explicit(&l->pending, memory_order_acquire) > 0) {
        if (spin(&p) < CALLER_NS)
            continue;
        atomic_store(&l->waiting, 1);
        if (atomic_load(&l->pending) > 0)
            smelt_sleep_while(&l->waiting, 1);
        atomic_store(&l->waiting, 0);
    }
}

static void run_segment(smelt_pool *pool, launch *l, int64_t first, int64_t count, int limit) {
    int helpers = (int)(count < limit ? count : limit) - 1;
    l->first = first;
    atomic_store_explicit(&l->pending, count, memory_order_relaxed);
    /* Index 0 is the caller's: it is won before anybody can see the launch. */
    atomic_store(&l->state, ONE_HELPER * (uint64_t)helpers | (uint64_t)count << NEXT_BITS | 1);
    if (atomic_load(&pool->sleepers) > 0)
        wake_workers(pool, helpers);
    work(l, 0);
    wait_for(l);
}

/* Tells the workers which CPU is ours. Beside other callers, or inside of a task of theirs, there is no
 * one CPU to keep off. */
static void tell_cpu(smelt_pool *pool, const launch *own) {
    int cpu = smelt_current_cpu();
    if (cpu == atomic_load_explicit(&pool->caller_cpu, memory_order_relaxed))
        return;
    for (launch *l = pool->slots; l < pool->slots + SLOTS; l++)
        if (l != own && atomic_load_explicit(&l->taken, memory_order_relaxed))
            return;
    atomic_store_explicit(&pool->caller_cpu, cpu, memory_order_relaxed);
}

/* A slot of our own; NULL where all are taken. */
static launch *take_slot(smelt_pool *pool) {
    for (launch *l = pool->slots; l < pool->slots + SLOTS; l++)
        if (!atomic_load_explicit(&l->taken, memory_order_relaxed) &&
            !atomic_exchange_explicit(&l->taken, 1, memory_order_acquire))
            return l;
    return NULL;
}

static int32_t run(smelt_pool *pool, smelt_task task, void *closure, int64_t count, int limit) {
    int threads = atomic_load_explicit(&pool->threads, memory_order_relaxed);
    if (limit > threads)
        limit = threads;
    launch *l = count <= 1 || limit <= 1 ? NULL : take_slot(pool);
    if (l == NULL)
        return smelt_serial_for(NULL, task, closure, count);
    if (atomic_load_explicit(&pool->started, memory_order_acquire) < threads - 1)
        start_workers(pool);
    tell_cpu(pool, l);
    l->task = task;
    l->closure = closure;
    atomic_store_explicit(&l->status, 0, memory_order_relaxed);
    int32_t status = 0;
    for (int64_t first = 0; first < count && status == 0; first += MAX_COUNT) {
        int64_t rest = count - first;
        run_segment(pool, l, first, rest < MAX_COUNT ? rest : MAX_COUNT, limit);
        status = atomic_load_explicit(&l->status, memory_order_relaxed);
    }
    atomic_store_explicit(&l->taken, 0, memory_order_release);
    return status;
}

int32_t smelt_pool_for(void *pool, smelt_task task, void *closure, int64_t count) {
    return run(pool, task, closure, count, MAX_LIMIT);
}

int32_t smelt_pool_view_for(void *view, smelt_task task, void *closure, int64_t count) {
    const smelt_pool_view *v = view;
    return run(v->pool, task, closure, count, v->max_threads);
}

/* ---- making and forking ------------------------------------------------------------------------ */

static void before_fork(void) { pthread_mutex_lock(&all_pools_lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&all_pools_lock); }

/* The child has none of the workers and possibly launches that nobody will end. */
static void after_fork_in_child(void) {
    for (smelt_pool *pool = all_pools; pool != NULL; pool = pool->next_pool) {
        for (launch *l = pool->slots; l < pool->slots + SLOTS; l++) {
            atomic_store(&l->state, 0);
            atomic_store(&l->pending, 0);
            atomic_store(&l->waiting, 0);
            atomic_store(&l->taken, 0);
        }
        atomic_store(&pool->sleepers, 0);
        pool->started = 0;
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
        wake(&pool->workers[i]);
        pthread_join(pool->workers[i].thread, NULL);
    }
    smelt_free(pool->workers);
    smelt_free(pool);
}

int32_t smelt_pool_threads(const smelt_pool *pool) { return pool->threads; }
