/* candidate.c: timing one entry on operands that are where the rest of a model would leave them. */
#include "internal.h"

#include <stddef.h>

enum { LINE = 64, LAST = 3 };

typedef struct {
    volatile char *memory;
    int64_t bytes, shares;
} touched;

static int32_t touch_share(void *closure, int64_t index) {
    const touched *all = closure;
    const int64_t each = (all->bytes + all->shares - 1) / all->shares, start = index * each;
    const int64_t end = start + each < all->bytes ? start + each : all->bytes;
    for (int64_t k = start; k < end; k += LINE)
        all->memory[k] = all->memory[k];
    return 0;
}

static int32_t touch(const smelt_host *host, const smelt_operand *operands, void *const *places,
                     int64_t count, int64_t shares) {
    int32_t status = SMELT_OK;
    for (int64_t order = 1; order <= LAST; order++)
        for (int64_t i = 0; i < count && status == SMELT_OK; i++)
            if (operands[i].touched == order) {
                touched all = {places[i], operands[i].bytes, shares};
                status = host->parallel_for(host->pool, touch_share, &all, shares);
            }
    return status;
}

int32_t smelt_entry_time(smelt_entry_function entry, const smelt_host *host,
                         const smelt_operand *operands, int64_t count, const int64_t *sizes,
                         int64_t turn, int64_t calls, int64_t shares, int64_t *nanoseconds) {
    void **places = smelt_alloc((count + 1) * (int64_t)sizeof *places);
    int32_t status = places == NULL ? smelt_fail(SMELT_NO_MEMORY, "no memory for a call") : SMELT_OK;
    for (*nanoseconds = 0; calls > 0 && status == SMELT_OK; calls--, turn++) {
        for (int64_t i = 0; i < count; i++)
            places[i] = (char *)operands[i].memory + turn % operands[i].copies * operands[i].stride;
        status = touch(host, operands, places, count, shares);
        int64_t start = smelt_now();
        if (status == SMELT_OK)
            status = entry(host, places, sizes, NULL, NULL);
        *nanoseconds += smelt_now() - start;
    }
    smelt_free(places);
    return status;
}
