/* host.c: smelt's runtime in WebAssembly: no files, and a few functions for index.mjs.
 *
 * The constants come from a file that JavaScript reads. smelt_tensor's layout is known there. With
 * atomics there are threads: instances that share the memory, each of which JavaScript makes in a
 * worker, gives a stack and has `work`. The first instance alone allocates, and begins loops.
 */
#include "../internal.h"

#include <stddef.h>

#define EXPORT(name) __attribute__((export_name(name)))

extern const smelt_model_info smelt_model_descriptor;

_Static_assert(sizeof(smelt_tensor) == 24 && offsetof(smelt_tensor, rank) == 8 &&
                   offsetof(smelt_tensor, shape) == 16 && offsetof(smelt_tensor, dtype) == 20,
               "index.mjs writes smelt_tensor");

static smelt_pool *pool; /* NULL: one thread */

/* ---- what other systems do otherwise ------------------------------------------------------------ */

void smelt_host_init(smelt_host *host, smelt_pool_view *view, int32_t threads) {
    (void)view;
    (void)threads;
    *host = (smelt_host){.pool = pool, .parallel_for = smelt_serial_for, .services = &smelt_all_services};
#ifdef __wasm_atomics__
    if (pool != NULL)
        host->parallel_for = smelt_pool_for;
#endif
}

int32_t smelt_map_weights(const smelt_model_info *info, const char *path, const void **weights,
                          void **mapping, size_t *length) {
    (void)path;
    (void)weights;
    (void)mapping;
    (void)length;
    return smelt_fail(SMELT_BAD_FILE, "%s: the constants are in a file of their own", info->name);
}

void smelt_unmap_weights(void *mapping, size_t length) {
    (void)mapping;
    (void)length;
}

/* ---- for index.mjs ------------------------------------------------------------------------------ */

EXPORT("allocate") void *web_allocate(uint32_t bytes) { return smelt_alloc(bytes); }
EXPORT("free") void web_free(void *memory) { smelt_free(memory); }
EXPORT("error") const char *web_error(void) { return smelt_last_error(); }

/* weights: NULL where the model has none */
EXPORT("open") smelt_model *web_open(const void *weights) {
    return smelt_model_open_with_weights(&smelt_model_descriptor, weights);
}

EXPORT("close") void web_close(smelt_model *model) { smelt_model_close(model); }

/* Nonzero: the results' sizes are known after a run only, which gives their memory. */
EXPORT("decides") int32_t web_decides(void) { return smelt_model_descriptor.program != NULL; }

EXPORT("shapes")
int32_t web_shapes(smelt_model *model, const smelt_tensor *inputs, int64_t *extents) {
    return smelt_model_output_shapes(model, inputs, extents);
}

EXPORT("run")
int32_t web_run(smelt_model *model, const smelt_tensor *inputs, smelt_tensor *outputs) {
    return smelt_model_run(model, inputs, outputs);
}

#ifdef __wasm_atomics__

/* Before `open`. may_sleep: whether the thread that runs models may. 0: no memory. */
EXPORT("threads") int32_t web_threads(int32_t count, int32_t may_sleep) {
    if (!may_sleep)
        smelt_pool_stay_awake();
    pool = smelt_pool_create(count);
    return pool != NULL;
}

EXPORT("work") void web_work(int32_t number) { smelt_pool_work(pool, number); }

EXPORT("abandon") void web_abandon(int32_t number) { smelt_pool_abandon(pool, number); }

#endif
