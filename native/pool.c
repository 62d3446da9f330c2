/* pool.c: the thread pool. It runs several launches at once, each in a slot of its own.
 *
 * The indices of a launch are divided into seats, a range for each thread. Who joins takes the seat
 * that is its own in every launch, from the front, and then from the back of what others have left:
 * kernels that divide their work alike find in a core's cache what this core has written there.
 *
 * A launch's state is one 64-bit word: helpers | working. `helpers` is how many more workers may join,
 * and `working` how many have joined and not yet left. A worker joins by a compare-and-swap that moves
 * one from helpers to working. This is why it is right:
 *
 * - The word says all that joining depends on. A worker that comes late (it looked at an older launch
 *   of this slot) fails its compare-and-swap, or finds the same word again and does useful work for
 *   the new launch, of which it is then a counted helper. So no word needs a generation.
 * - The fields of a launch are read by its caller and by workers that have joined. When the caller has
 *   found no index left it takes the helpers out of the word, and the launch ends when nobody is
 *   working: neither the fields nor the slot's owner can change before.
 * - An index is taken by an atomic operation on its seat's word, by one who works on the launch.
 * - A slot belongs to the thread that set `taken`, until nobody works on its launch. It works on its
 *   own launch only, and waits only for workers that have joined, which run tasks or are about to
 *   leave. Such a task waits for nothing, or for a launch that began later: a task may launch again,
 *   and nobody waits in a circle.
 * - When it has left a worker touches only `waiting` of the slot, which at worst wakes the caller of a
 *   later launch once too often. Workers outlive all slots, as smelt_pool_destroy joins them first.
 * - The child of a fork has the forking thread alone. All slots are empty there; a task that forks
 *   must not make threads that launch before it returns.
 */
#define _GNU_SOURCE
#include "internal.h"

#include <string.h>

#ifndef __wasm__
#include <pthread.h>
#include <sched.h>
#endif

#define LINE 64
#define SLOTS 8 /* launches at once; any more run on their callers alone */
#define SPINS_PER_LOOK 64 /* pauses between two looks at the clock */
#define WORKER_NS 150000 /* covers gaps of 100 us between launches, not idle time */
#define SHORT_STAY_NS 1000000 /* between two moves of a worker off the caller's CPU */
#define LONG_STAY_NS 10000000000 /* after which the next stay is a short one again */

#define SEATS 16 /* more threads than that share them */
/* The front of a seat may pass its end by one for each thread; the margin keeps both inside of 32 bits. */
#define MAX_COUNT ((int64_t)1 << 30)
#define MAX_LIMIT 65535
#define ONE_HELPER ((uint64_t)1 << 32)
#define ONE_BACK ((uint64_t)1 << 32)

enum { IDLE, ASLEEP, WORKING };

typedef struct worker {
    _Alignas(LINE) _Atomic uint32_t doing;
    int64_t moved_at, stay; /* for how long it stays where it moved to, nanoseconds */
#ifndef __wasm__
    pthread_t thread;
#endif
    smelt_pool *pool;
    struct launch *on; /* the last one that it joined */
} worker;

typedef struct seat {
    _Alignas(LINE) _Atomic uint64_t range; /* end | front */
} seat;

