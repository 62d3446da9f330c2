/* module.c: running an exported model from C. */
#define _GNU_SOURCE
#include "internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one running call owns; kept for the next one. */
typedef struct frame {
    struct frame *next;
    void *workspace;
    int64_t workspace_bytes;
    void **tensors;
    int64_t *sizes;
    int64_t *extents;
    int64_t *lent;
} frame;

struct smelt_model {
    const smelt_model_info *info;
    const void *weights;
    void *mapping; /* NULL where the constants are the caller's */
    size_t mapping_length;
    smelt_host host;
    smelt_pool_view view;
    int64_t extent_count;
    pthread_mutex_t lock; /* for frames */
    frame *frames;
};

/* ---- opening ----------------------------------------------------------------------------------- */

const smelt_model_info *smelt_model_fitting(const smelt_model_info *info) {
    for (; info != NULL && info->abi_version == SMELT_ABI_VERSION && info->lesser != NULL;
         info = info->lesser) {
        const char *const *f = info->features;
        while (f != NULL && *f != NULL && smelt_cpu_has(*f))
            f++;
        if (f == NULL || *f == NULL)
            break;
    }
    return info;
}

static int32_t check_cpu(const smelt_model_info *info) {
    char missing[256] = "";
    for (const char *const *f = info->features; f != NULL && *f != NULL; f++) {
        if (smelt_cpu_has(*f))
            continue;
        size_t used = strlen(missing);
        snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", *f);
    }
    if (*missing)
        return smelt_fail(SMELT_CPU_LACKS, "%s was compiled for a CPU with %s, which this one lacks",
                          info->name, missing);
    return SMELT_OK;
}

static smelt_model *make_model(const smelt_model_info *info) {
    if (info == NULL) {
        smelt_fail(SMELT_BAD_ARGUMENT, "smelt_model_open: no model description");
        return NULL;
    }
    if (info->abi_version != SMELT_ABI_VERSION) {
        smelt_fail(SMELT_BAD_ABI, "the model has ABI version %d, this runtime has %d",
                   (int)info->abi_version, SMELT_ABI_VERSION);
        return NULL;
    }
    if (check_cpu(info) != SMELT_OK)
        return NULL;
    smelt_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        smelt_fail(SMELT_NO_MEMORY, "no memory for model %s", info->name);
        return NULL;
    }
    model->info = info;
    if (info->entry == NULL && (info->program == NULL || info->program->main == NULL)) {
        smelt_fail(SMELT_UNSUPPORTED, "%s: a part of it runs in Python only", info->name);
        free(model);
        return NULL;
    }
    for (int64_t i = 0; i < info->output_count; i++)
        model->extent_count += info->outputs[i].rank;
    pthread_mutex_init(&model->lock, NULL);
    smelt_host_init(&model->host, &model->view, 0);
    return model;
}

smelt_model *smelt_model_open_file(const smelt_model_info *library, const char *path) {
    const smelt_model_info *info = smelt_model_fitting(library);
    smelt_model *model = make_model(info);
    if (model == NULL || info->weights_bytes == 0)
        return model;
    if (smelt_map_weights(info, path, &model->weights, &model->mapping, &model->mapping_length) !=
        SMELT_OK) {
        smelt_model_close(model);
        return NULL;
    }
    return model;
}

smelt_model *smelt_model_open(const smelt_model_info *info) {
    return smelt_model_open_file(info, NULL);
}

smelt_model *smelt_model_open_with_weights(const smelt_model_info *info, const void *weights) {
    smelt_model *model = make_model(info);
    if (model == NULL)
        return NULL;
    if ((uintptr_t)weights % 64 != 0 || (weights == NULL && info->weights_bytes != 0)) {
        smelt_fail(SMELT_BAD_ARGUMENT, "%s: constants at %p; they must be aligned to 64 bytes",
                   info->name, weights);
        smelt_model_close(model);
        return NULL;
    }
    model->weights = weights;
    return model;
}

static void free_frame(frame *f) {
    smelt_free(f->workspace);
    free(f->tensors);
    free(f->sizes);
    free(f->extents);
    free(f->lent);
    free(f);
}

void smelt_model_close(smelt_model *model) {
    if (model == NULL)
        return;
    while (model->frames != NULL) {
        frame *f = model->frames;
        model->frames = f->next;
        free_frame(f);
    }
    if (model->mapping != NULL)
        smelt_unmap_weights(model->mapping, model->mapping_length);
    pthread_mutex_destroy(&model->lock);
    free(model);
}

