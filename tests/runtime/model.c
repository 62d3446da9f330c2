/* model.c: hand-written models that follow the ABI; one is chosen with -DMODEL=... */
#include "smelt.h"

#define IDENTITY 1 /* x float32[4] -> y */
#define ADD 2      /* x float32[n, 4], y float32[n, 4] -> z; adds constant 0 of the weights */
#define SUM 3      /* x int64[n] -> total int64[], parallel over 8 parts */
#define FAIL 4     /* x float32[4] -> y; task 3 fails with status 5 */

#if MODEL == IDENTITY

int32_t smelt_entry(const smelt_host *host, void *const *tensors, const int64_t *sizes,
                    const void *weights, void *workspace) {
    (void)host, (void)sizes, (void)weights, (void)workspace;
    const float *x = tensors[0];
    float *y = tensors[1];
    for (int i = 0; i < 4; i++)
        y[i] = x[i];
    return SMELT_OK;
}

#elif MODEL == ADD

int32_t smelt_entry(const smelt_host *host, void *const *tensors, const int64_t *sizes,
                    const void *weights, void *workspace) {
    const float *x = tensors[0], *y = tensors[1];
    float *z = tensors[2], *scratch = workspace;
    if ((uintptr_t)weights % 64 || (uintptr_t)workspace % 64)
        return SMELT_BAD_ARGUMENT;
    if (host->probe)
        host->probe(host->probe_sink, 0, 0);
    for (int64_t i = 0; i < sizes[0] * 4; i++)
        scratch[i] = x[i] + *(const float *)weights;
    if (host->probe)
        host->probe(host->probe_sink, 0, 1), host->probe(host->probe_sink, 1, 0);
    for (int64_t i = 0; i < sizes[0] * 4; i++)
        z[i] = scratch[i] + y[i];
    if (host->probe)
        host->probe(host->probe_sink, 1, 1);
    return SMELT_OK;
}

int32_t smelt_plan(const int64_t *sizes, int64_t *extents, int64_t *workspace_bytes) {
    if (sizes[0] > 1000)
        return SMELT_BAD_SHAPE;
    extents[0] = sizes[0];
    extents[1] = 4;
    *workspace_bytes = sizes[0] * 16;
    return SMELT_OK;
}

#else

typedef struct closure {
    const int64_t *x;
    int64_t n;
    int64_t *parts;
} closure;

static int32_t part(void *argument, int64_t index) {
    closure *c = argument;
    int64_t sum = 0;
    for (int64_t i = index; i < c->n; i += 8)
        sum += c->x[i];
    c->parts[index * 8] = sum;
    return MODEL == FAIL && index == 3 ? SMELT_BAD_INDEX : SMELT_OK;
}

int32_t smelt_entry(const smelt_host *host, void *const *tensors, const int64_t *sizes,
                    const void *weights, void *workspace) {
    (void)weights;
    closure c = {tensors[0], MODEL == FAIL ? 0 : sizes[0], workspace};
    int32_t status = host->parallel_for(host->pool, part, &c, 8);
    if (status != SMELT_OK)
        return status;
    int64_t total = 0;
    for (int i = 0; i < 8; i++)
        total += c.parts[i * 8];
    *(int64_t *)tensors[1] = total;
    return SMELT_OK;
}

#endif
