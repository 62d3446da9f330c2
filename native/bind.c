/* bind.c: prepared calls, loops without threads, probes. */
#include "internal.h"

int32_t smelt_serial_for(void *unused, smelt_task task, void *closure, int64_t count) {
    (void)unused;
    for (int64_t i = 0; i < count; i++) {
        int32_t status = task(closure, i);
        if (status != 0)
            return status;
    }
    return 0;
}

int32_t smelt_bound_run(const smelt_bound *b) {
    return b->entry(b->host, b->tensors, b->sizes, b->weights, b->workspace);
}

int32_t smelt_bound_time(const smelt_bound *bound, int64_t number, int64_t *nanoseconds) {
    int64_t start = smelt_now();
    for (int64_t i = 0; i < number; i++) {
        int32_t status = smelt_bound_run(bound);
        if (status != 0)
            return status;
    }
    *nanoseconds = smelt_now() - start;
    return SMELT_OK;
}

int32_t smelt_profile_probe(void *sink, int64_t kernel, int32_t is_end) {
    smelt_profile *profile = sink;
    if (kernel < 0 || kernel >= profile->kernel_count)
        return SMELT_OK;
    int64_t time = smelt_now();
    if (is_end) {
        profile->nanoseconds[kernel] += time - profile->start[kernel];
        profile->calls[kernel]++;
    } else {
        profile->start[kernel] = time;
    }
    return SMELT_OK;
}

int32_t smelt_watch_probe(void *sink, int64_t kernel, int32_t is_end) {
    smelt_watch *watch = sink;
    (void)kernel;
    if (is_end)
        return SMELT_OK;
    int64_t now = smelt_now();
    if (now - watch->asked_at < SMELT_NANOSECONDS_TO_ASK)
        return SMELT_OK;
    watch->asked_at = now;
    return watch->interrupted() != 0 ? smelt_fail(SMELT_CANCELLED, "cancelled") : SMELT_OK;
}

int32_t smelt_trace_probe(void *sink, int64_t kernel, int32_t is_end) {
    smelt_trace *trace = sink;
    if (trace->count < trace->room) {
        trace->what[trace->count] = 2 * kernel + (is_end != 0);
        trace->time[trace->count] = smelt_now();
    }
    trace->count++;
    return SMELT_OK;
}
