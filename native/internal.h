/* internal.h: what the runtime's own files share; not installed for users. */
#ifndef SMELT_INTERNAL_H
#define SMELT_INTERNAL_H

#include "smelt.h"

#include <stdatomic.h>

#ifdef _WIN32
#define SMELT_HIDDEN /* as all is that is not SMELT_API */
#else
#define SMELT_HIDDEN __attribute__((visibility("hidden")))
#endif

/* Keeps the text for smelt_last_error and returns `status`. */
SMELT_HIDDEN int32_t smelt_fail(int32_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Maps the constants at the tail of a library; path: NULL where it is the one that the system's loader
 * has the model's code from. *mapping and *length are what smelt_unmap_weights wants. */
SMELT_HIDDEN int32_t smelt_map_weights(const smelt_model_info *info, const char *path,
                                       const void **weights, void **mapping, size_t *length);
SMELT_HIDDEN void smelt_unmap_weights(void *mapping, size_t length);

/* The bytes of an element. */
static inline int64_t smelt_dtype_bytes(int32_t dtype) {
    int bits = dtype & 255;
    return bits < 8 ? 1 : bits / 8;
}

/* How long a run goes on without asking whether it is to end. */
#define SMELT_NANOSECONDS_TO_ASK 20000000

/* Time since some moment, in nanoseconds. */
SMELT_HIDDEN int64_t smelt_now(void);

/* What programs that decide while they run may ask for. */
SMELT_HIDDEN extern const smelt_services smelt_all_services;

/* Sleeping and waking: the word has one value while its thread sleeps. */
SMELT_HIDDEN void smelt_sleep_while(_Atomic uint32_t *word, uint32_t value);
SMELT_HIDDEN void smelt_wake(_Atomic uint32_t *word);

#ifdef __wasm__
/* What a worker of JavaScript does, number 0 the first: it does not return. */
SMELT_HIDDEN void smelt_pool_work(smelt_pool *pool, int32_t number);
/* Its task has trapped: the launch fails. The worker must not work again. */
SMELT_HIDDEN void smelt_pool_abandon(smelt_pool *pool, int32_t number);
/* Callers spin until their launch has ended: the thread of a page may not sleep. */
SMELT_HIDDEN void smelt_pool_stay_awake(void);
#endif

/* The CPU that runs this thread; -1 where the system does not say. */
SMELT_HIDDEN int smelt_current_cpu(void);

/* ---- posix.c and windows.c ---------------------------------------------------------------------- */

/* A file that is open for reading. What fails gives the system's text, alive until the next failure of
 * this thread; NULL: it went well. */
typedef intptr_t smelt_file;

/* Without waiting for somebody at the other end of a pipe. */
SMELT_HIDDEN const char *smelt_file_open(const char *path, smelt_file *file);
SMELT_HIDDEN void smelt_file_close(smelt_file file);
/* Only of a regular file. */
SMELT_HIDDEN const char *smelt_file_size(smelt_file file, int64_t *bytes);
/* Whether all of these bytes could be read. */
SMELT_HIDDEN int smelt_file_read(smelt_file file, int64_t at, void *data, size_t bytes);
SMELT_HIDDEN const char *smelt_file_map(smelt_file file, int64_t at, size_t bytes, void **mapping);
SMELT_HIDDEN void smelt_file_unmap(void *mapping, size_t bytes);

/* How many CPUs the system knows, or as many of them as it says that this process may use. */
SMELT_HIDDEN int32_t smelt_system_cpus(void);

/* Calls it while this thread gets no signals: the threads that it makes will get none. */
SMELT_HIDDEN void smelt_without_signals(void (*call)(smelt_pool *pool), smelt_pool *pool);
/* What is to be called around every fork, and in its child. */
SMELT_HIDDEN void smelt_watch_forks(void (*before)(void), void (*in_parent)(void),
                                    void (*in_child)(void));

#ifndef SMELT_ALONE
/* The file of the library that this code is in, which may be in `room`; NULL: the system's loader
 * cannot tell. */
SMELT_HIDDEN const char *smelt_library_of(const void *code, char *room, size_t size);
/* Keeps the library that has this address loaded for ever. */
SMELT_HIDDEN void smelt_keep_library(const void *address);
/* What the function of this name gives, of the first library in load order that has one and gives
 * something; NULL: none does. */
SMELT_HIDDEN smelt_pool *smelt_ask_libraries(const char *function, int32_t threads);
#endif

static inline void smelt_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ __volatile__("yield");
#endif
}

#endif
