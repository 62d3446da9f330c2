/* process.c: one thread pool for a process that may have loaded several copies of this runtime.
 *
 * Every copy asks all loaded libraries, in load order, for the symbol below; the first that has it
 * owns the pool. Load order is the same for all who ask, so nothing has to be published, and a
 * value inherited through exec cannot mislead. The owner is then kept loaded for ever, because its
 * code runs the workers. The symbol carries the version of the pool, because every copy works
 * on the pool's fields by its own code: other versions do not see each other. posix.c and
 * windows.c ask the libraries. SMELT_ALONE: this is a program that loads libraries by itself and uses
 * nothing of them but the models (tools/library.c).
 */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_SYMBOL "smelt_process_pool_v3"

SMELT_API smelt_pool *smelt_process_pool_v3(int32_t threads);

static smelt_pool *own_pool;   /* of this copy, if it is the owner */
static smelt_pool *found_pool; /* whoever the owner is */
static _Atomic int32_t wanted_threads;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;
static pthread_once_t found_once = PTHREAD_ONCE_INIT;

/* ---- the owner --------------------------------------------------------------------------------- */

static int32_t threads_from_environment(void) {
    const char *text = getenv("SMELT_NUM_THREADS");
    char *end;
    if (text == NULL || *text == '\0')
        return 0;
    long value = strtol(text, &end, 10);
    return *end == '\0' && value > 0 && value < 65536 ? (int32_t)value : 0;
}

static void make_own_pool(void) {
    int32_t cpus = smelt_cpu_count();
    int32_t threads = wanted_threads > 0 ? wanted_threads : threads_from_environment();
    if (threads <= 0 || threads > cpus)
        threads = cpus;
    own_pool = smelt_pool_create(threads);
#ifndef SMELT_ALONE
    smelt_keep_library(&own_pool);
#endif
}

smelt_pool *smelt_process_pool_v3(int32_t threads) {
    static _Atomic int32_t first = 1;
    if (atomic_exchange(&first, 0))
        wanted_threads = threads;
    pthread_once(&own_once, make_own_pool);
    return own_pool;
}

static void find_pool(void) {
#ifndef SMELT_ALONE
    found_pool = smelt_ask_libraries(OWNER_SYMBOL, wanted_threads);
#endif
    if (found_pool == NULL)
        found_pool = smelt_process_pool_v3(wanted_threads);
}

smelt_pool *smelt_pool_default(int32_t threads) {
    static _Atomic int32_t first = 1;
    if (atomic_exchange(&first, 0))
        wanted_threads = threads;
    pthread_once(&found_once, find_pool);
    return found_pool;
}

void smelt_host_init(smelt_host *host, smelt_pool_view *view, int32_t threads) {
    memset(host, 0, sizeof *host);
    host->services = &smelt_all_services;
    if (threads == 1) {
        host->parallel_for = smelt_serial_for;
        return;
    }
    view->pool = smelt_pool_default(0);
    view->max_threads = threads;
    if (view->pool == NULL) {
        host->parallel_for = smelt_serial_for;
    } else if (threads <= 0 || threads >= smelt_pool_threads(view->pool)) {
        host->pool = view->pool;
        host->parallel_for = smelt_pool_for;
    } else {
        host->pool = view;
        host->parallel_for = smelt_pool_view_for;
    }
}
