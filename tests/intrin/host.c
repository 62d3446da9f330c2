/* host.c: what kernels and host programs get first where there is no runtime: loops without threads,
 * the last turn first, since no result may depend on the order. */
#include "smelt.h"

static int32_t backwards(void *pool, smelt_task task, void *closure, int64_t count) {
    (void)pool;
    for (int64_t i = count - 1; i >= 0; i--) {
        int32_t status = task(closure, i);
        if (status) return status;
    }
    return 0;
}

const smelt_host *host(void) {
    static const smelt_host serial = {.parallel_for = backwards};
    return &serial;
}
