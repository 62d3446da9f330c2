/* bind.c: prepared calls and the profiling probe. */
#define _POSIX_C_SOURCE 200809L
#include "internal.h"

#include <time.h>

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int32_t smelt_bound_run(const smelt_bound *b) {
    return b->entry(b->host, b->tensors, b->sizes, b->weights, b->workspace);
}

int32_t smelt_bound_time(const smelt_bound *bound, int64_t number, int64_t *nanoseconds) {
    int64_t start = now();
    for (int64_t i = 0; i < number; i++) {
        int32_t status = smelt_bound_run(bound);
        if (status != 0)
            return status;
    }
    *nanoseconds = now() - start;
    return SMELT_OK;
}

void smelt_profile_probe(void *sink, int64_t kernel, int32_t is_end) {
    smelt_profile *profile = sink;
    if (kernel < 0 || kernel >= profile->kernel_count)
        return;
    int64_t time = now();
    if (is_end) {
        profile->nanoseconds[kernel] += time - profile->start[kernel];
        profile->calls[kernel]++;
    } else {
        profile->start[kernel] = time;
    }
}
