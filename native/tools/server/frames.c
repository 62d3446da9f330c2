/* frames.c: the tensors of calls of a library, and runs with them. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

bool frame_make(frame *f, object *library) {
    const smelt_model_info *info = library->info;
    size_t count = 1;
    for (int64_t i = 0; i < info->input_count; i++)
        count += (size_t)info->inputs[i].rank;
    for (int64_t i = 0; i < info->output_count; i++)
        count += (size_t)info->outputs[i].rank;
    f->library = library;
    f->inputs = calloc((size_t)info->input_count + 1, sizeof *f->inputs);
    f->outputs = calloc((size_t)info->output_count + 1, sizeof *f->outputs);
    int64_t *extents = f->extents = calloc(count, sizeof *extents);
    if (f->inputs == NULL || f->outputs == NULL || extents == NULL)
        return no_memory("a call", count * sizeof *extents);
    for (int64_t i = 0; i < info->input_count + info->output_count; i++) {
        bool in = i < info->input_count;
        const smelt_tensor_info *t = in ? &info->inputs[i] : &info->outputs[i - info->input_count];
        *(in ? &f->inputs[i] : &f->outputs[i - info->input_count]) =
            (smelt_tensor){NULL, t->rank, extents, t->dtype};
        extents += t->rank;
    }
    return true;
}

/* The input that an output is, updated; NULL: it has memory of its own. */
static smelt_tensor *updated(const frame *f, int64_t output) {
    const smelt_model_info *info = f->library->info;
    for (int64_t i = 0; f->lends && info->updates != NULL && i < info->input_count; i++)
        if (info->updates[i] == output)
            return &f->inputs[i];
    return NULL;
}

static void drop_outputs(frame *f) {
    for (int64_t i = 0; f->outputs != NULL && i < f->library->info->output_count; i++) {
        const smelt_tensor *source = updated(f, i);
        if (source == NULL || source->data != f->outputs[i].data)
            smelt_free(f->outputs[i].data);
        f->outputs[i].data = NULL;
    }
    f->bound = false;
}

void frame_free(frame *f) {
    drop_outputs(f);
    for (int64_t i = 0; f->owns && f->inputs != NULL && i < f->library->info->input_count; i++)
        smelt_free(f->inputs[i].data);
    free(f->inputs);
    free(f->outputs);
    free(f->extents);
    *f = (frame){0};
}

/* Memory for outputs whose shapes are known before. */
static bool bind_outputs(frame *f) {
    const object *o = f->library;
    drop_outputs(f);
    if (o->info->program == NULL && o->info->output_count > 0 &&
        smelt_model_output_shapes(o->model, f->inputs, f->outputs[0].shape) != SMELT_OK)
        return fail("InputError", "%s", smelt_last_error());
    for (int64_t i = 0; i < o->info->output_count; i++) {
        const smelt_tensor *source = updated(f, i);
        int64_t bytes = bytes_of(&f->outputs[i]);
        if (source != NULL)
            f->outputs[i].data = source->data;
        else if (o->info->program == NULL && (f->outputs[i].data = smelt_alloc(bytes)) == NULL)
            return no_memory("a result", (uint64_t)bytes);
    }
    f->bound = true;
    return true;
}

static bool check_run(const frame *f, int32_t status) {
    bool fits = status == SMELT_BAD_SHAPE || status == SMELT_BAD_DTYPE ||
                status == SMELT_BAD_INDEX || status == SMELT_BAD_VALUE;
    return status == SMELT_OK ||
           fail(fits && f->library->info->program != NULL ? "InputError" : "RuntimeFailure", "%s",
                smelt_last_error());
}

bool frame_run(frame *f) {
    /* a program that decides gives new memory in each run */
    if ((!f->bound || f->library->info->program != NULL) && !bind_outputs(f))
        return false;
    return check_run(f, smelt_model_run(f->library->model, f->inputs, f->outputs));
}

bool frame_time(void *frame_, int64_t number, double *milliseconds) {
    frame *f = frame_;
    int64_t spent = 0, start = now();
    if (f->library->info->program == NULL) {
        if ((!f->bound && !bind_outputs(f)) ||
            !check_run(f, smelt_model_time(f->library->model, f->inputs, f->outputs, number, &spent)))
            return false;
    } else {
        for (int64_t i = 0; i < number; i++)
            if (!frame_run(f))
                return false;
        spent = now() - start;
    }
    *milliseconds = (double)spent / (double)number / 1e6;
    return true;
}

bool frame_set(frame *f, int64_t input, value *v) {
    int64_t shape[MOST_RANK];
    smelt_tensor given = {.shape = shape}, *mine = &f->inputs[input];
    size_t extents = (size_t)mine->rank * sizeof *shape;
    if (!fit(f->library->info, input, v, &given))
        return false;
    given.rank = mine->rank;
    given.dtype = mine->dtype;
    int64_t bytes = bytes_of(&given);
    if (mine->data == NULL || memcmp(mine->shape, shape, extents) != 0) {
        void *data = smelt_alloc(bytes);
        if (data == NULL)
            return no_memory("an input", (uint64_t)bytes);
        drop_outputs(f);
        smelt_free(mine->data);
        mine->data = data;
        memcpy(mine->shape, shape, extents);
    }
    memcpy(mine->data, given.data, (size_t)bytes);
    return true;
}

bool frame_borrow(frame *f, call *c) {
    const smelt_model_info *info = f->library->info;
    for (int64_t i = 0; i < info->input_count; i++) {
        value *v = take(c, info->inputs[i].name);
        if (v == NULL)
            return fail("InputError", "%s: input '%s' is missing", info->name, info->inputs[i].name);
        if (!fit(info, i, v, &f->inputs[i]))
            return false;
    }
    return c->next == c->unnamed || all_taken(c, info->name);
}

frame *call_frame(call *c, object *library) {
    if ((c->frame = calloc(1, sizeof *c->frame)) == NULL)
        no_memory("a call", sizeof *c->frame);
    return c->frame != NULL && frame_make(c->frame, library) ? c->frame : NULL;
}
