/* system.c: the few calls that differ between systems: time, sleeping, the CPU, memory. */
#define _GNU_SOURCE
#if defined(_WIN32) && !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0602 /* Windows 8, the first with WaitOnAddress */
#endif
#include "internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(_WIN32)
#include <malloc.h>
#include <windows.h>
#endif

/* ---- time -------------------------------------------------------------------------------------- */

int64_t smelt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- sleeping ---------------------------------------------------------------------------------- */

#ifdef __linux__

void smelt_sleep_while(_Atomic uint32_t *word, uint32_t value) {
    while (atomic_load(word) == value)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void smelt_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#elif defined(_WIN32)

void smelt_sleep_while(_Atomic uint32_t *word, uint32_t value) {
    while (atomic_load(word) == value)
        WaitOnAddress(word, &value, sizeof value, INFINITE);
}

void smelt_wake(_Atomic uint32_t *word) { WakeByAddressSingle(word); }

#elif defined(__wasm_atomics__)

/* Nothing is needed after the instruction in its function: the quick compiler of V8 11 (node 20) takes
 * its result for a variable that it had kept in the same register. */
__attribute__((noinline)) static void wait_while(_Atomic uint32_t *word, uint32_t value) {
    __builtin_wasm_memory_atomic_wait32((int32_t *)word, (int32_t)value, -1);
}

void smelt_sleep_while(_Atomic uint32_t *word, uint32_t value) {
    while (atomic_load(word) == value)
        wait_while(word, value);
}

void smelt_wake(_Atomic uint32_t *word) { __builtin_wasm_memory_atomic_notify((int32_t *)word, 1); }

#else

/* One condition for all words: wake-ups are rare, since workers spin first. */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_end = PTHREAD_COND_INITIALIZER;

void smelt_sleep_while(_Atomic uint32_t *word, uint32_t value) {
    pthread_mutex_lock(&sleep_lock);
    while (atomic_load(word) == value)
        pthread_cond_wait(&sleep_end, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

void smelt_wake(_Atomic uint32_t *word) {
    (void)word;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&sleep_end);
    pthread_mutex_unlock(&sleep_lock);
}

#endif

/* ---- CPU --------------------------------------------------------------------------------------- */

int smelt_current_cpu(void) {
#ifdef __linux__
    return sched_getcpu();
#else
    return -1;
#endif
}

/* ---- memory ------------------------------------------------------------------------------------ */

#define HUGE_PAGE ((size_t)2 << 20)

static _Atomic int64_t blocks;

#ifdef _WIN32

static void *take(size_t alignment, size_t size) { return _aligned_malloc(size, alignment); }

static void give(void *memory) { _aligned_free(memory); }

#else

static void *take(size_t alignment, size_t size) {
    void *memory = NULL;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static void give(void *memory) { free(memory); }

#endif

void *smelt_alloc(int64_t bytes) {
    /* Less than the address space: C libraries add the alignment. */
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX - 2 * HUGE_PAGE)
        return NULL;
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    /* Large arenas on huge pages: fewer page faults and TLB misses. */
    int large = size >= 2 * HUGE_PAGE;
    void *memory = take(large ? HUGE_PAGE : 64, size);
    if (memory == NULL)
        return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (large)
        madvise(memory, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
#endif
    atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
    return memory;
}

void smelt_free(void *memory) {
    if (memory != NULL)
        atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
    give(memory);
}

int64_t smelt_blocks(void) { return atomic_load(&blocks); }
