/* internal.h: what the runtime's own files share; not installed for users. */
#ifndef SMELT_INTERNAL_H
#define SMELT_INTERNAL_H

#include "smelt.h"

#include <stdatomic.h>

#define SMELT_HIDDEN __attribute__((visibility("hidden")))

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

static inline void smelt_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ __volatile__("yield");
#endif
}

#endif