/* ---- asking ------------------------------------------------------------------------------------ */

int64_t smelt_model_input_count(const smelt_model *model) { return model->info->input_count; }

int64_t smelt_model_output_count(const smelt_model *model) { return model->info->output_count; }

const smelt_tensor_info *smelt_model_input(const smelt_model *model, int64_t index) {
    int ok = index >= 0 && index < model->info->input_count;
    return ok ? &model->info->inputs[index] : NULL;
}

const smelt_tensor_info *smelt_model_output(const smelt_model *model, int64_t index) {
    int ok = index >= 0 && index < model->info->output_count;
    return ok ? &model->info->outputs[index] : NULL;
}

int32_t smelt_model_set_threads(smelt_model *model, int32_t threads) {
    if (threads < 0)
        return smelt_fail(SMELT_BAD_ARGUMENT, "%d threads: 0 (all) or more are possible",
                          (int)threads);
    smelt_host_init(&model->host, &model->view, threads);
    return SMELT_OK;
}

void smelt_model_set_host(smelt_model *model, const smelt_host *host) { model->host = *host; }

/* ---- frames ------------------------------------------------------------------------------------ */

static void *array(int64_t count, size_t bytes) {
    return calloc(count > 0 ? (size_t)count : 1, bytes);
}

static frame *take_frame(smelt_model *model) {
    pthread_mutex_lock(&model->lock);
    frame *f = model->frames;
    if (f != NULL)
        model->frames = f->next;
    pthread_mutex_unlock(&model->lock);
    if (f != NULL)
        return f;
    f = calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    f->tensors = array(model->info->input_count + model->info->output_count, sizeof(void *));
    f->sizes = array(model->info->symbol_count, sizeof(int64_t));
    f->extents = array(model->extent_count, sizeof(int64_t));
    f->lent = array(model->info->input_count, sizeof(int64_t));
    if (f->tensors == NULL || f->sizes == NULL || f->extents == NULL || f->lent == NULL) {
        free_frame(f);
        return NULL;
    }
    return f;
}

static void give_frame(smelt_model *model, frame *f) {
    pthread_mutex_lock(&model->lock);
    f->next = model->frames;
    model->frames = f;
    pthread_mutex_unlock(&model->lock);
}

static int32_t reserve(const smelt_model *model, frame *f, int64_t bytes) {
    if (f->workspace != NULL && bytes <= f->workspace_bytes)
        return SMELT_OK;
    smelt_free(f->workspace);
    f->workspace = smelt_alloc(bytes);
    f->workspace_bytes = bytes;
    if (f->workspace == NULL)
        return smelt_fail(SMELT_NO_MEMORY, "%s: no memory for a workspace of %lld bytes",
                          model->info->name, (long long)bytes);
    return SMELT_OK;
}

/* ---- checking ---------------------------------------------------------------------------------- */

/* Binds the symbols of one input to its sizes, or compares with earlier ones. */
static int32_t check_input(const smelt_model_info *info, const smelt_tensor_info *want,
                           const smelt_tensor *have, int64_t *sizes) {
    for (int32_t d = 0; d < want->rank; d++) {
        int64_t w = want->shape[d], h = have->shape[d];
        if (h < 0)
            return smelt_fail(SMELT_BAD_SHAPE, "%s: input '%s': dimension %d is %lld", info->name,
                              want->name, (int)d, (long long)h);
        if (w >= 0 && h != w)
            return smelt_fail(SMELT_BAD_SHAPE, "%s: input '%s': dimension %d is %lld, it must be %lld",
                              info->name, want->name, (int)d, (long long)h, (long long)w);
        if (w >= 0 || w == SMELT_COMPUTED_DIM)
            continue;
        int64_t *size = &sizes[~w];
        if (*size < 0)
            *size = h;
        else if (*size != h)
            return smelt_fail(SMELT_BAD_SHAPE,
                              "%s: input '%s': dimension %d is %lld, but %s is %lld by another input",
                              info->name, want->name, (int)d, (long long)h, info->symbols[~w],
                              (long long)*size);
    }
    return SMELT_OK;
}

