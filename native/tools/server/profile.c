/* profile.c: the times of a model's kernels, as what the client makes a report of. */
#include "worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What was noted, in one piece of memory. */
static bool make_sink(smelt_profile *p, int64_t count) {
    int64_t *rows = calloc((size_t)(3 * count + 1), sizeof *rows);
    if (rows == NULL)
        return no_memory("a profile", (uint64_t)count * sizeof *rows);
    *p = (smelt_profile){count, rows, rows + count, rows + 2 * count};
    return true;
}

static void add_numbers(text *t, const char *name, const int64_t *numbers, int64_t count,
                        double scale) {
    text_add(t, "%s", name);
    for (int64_t i = 0; i < count; i++)
        text_add(t, scale == 1 ? "%s%.0f" : "%s%.6f", i > 0 ? ", " : "", (double)numbers[i] * scale);
    text_add(t, "]");
}

/* The sizes of a call by name. */
static void add_sizes(text *t, const frame *f) {
    const smelt_model_info *info = f->library->info;
    const char *between = "";
    text_add(t, "{");
    for (int64_t s = 0; s < info->symbol_count; s++) {
        int64_t size = -1;
        for (int64_t i = 0; i < info->input_count; i++)
            for (int32_t d = 0; d < info->inputs[i].rank; d++)
                if (info->inputs[i].shape[d] == ~s)
                    size = f->inputs[i].shape[d];
        text_add(t, "%s", between);
        text_quote(t, info->symbols[s]);
        text_add(t, ": %" PRId64, size);
        between = ", ";
    }
    text_add(t, "}");
}

static bool add_runs(call *c, frame *f, smelt_profile *p, int64_t repeat) {
    double milliseconds;
    text_add(&c->made, ", \"runs\": [");
    for (int64_t run = -1; run < repeat; run++) { /* the first one is not told of */
        memset(p->nanoseconds, 0, (size_t)p->kernel_count * sizeof *p->nanoseconds);
        memset(p->calls, 0, (size_t)p->kernel_count * sizeof *p->calls);
        if (!frame_time(f, 1, &milliseconds))
            return false;
        if (run < 0)
            continue;
        text_add(&c->made, "%s[%.6f, ", run > 0 ? ", " : "", milliseconds);
        add_numbers(&c->made, "[", p->nanoseconds, p->kernel_count, 1e-6);
        add_numbers(&c->made, ", [", p->start, p->kernel_count, 1);
        text_add(&c->made, "]");
    }
    add_numbers(&c->made, "], \"calls\": [", p->calls, p->kernel_count, 1);
    return true;
}

bool add_profile(call *c, frame *f, int64_t repeat) {
    object *library = f->library;
    const char *kernels = json_get(library->description, "kernels");
    smelt_profile p;
    smelt_pool_view view;
    smelt_host host;
    if (kernels == NULL || *kernels != '[')
        return fail("RuntimeFailure", "%s: it does not say what its kernels are", library->info->name);
    if (!make_sink(&p, json_count(kernels)))
        return false;
    smelt_host_init(&host, &view, 0);
    host.probe = smelt_profile_probe;
    host.probe_sink = &p;
    text_add(&c->made, "{\"$\": \"profile\", \"model\": ");
    text_quote(&c->made, library->info->name);
    text_add(&c->made, ", \"kernels\": ");
    text_json(&c->made, kernels);
    smelt_model_set_host(library->model, &host);
    bool done = add_runs(c, f, &p, repeat);
    smelt_model_set_threads(library->model, 0);
    text_add(&c->made, ", \"sizes\": ");
    add_sizes(&c->made, f);
    text_add(&c->made, "}");
    free(p.start);
    return done;
}
