/* posix.c: what POSIX calls otherwise than Windows: files, CPUs, signals and forks, libraries. What differs
 * between POSIX systems has the names of both here; windows.c has all of it for Windows.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "internal.h"

#ifndef _WIN32

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------------------------------- */

const char *smelt_file_open(const char *path, smelt_file *file) {
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return *file < 0 ? strerror(errno) : NULL;
}

void smelt_file_close(smelt_file file) { close((int)file); }

const char *smelt_file_size(smelt_file file, int64_t *bytes) {
    struct stat info;
    if (fstat((int)file, &info) != 0)
        return strerror(errno);
    *bytes = info.st_size;
    return S_ISREG(info.st_mode) ? NULL : "no regular file";
}

int smelt_file_read(smelt_file file, int64_t at, void *data, size_t bytes) {
    return pread((int)file, data, bytes, (off_t)at) == (ssize_t)bytes;
}

const char *smelt_file_map(smelt_file file, int64_t at, size_t bytes, void **mapping) {
    void *base = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, (int)file, (off_t)at);
    if (base == MAP_FAILED)
        return strerror(errno);
    *mapping = base;
    return NULL;
}

void smelt_file_unmap(void *mapping, size_t bytes) { munmap(mapping, bytes); }

/* ---- CPUs, signals, forks ---------------------------------------------------------------------- */

int32_t smelt_system_cpus(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int32_t)count : 1;
}

void smelt_without_signals(void (*call)(smelt_pool *pool), smelt_pool *pool) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    call(pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void smelt_watch_forks(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    pthread_atfork(before, in_parent, in_child);
}

/* ---- libraries --------------------------------------------------------------------------------- */

#ifndef SMELT_ALONE

#include <dlfcn.h>
#include <stdlib.h>

#ifdef __linux__
#include <link.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

const char *smelt_library_of(const void *code, char *room, size_t size) {
    (void)room, (void)size; /* the loader keeps the name */
    Dl_info here;
    return dladdr(code, &here) ? here.dli_fname : NULL;
}

void smelt_keep_library(const void *address) {
#ifdef RTLD_NODELETE
    Dl_info here;
    if (dladdr(address, &here) && here.dli_fname != NULL)
        dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#else
    (void)address;
#endif
}

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

static smelt_pool *ask_library(const char *name, const name_list *list, const char *function,
                               int32_t threads) {
    void *library = dlopen(*name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return NULL;
    smelt_pool *pool = NULL;
    void *symbol = dlsym(library, function);
    if (symbol != NULL && is_from(symbol, name, list)) {
        owner_function owner;
        memcpy(&owner, &symbol, sizeof owner);
        pool = owner(threads);
    }
    dlclose(library);
    return pool;
}

smelt_pool *smelt_ask_libraries(const char *function, int32_t threads) {
    name_list list = {NULL, 0, 0};
    smelt_pool *found = NULL;
    list_libraries(&list);
    for (size_t i = 0; i < list.count && found == NULL; i++)
        found = ask_library(list.names[i], &list, function, threads);
    for (size_t i = 0; i < list.count; i++)
        free(list.names[i]);
    free(list.names);
    return found;
}

#endif

#endif