static int32_t check_kind(const smelt_model_info *info, const char *role,
                          const smelt_tensor_info *want, const smelt_tensor *have) {
    if (have->rank != want->rank)
        return smelt_fail(SMELT_BAD_SHAPE, "%s: %s '%s': rank %lld, it must be %d", info->name, role,
                          want->name, (long long)have->rank, (int)want->rank);
    if (have->dtype != want->dtype)
        return smelt_fail(SMELT_BAD_DTYPE, "%s: %s '%s': dtype %s, it must be %s", info->name, role,
                          want->name, smelt_dtype_name(have->dtype), smelt_dtype_name(want->dtype));
    return SMELT_OK;
}

/* Checks the inputs, which tell the sizes. */
static int32_t check_inputs(const smelt_model *model, const smelt_tensor *inputs, frame *f) {
    const smelt_model_info *info = model->info;
    for (int64_t i = 0; i < info->symbol_count; i++)
        f->sizes[i] = -1;
    for (int64_t i = 0; i < info->input_count; i++) {
        int32_t status = check_kind(info, "input", &info->inputs[i], &inputs[i]);
        if (status == SMELT_OK)
            status = check_input(info, &info->inputs[i], &inputs[i], f->sizes);
        if (status != SMELT_OK)
            return status;
    }
    return SMELT_OK;
}

/* Checks the inputs, then computes sizes, output shapes and workspace size. */
static int32_t plan(const smelt_model *model, const smelt_tensor *inputs, frame *f,
                    int64_t *workspace_bytes) {
    const smelt_model_info *info = model->info;
    int32_t checked = check_inputs(model, inputs, f);
    if (checked != SMELT_OK)
        return checked;
    if (info->program != NULL)
        return smelt_fail(SMELT_UNSUPPORTED, "%s: it decides while it runs: its outputs have the sizes "
                          "that the run gives them", info->name);
    if (info->plan != NULL) {
        int32_t status = info->plan(f->sizes, f->extents, workspace_bytes);
        return status == SMELT_OK ? status
                                  : smelt_fail(status, "%s: %s", info->name, smelt_status_name(status));
    }
    *workspace_bytes = info->workspace_bytes;
    int64_t *extent = f->extents;
    for (int64_t i = 0; i < info->output_count; i++)
        for (int32_t d = 0; d < info->outputs[i].rank; d++)
            *extent++ = info->outputs[i].shape[d];
    return SMELT_OK;
}

static int32_t check_outputs(const smelt_model_info *info, const smelt_tensor *outputs,
                             const int64_t *extents) {
    for (int64_t i = 0; i < info->output_count; i++) {
        const smelt_tensor_info *want = &info->outputs[i];
        int32_t status = check_kind(info, "output", want, &outputs[i]);
        if (status != SMELT_OK)
            return status;
        for (int32_t d = 0; d < want->rank; d++, extents++)
            if (outputs[i].shape[d] != *extents)
                return smelt_fail(SMELT_BAD_SHAPE,
                                  "%s: output '%s': dimension %d is %lld, it must be %lld", info->name,
                                  want->name, (int)d, (long long)outputs[i].shape[d],
                                  (long long)*extents);
    }
    return SMELT_OK;
}

static int is_empty(const smelt_tensor *t) {
    for (int64_t d = 0; d < t->rank; d++)
        if (t->shape[d] == 0)
            return 1;
    return 0;
}

/* The addresses of tensors; one without elements needs none. */
static int32_t collect_data(const smelt_model_info *info, const smelt_tensor *tensors,
                            const smelt_tensor_info *infos, int64_t count, void **data) {
    for (int64_t i = 0; i < count; i++) {
        if (tensors[i].data == NULL && !is_empty(&tensors[i]))
            return smelt_fail(SMELT_BAD_ARGUMENT, "%s: '%s' has no data", info->name, infos[i].name);
        data[i] = tensors[i].data;
    }
    return SMELT_OK;
}

/* ---- running ----------------------------------------------------------------------------------- */

/* An input that is updated stays as it is where the output has memory of its own. */
static void update_copy(const smelt_tensor *input, void **data, void *output) {
    int64_t bytes = smelt_dtype_bytes(input->dtype);
    for (int64_t d = 0; d < input->rank; d++)
        bytes *= input->shape[d];
    if (*data != output && bytes > 0)
        memcpy(output, *data, (size_t)bytes);
    *data = output;
}