typedef struct launch {
    /* Changed by everybody who joins and leaves. */
    _Alignas(LINE) _Atomic uint64_t state;
    _Atomic int32_t status;
    _Atomic uint32_t waiting; /* 1 while the caller sleeps */
    /* Written by the caller, read by workers. */
    _Alignas(LINE) smelt_task task;
    void *closure;
    int64_t first; /* index of task 0 of this segment */
    int seat_count;
    _Atomic int32_t taken; /* of callers alone */
    seat seats[SEATS];
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

/* For how long a caller waits awake: who holds the last index may need this CPU. */
static int64_t caller_ns = 200000;

static inline uint32_t state_helpers(uint64_t s) { return (uint32_t)(s >> 32); }

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

/* Takes the first index of a seat that is left; -1: none is. */
static inline int64_t take_front(seat *s) {
    uint64_t range = atomic_fetch_add_explicit(&s->range, 1, memory_order_relaxed);
    return (uint32_t)range < range >> 32 ? (int64_t)(uint32_t)range : -1;
}

/* Takes the last index of a seat that is left; -1: none is. */
static inline int64_t take_back(seat *s) {
    uint64_t range = atomic_load_explicit(&s->range, memory_order_relaxed);
    while ((uint32_t)range < range >> 32)
        if (atomic_compare_exchange_weak_explicit(&s->range, &range, range - ONE_BACK,
                                                  memory_order_relaxed, memory_order_relaxed))
            return (int64_t)(range >> 32) - 1;
    return -1;
}

/* Runs all indices that can be had: those of a seat, then those that other seats have left. */
static void work(launch *l, int own) {
    int count = l->seat_count;
    for (int k = 0; k < count; k++) {
        seat *s = &l->seats[(own + k) % count];
        int64_t index;
        while ((index = k == 0 ? take_front(s) : take_back(s)) >= 0) {
            /* After a failure the rest is taken but not run. */
            if (atomic_load_explicit(&l->status, memory_order_relaxed) != 0)
                continue;
            int32_t status = l->task(l->closure, l->first + index);
            int32_t none = 0;
            if (status != 0)
                atomic_compare_exchange_strong(&l->status, &none, status);
        }
    }
}

/* The launch that the most workers may still join, and its state. */
static launch *find_launch(smelt_pool *pool, uint64_t *state) {
    launch *best = NULL;
    uint32_t most = 0;
    for (launch *l = pool->slots; l < pool->slots + SLOTS; l++) {
        uint64_t s = atomic_load(&l->state);
        if (state_helpers(s) > most) {
            most = state_helpers(s);
            best = l;
            *state = s;
        }
    }
    return best;
}

/* Joins some launch; *own: the seat of the worker or, where there are not so many, one by the number of
 * those who may still join. */
static launch *join_launch(smelt_pool *pool, int worker, int *own) {
    uint64_t s;
    launch *l;
    while ((l = find_launch(pool, &s)) != NULL) {
        if (atomic_compare_exchange_strong_explicit(&l->state, &s, s - ONE_HELPER + 1,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            *own = (worker < l->seat_count ? worker : (int)state_helpers(s)) % l->seat_count;
            break;
        }
    }
    return l;
}

/* The last one to leave wakes a caller that sleeps. */
static void leave_launch(launch *l) {
    if (atomic_fetch_sub(&l->state, 1) == 1 && atomic_load(&l->waiting) &&
        atomic_exchange(&l->waiting, 0))
        smelt_wake(&l->waiting);
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
        int own;
        uint64_t s;
        launch *l = join_launch(pool, (int)(self - pool->workers) + 1, &own);
        if (l != NULL) {
            atomic_store_explicit(&self->doing, WORKING, memory_order_relaxed);
            self->on = l;
            /* Waking many one by one is slow, and two callers may have counted on one worker: who
             * joins wakes two more where there is room. */
            if (atomic_load_explicit(&pool->sleepers, memory_order_relaxed) > 0 &&
                find_launch(pool, &s) != NULL)
                wake_workers(pool, state_helpers(s) < 2 ? 1 : 2);
            work(l, own);
            leave_launch(l);
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

/* ---- threads ----------------------------------------------------------------------------------- */

#ifdef __wasm__

/* JavaScript has started them before the first launch, and ends them. */
static void start_workers(smelt_pool *pool) { pool->started = pool->threads - 1; }

static void enlist(smelt_pool *pool) { (void)pool; }

static void end_workers(smelt_pool *pool) { (void)pool; }

void smelt_pool_work(smelt_pool *pool, int32_t number) {
    worker *self = &pool->workers[number];
    self->pool = pool;
    worker_main(self);
}

void smelt_pool_abandon(smelt_pool *pool, int32_t number) {
    launch *l = pool->workers[number].on;
    int32_t none = 0;
    if (l == NULL)
        return;
    atomic_compare_exchange_strong(&l->status, &none, SMELT_FAILED);
    leave_launch(l);
}

void smelt_pool_stay_awake(void) { caller_ns = INT64_MAX; }

#else

/* Every pool of this library, for the child of a fork. The lock is also held while workers start, so
 * that no fork sees half of them. */
static smelt_pool *all_pools;
static pthread_mutex_t all_pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void make_workers(smelt_pool *pool) {
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
}

/* Signals are for the host program's own threads. */
static void start_workers(smelt_pool *pool) { smelt_without_signals(make_workers, pool); }

static void before_fork(void) { pthread_mutex_lock(&all_pools_lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&all_pools_lock); }

/* The child has none of the workers and possibly launches that nobody will end. */
static void after_fork_in_child(void) {
    for (smelt_pool *pool = all_pools; pool != NULL; pool = pool->next_pool) {
        for (launch *l = pool->slots; l < pool->slots + SLOTS; l++) {
            atomic_store(&l->state, 0);
            atomic_store(&l->waiting, 0);
            atomic_store(&l->taken, 0);
        }
        atomic_store(&pool->sleepers, 0);
        pool->started = 0;
    }
    pthread_mutex_unlock(&all_pools_lock);
}

static void watch_forks(void) {
    smelt_watch_forks(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void enlist(smelt_pool *pool) {
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&all_pools_lock);
    pool->next_pool = all_pools;
    all_pools = pool;
    pthread_mutex_unlock(&all_pools_lock);
}

static void end_workers(smelt_pool *pool) {
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
}

#endif

/* ---- launching --------------------------------------------------------------------------------- */

/* Lets nobody join any more, and waits for those who have. */
static void end_segment(launch *l) {
    patience p = {0};
    atomic_fetch_and(&l->state, ONE_HELPER - 1);
    while (atomic_load_explicit(&l->state, memory_order_acquire) > 0) {
        if (spin(&p) < caller_ns)
            continue;
        atomic_store(&l->waiting, 1);
        if (atomic_load(&l->state) > 0)
            smelt_sleep_while(&l->waiting, 1);
        atomic_store(&l->waiting, 0);
    }
}

static void run_segment(smelt_pool *pool, launch *l, int64_t first, int64_t count, int limit) {
    int threads = (int)(count < limit ? count : limit);
    int seats = threads < SEATS ? threads : SEATS;
    int64_t each = count / seats, more = count % seats, end = 0;
    for (int i = 0; i < seats; i++) {
        uint64_t front = (uint64_t)end;
        end += each + (i < more); /* the caller begins first, and has one that is left over */
        atomic_store_explicit(&l->seats[i].range, (uint64_t)end << 32 | front, memory_order_relaxed);
    }
    l->first = first;
    l->seat_count = seats;
    atomic_store(&l->state, ONE_HELPER * (uint64_t)(threads - 1));
    if (atomic_load(&pool->sleepers) > 0)
        wake_workers(pool, threads - 1);
    work(l, 0);
    end_segment(l);
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

/* ---- making ------------------------------------------------------------------------------------ */

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
    enlist(pool);
    return pool;
}

void smelt_pool_destroy(smelt_pool *pool) {
    if (pool == NULL)
        return;
    end_workers(pool);
    smelt_free(pool->workers);
    smelt_free(pool);
}

int32_t smelt_pool_threads(const smelt_pool *pool) { return pool->threads; }
