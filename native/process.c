/* process.c: one thread pool for a process that may have loaded several copies of this runtime.
 *
 * Every copy asks all loaded libraries, in load order, for the symbol below; the first that has it
 * owns the pool. Load order is the same for all who ask, so nothing has to be published, and a
 * value inherited through exec cannot mislead. The owner is then kept loaded for ever, because its
 * code runs the workers. The symbol carries the version of the pool, because every copy works
 * on the pool's fields by its own code: other versions do not see each other. SMELT_ALONE: this is a
 * program that loads libraries by itself and uses nothing of them but the models (tools/library.c).
 */
#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef __linux__
#include <link.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

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
    Dl_info here;
    int32_t cpus = smelt_cpu_count();
    int32_t threads = wanted_threads > 0 ? wanted_threads : threads_from_environment();
    if (threads <= 0 || threads > cpus)
        threads = cpus;
    own_pool = smelt_pool_create(threads);
#if defined(RTLD_NODELETE) && !defined(SMELT_ALONE)
    if (dladdr((void *)&own_pool, &here) && here.dli_fname != NULL)
        dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#else
    (void)here;
#endif
}

smelt_pool *smelt_process_pool_v3(int32_t threads) {
    static _Atomic int32_t first = 1;
    if (atomic_exchange(&first, 0))
        wanted_threads = threads;
    pthread_once(&own_once, make_own_pool);
    return own_pool;
}

/* ---- finding the owner ------------------------------------------------------------------------- */

#ifdef SMELT_ALONE

static void find_pool(void) { found_pool = smelt_process_pool_v3(wanted_threads); }

#else

typedef struct name_list {
    char **names;
    size_t count, capacity;
} name_list;

static void add_name(name_list *list, const char *name) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        char **names = realloc(list->names, capacity * sizeof *names);
        if (names == NULL)
            return;
        list->names = names;
        list->capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy != NULL)
        list->names[list->count++] = copy;
}

#ifdef __linux__
static int add_library(struct dl_phdr_info *info, size_t size, void *list) {
    (void)size;
    add_name(list, info->dlpi_name);
    return 0;
}
#endif

/* Only names: looking symbols up inside of the iteration could deadlock with another dlopen. */
static void list_libraries(name_list *list) {
#ifdef __linux__
    dl_iterate_phdr(add_library, list);
#elif defined(__APPLE__)
    for (uint32_t i = 0; i < _dyld_image_count(); i++)
        add_name(list, _dyld_get_image_name(i));
#else
    (void)list;
#endif
}

typedef smelt_pool *(*owner_function)(int32_t threads);

/* Whether the symbol stands in this very library: dlsym also finds those of its dependencies, and
 * for the main program (whose name is empty) those of all global libraries. */
static int is_from(const void *symbol, const char *name, const name_list *list) {
    Dl_info info;
    if (!dladdr(symbol, &info) || info.dli_fname == NULL)
        return 0;
    if (*name)
        return strcmp(info.dli_fname, name) == 0;
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(info.dli_fname, list->names[i]) == 0)
            return 0;
    return 1;
}

static smelt_pool *pool_of_library(const char *name, const name_list *list) {
    void *library = dlopen(*name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    smelt_pool *pool = NULL;
    void *symbol = dlsym(library, OWNER_SYMBOL);
    if (symbol != NULL && is_from(symbol, name, list)) {
        owner_function owner;
        memcpy(&owner, &symbol, sizeof owner);
        pool = owner(wanted_threads);
    }
    dlclose(library);
    return pool;
}

static void find_pool(void) {
    name_list list = {NULL, 0, 0};
    list_libraries(&list);
    for (size_t i = 0; i < list.count && found_pool == NULL; i++)
        found_pool = pool_of_library(list.names[i], &list);
    for (size_t i = 0; i < list.count; i++)
        free(list.names[i]);
    free(list.names);
    if (found_pool == NULL)
        found_pool = smelt_process_pool_v3(wanted_threads);
}

#endif

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