/* Checks the tensors of a call, and puts what the model's code is given into the frame. */
static int32_t prepare(const smelt_model *model, const smelt_tensor *inputs,
                       const smelt_tensor *outputs, frame *f) {
    const smelt_model_info *info = model->info;
    int64_t bytes = 0;
    int32_t status = plan(model, inputs, f, &bytes);
    if (status == SMELT_OK)
        status = check_outputs(info, outputs, f->extents);
    if (status == SMELT_OK)
        status = collect_data(info, inputs, info->inputs, info->input_count, f->tensors);
    if (status == SMELT_OK)
        status = collect_data(info, outputs, info->outputs, info->output_count,
                              f->tensors + info->input_count);
    if (status == SMELT_OK)
        status = reserve(model, f, bytes);
    for (int64_t i = 0; status == SMELT_OK && info->updates != NULL && i < info->input_count; i++)
        if (info->updates[i] >= 0)
            update_copy(&inputs[i], &f->tensors[i], f->tensors[info->input_count + info->updates[i]]);
    return status;
}

static int32_t run_failed(const smelt_model *model, int32_t status) {
    return smelt_fail(status, "%s: %s (status %d)", model->info->name, smelt_status_name(status),
                      (int)status);
}

static int32_t run_frame(const smelt_model *model, const smelt_tensor *inputs,
                         const smelt_tensor *outputs, frame *f) {
    int32_t status = prepare(model, inputs, outputs, f);
    if (status != SMELT_OK)
        return status;
    status = model->info->entry(&model->host, f->tensors, f->sizes, model->weights, f->workspace);
    return status == SMELT_OK ? status : run_failed(model, status);
}

static int32_t run_program(const smelt_model *model, const smelt_tensor *inputs,
                           smelt_tensor *outputs, frame *f) {
    const smelt_model_info *info = model->info;
    int32_t status = check_inputs(model, inputs, f);
    if (status == SMELT_OK)
        status = collect_data(info, inputs, info->inputs, info->input_count, f->tensors);
    if (status != SMELT_OK)
        return status;
    for (int64_t i = 0; i < info->input_count; i++) {
        int64_t output = info->updates == NULL ? SMELT_READ : info->updates[i];
        int in_place = output >= 0 && outputs[output].data == inputs[i].data;
        f->lent[i] = in_place ? output : SMELT_READ;
    }
    smelt_program_call call = {&model->host,       info->program, model->weights, info->input_count, inputs,
                               info->output_count, outputs,       f->lent};
    return smelt_program_run(&call);
}

int32_t smelt_model_run(smelt_model *model, const smelt_tensor *inputs, smelt_tensor *outputs) {
    frame *f = take_frame(model);
    if (f == NULL)
        return smelt_fail(SMELT_NO_MEMORY, "%s: no memory for a call", model->info->name);
    int32_t status = model->info->program != NULL ? run_program(model, inputs, outputs, f)
                                                  : run_frame(model, inputs, outputs, f);
    give_frame(model, f);
    return status;
}

int32_t smelt_model_time(smelt_model *model, const smelt_tensor *inputs, smelt_tensor *outputs,
                         int64_t number, int64_t *nanoseconds) {
    if (model->info->program != NULL)
        return smelt_fail(SMELT_UNSUPPORTED, "%s: it decides while it runs: time its runs one by one",
                          model->info->name);
    frame *f = take_frame(model);
    if (f == NULL)
        return smelt_fail(SMELT_NO_MEMORY, "%s: no memory for a call", model->info->name);
    int32_t status = prepare(model, inputs, outputs, f);
    if (status == SMELT_OK) {
        smelt_bound call = {&model->host, model->info->entry, f->tensors,
                            f->sizes,     model->weights,     f->workspace};
        status = smelt_bound_time(&call, number, nanoseconds);
        if (status != SMELT_OK)
            run_failed(model, status);
    }
    give_frame(model, f);
    return status;
}

int32_t smelt_model_output_shapes(smelt_model *model, const smelt_tensor *inputs,
                                  int64_t *extents) {
    frame *f = take_frame(model);
    if (f == NULL)
        return smelt_fail(SMELT_NO_MEMORY, "%s: no memory for a call", model->info->name);
    int64_t bytes = 0;
    int32_t status = plan(model, inputs, f, &bytes);
    if (status == SMELT_OK)
        memcpy(extents, f->extents, (size_t)model->extent_count * sizeof *extents);
    give_frame(model, f);
    return status;
}
