/* stress_pool.c: the thread pool under many launches; exits with 0 where all is right.
 *
 * usage: stress_pool THREADS LAUNCHES FORKS
 */
#define _GNU_SOURCE
#include "smelt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 1000

typedef struct job {
    smelt_pool *pool;
    int64_t count;
    int64_t fail_at;
    unsigned char hits[MOST];
} job;

static int errors;

static void expect(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "failed: %s\n", what);
        errors++;
    }
}

static int32_t touch(void *closure, int64_t index) {
    job *j = closure;
    if (index < 0 || index >= j->count)
        abort();
    j->hits[index]++;
    return index == j->fail_at ? 7 : 0;
}

static int all_once(const job *j) {
    for (int64_t i = 0; i < j->count; i++)
        if (j->hits[i] != 1)
            return 0;
    return 1;
}

/* Whether no task ran twice. */
static int none_twice(const job *j) {
    for (int64_t i = 0; i < j->count; i++)
        if (j->hits[i] > 1)
            return 0;
    return 1;
}

/* Launches of some tasks, every eighth of which fails. */
static int launch_many(smelt_pool *pool, int launches, unsigned seed) {
    job *j = malloc(sizeof *j);
    int ok = 1;
    for (int n = 0; n < launches; n++) {
        seed = seed * 1103515245u + 12345u;
        j->pool = pool;
        j->count = seed >> 16 & 31;
        j->fail_at = (seed >> 24 & 7) == 0 ? j->count / 2 : -1;
        memset(j->hits, 0, 32);
        int32_t status = smelt_pool_for(pool, touch, j, j->count);
        if (j->fail_at >= 0 && j->count > 0)
            ok &= status == 7 && none_twice(j);
        else
            ok &= status == 0 && all_once(j);
        if (n % 5000 == 0)
            usleep(3000); /* lets the workers fall asleep now and then */
    }
    free(j);
    return ok;
}

static int32_t nest(void *closure, int64_t index) {
    job *outer = closure;
    job inner = {outer->pool, 10, -1, {0}};
    int32_t status = smelt_pool_for(outer->pool, touch, &inner, inner.count);
    outer->hits[index]++;
    return status != 0 || !all_once(&inner);
}

#define POOLS 3
#define CALLERS 12 /* more than a pool runs launches at once */

typedef struct caller {
    pthread_t thread;
    smelt_pool *const *pools;
    int launches;
    unsigned seed;
} caller;

/* Launches on all pools in turns; NULL where all was right. */
static void *call(void *argument) {
    caller *c = argument;
    int ok = 1;
    for (unsigned turn = c->seed; turn < c->seed + (unsigned)c->launches / 100; turn++)
        ok &= launch_many(c->pools[turn % POOLS], 100, turn);
    return ok ? NULL : c;
}

static int in_child(smelt_pool *const *pools, int depth) {
    int ok = 1;
    for (int i = 0; i < POOLS; i++)
        ok &= launch_many(pools[i], 500, (unsigned)(10 * depth + i));
    if (depth > 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(in_child(pools, depth - 1));
        int status = 1;
        waitpid(child, &status, 0);
        ok &= status == 0;
    }
    return ok ? 0 : 1;
}

/* Many callers on several pools, while the process forks; the children launch and fork, too. */
static void test_callers(smelt_pool *const *pools, int launches, int forks) {
    caller callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.pools = pools, .launches = launches / 4, .seed = 31u * (unsigned)i};
        pthread_create(&callers[i].thread, NULL, call, &callers[i]);
    }
    for (int i = 0; i < forks; i++) {
        usleep(2000);
        pid_t child = fork();
        if (child == 0)
            _exit(in_child(pools, 1));
        expect(launch_many(pools[0], 2000, 5), "launches in the parent while a child runs");
        int status = 1;
        waitpid(child, &status, 0);
        expect(status == 0, "launches in a forked child");
    }
    for (int i = 0; i < CALLERS; i++) {
        void *wrong;
        pthread_join(callers[i].thread, &wrong);
        expect(wrong == NULL, "concurrent callers");
    }
}

static int32_t count_long(void *closure, int64_t index) {
    (void)index;
    __atomic_fetch_add((int64_t *)closure, 1, __ATOMIC_RELAXED);
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    int launches = argc > 2 ? atoi(argv[2]) : 100000;
    int forks = argc > 3 ? atoi(argv[3]) : 5;
    smelt_pool *pool = smelt_pool_create(threads);
    expect(smelt_pool_threads(pool) == threads, "thread count");
    expect(launch_many(pool, launches, 1), "many launches");

    job nested = {pool, 50, -1, {0}};
    expect(smelt_pool_for(pool, nest, &nested, nested.count) == 0 && all_once(&nested), "nested");

    job failing = {pool, MOST, 500, {0}};
    expect(smelt_pool_for(pool, touch, &failing, failing.count) == 7, "failure status");
    expect(launch_many(pool, 1000, 2), "launches after a failure");

    smelt_pool_view view = {pool, 2};
    job viewed = {pool, MOST, -1, {0}};
    expect(smelt_pool_view_for(&view, touch, &viewed, MOST) == 0 && all_once(&viewed), "view");

    int64_t total = 0;
    if (launches >= 100000) { /* more than one segment */
        expect(smelt_pool_for(pool, count_long, &total, 17000000) == 0 && total == 17000000,
               "a long launch");
    }
    smelt_pool *const pools[POOLS] = {pool, smelt_pool_create(2), smelt_pool_create(5)};
    test_callers(pools, launches, forks);
    for (int i = 0; i < POOLS; i++)
        smelt_pool_destroy(pools[i]);
    expect(smelt_pool_default(0) == smelt_pool_default(0), "one default pool");
    expect(launch_many(smelt_pool_default(0), 10000, 9), "default pool");
    return errors != 0;
}
