/* values.c: arguments and results as messages: plain values as JSON, arrays as bytes behind it. */
#include "worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t dtypes[] = {
    SMELT_BOOL,          SMELT_INT8,          SMELT_INT16,           SMELT_INT32,
    SMELT_INT64,         SMELT_UINT8,         SMELT_UINT16,          SMELT_UINT32,
    SMELT_UINT64,        SMELT_FLOAT16,       SMELT_FLOAT32,         SMELT_FLOAT64,
    SMELT_BFLOAT16,      SMELT_FLOAT8_E4M3FN, SMELT_FLOAT8_E4M3FNUZ, SMELT_FLOAT8_E5M2,
    SMELT_FLOAT8_E5M2FNUZ, SMELT_FLOAT8_E8M0FNU, SMELT_FLOAT4_E2M1FN, SMELT_INT4,
    SMELT_UINT4,         SMELT_INT2,          SMELT_UINT2,           SMELT_COMPLEX64,
    SMELT_COMPLEX128};

static int64_t element_bytes(int32_t dtype) { return (dtype & 255) < 8 ? 1 : (dtype & 255) / 8; }

int64_t bytes_of(const smelt_tensor *t) {
    int64_t bytes = element_bytes(t->dtype);
    for (int64_t d = 0; d < t->rank; d++)
        if (t->shape[d] < 0 || __builtin_mul_overflow(bytes, t->shape[d], &bytes))
            return -1;
    return bytes;
}

/* ---- arguments --------------------------------------------------------------------------------- */

static bool senseless(const char *why) {
    return fail("RPCError", "a message that holds no value: %s", why);
}

bool describe_tensor(const char *at, smelt_tensor *t, int64_t shape[MOST_RANK]) {
    char name[32];
    const char *extents = json_get(at, "shape"), *none;
    *t = (smelt_tensor){.shape = shape};
    if (!json_text(json_get(at, "dtype"), name, sizeof name) || extents == NULL || *extents != '[')
        return senseless("an array without a dtype or a shape");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(smelt_dtype_name(dtypes[i]), name) == 0)
            t->dtype = dtypes[i];
    if (t->dtype == 0)
        return fail("RPCError", "unknown dtype '%s'", name);
    for (const char *m = NULL; (m = json_member(extents, m, &none)) != NULL;)
        if (t->rank == MOST_RANK || !json_whole(m, &shape[t->rank++]))
            return senseless("a shape that is none");
    return true;
}

static bool decode_array(call *c, value *v, const char *at) {
    v->is_array = true;
    if (!describe_tensor(at, &v->tensor, v->shape))
        return false;
    int64_t bytes = bytes_of(&v->tensor);
    if (bytes < 0 || (uint64_t)bytes > c->left)
        return fail("RPCError", "a message that holds no value: an array of %" PRId64
                    " bytes, and %" PRIu64 " came", bytes, c->left);
    v->tensor.data = c->data;
    if ((uintptr_t)c->data % 8 != 0) {
        if ((v->own = smelt_alloc(bytes)) == NULL)
            return no_memory("an array", (uint64_t)bytes);
        v->tensor.data = memcpy(v->own, c->data, (size_t)bytes);
    }
    c->data += bytes;
    c->left -= (uint64_t)bytes;
    return true;
}

static bool decode(call *c, value *v, const char *at) {
    const char *tag = json_get(at, "$");
    int64_t type;
    v->at = at;
    if (*at == '[' || (*at == '{' && tag == NULL))
        return senseless("a list, which the server in C does not take");
    if (json_is(tag, "array"))
        return decode_array(c, v, at);
    if (json_is(tag, "device")) {
        v->is_device = true;
        return (json_whole(json_get(at, "type"), &type) && type == 1 &&
                json_whole(json_get(at, "number"), &v->number)) ||
               senseless("a device that is none");
    }
    if (json_is(tag, "object")) {
        v->object = object_find(at);
        v->is_array = v->object != NULL && is_array(v->object);
        if (v->is_array)
            v->tensor = v->object->tensor;
        return v->object != NULL;
    }
    return tag == NULL || senseless("a value that the server in C does not take");
}

bool call_decode(call *c, const char *args, const char *named) {
    const char *only, *name = NULL, *lists[2];
    if (args == NULL || *args != '[')
        return senseless("no arguments");
    only = json_member(args, NULL, &name);
    lists[1] = json_get(named, "items");
    bool whole = only != NULL && json_member(args, only, &name) == NULL &&
                 json_is(json_get(only, "$"), "dict") &&
                 (lists[1] == NULL || json_member(lists[1], NULL, &name) == NULL);
    lists[0] = whole ? "[]" : args; /* exe({"x": x}) is exe(x=x) */
    lists[1] = whole ? json_get(only, "items") : lists[1] == NULL ? "{}" : lists[1];
    c->unnamed = json_count(lists[0]);
    int64_t count = lists[1] == NULL || *lists[1] != '{' ? -1 : c->unnamed + json_count(lists[1]);
    if (count < 0 || count > MOST_VALUES)
        return senseless("too many arguments, or none that are");
    if ((c->values = calloc((size_t)count + 1, sizeof *c->values)) == NULL)
        return no_memory("arguments", (uint64_t)count * sizeof *c->values);
    for (int i = 0; i < 2; i++) {
        name = NULL;
        for (const char *m = NULL; (m = json_member(lists[i], m, &name)) != NULL;) {
            value *v = &c->values[c->count++];
            v->name = name;
            if (!decode(c, v, m))
                return false;
        }
    }
    return true;
}

void call_free(call *c) {
    for (int64_t i = 0; i < c->count; i++)
        smelt_free(c->values[i].own);
    free(c->values);
    free(c->pieces);
    text_free(&c->made);
    text_free(&c->written);
    if (c->frame != NULL)
        frame_free(c->frame);
    free(c->frame);
}

value *take(call *c, const char *name) {
    if (c->next < c->unnamed)
        return &c->values[c->next++];
    for (int64_t i = c->unnamed; i < c->count; i++)
        if (c->values[i].name != NULL && json_is(c->values[i].name, name)) {
            c->values[i].name = NULL;
            return &c->values[i];
        }
    return NULL;
}

bool any_left(const call *c) {
    bool left = c->next < c->unnamed;
    for (int64_t i = c->unnamed; i < c->count; i++)
        left |= c->values[i].name != NULL;
    return left;
}

bool all_taken(call *c, const char *who) {
    if (c->next < c->unnamed)
        return fail("InputError", "%s: %" PRId64 " values are given, %" PRId64 " are needed", who,
                    c->unnamed, c->next);
    for (int64_t i = c->unnamed; i < c->count; i++) {
        const char *name = c->values[i].name;
        if (name != NULL)
            return fail("InputError", "%s: nothing is named %s, or it is given twice", who,
                        json_shown(name));
    }
    return true;
}

/* The next argument, unless it is left out. */
static value *given(call *c, const char *name) {
    value *v = take(c, name);
    return v != NULL && *v->at == 'n' ? NULL : v;
}

static bool unfit(const char *who, const char *name, const value *v, const char *legal, double least) {
    return fail("InputError", "%s: %s is %s; legal: %s from %g", who, name, json_shown(v->at), legal,
                least);
}

bool take_whole(call *c, const char *who, const char *name, int64_t least, int64_t *number) {
    const value *v = given(c, name);
    return v == NULL || (json_whole(v->at, number) && *number >= least) ||
           unfit(who, name, v, "whole numbers", (double)least);
}

bool take_number(call *c, const char *who, const char *name, double *number) {
    const value *v = given(c, name);
    return v == NULL || (json_number(v->at, number) && *number >= 0 && *number < 1e12) ||
           unfit(who, name, v, "numbers", 0);
}

bool take_device(call *c, const char *name) {
    const value *v = given(c, name);
    return v == NULL || (v->is_device && v->number == 0) ||
           fail("InputError", "%s: only cpu(0) is there", name);
}

/* ---- fitting ----------------------------------------------------------------------------------- */

/* The bits of element types that numpy does not have may come as plain numbers. */
static bool is_accepted(int32_t wanted, int32_t have) {
    int code = wanted >> 8, bits = wanted & 255;
    bool raw = code == 4 || code > 6 || bits < 8;
    return have == wanted || (raw && have == SMELT_DTYPE(1, bits < 8 ? 8 : bits));
}

static bool wrong(const smelt_model_info *info, const smelt_tensor_info *input, text *problem) {
    text t = {0};
    add_listing(&t, info, input, 1);
    fail("InputError", "%s: input '%s': %s\n  expected: %s", info->name, input->name,
         problem->failed ? "it does not fit" : problem->data, t.failed ? "" : t.data);
    text_free(&t);
    text_free(problem);
    return false;
}

/* A number for an input without dimensions. */
static bool fit_number(const smelt_tensor_info *input, value *v) {
    double number = *v->at == 't';
    int64_t whole = *v->at == 't';
    bool truth = *v->at == 't' || *v->at == 'f', is_whole = truth || json_whole(v->at, &whole);
    if (input->rank != 0 || (!truth && !json_number(v->at, &number)))
        return false;
    float single = (float)number;
    v->tensor = (smelt_tensor){&v->number, 0, v->shape, input->dtype};
    if (input->dtype == SMELT_FLOAT64)
        memcpy(&v->number, &number, sizeof number);
    else if (input->dtype == SMELT_FLOAT32)
        memcpy(&v->number, &single, sizeof single);
    else if (input->dtype >> 8 <= 1 && is_whole) {
        int bits = input->dtype & 255; /* the low bytes, of machines whose low bytes come first */
        int64_t least = input->dtype >> 8 == 1 ? 0 : -(int64_t)(1ull << (bits - 1));
        v->number = whole;
        return bits == 64 ? whole >= least
                          : whole >= least && whole - least < (int64_t)(1ull << bits);
    } else if (input->dtype == SMELT_BOOL && truth)
        v->number = whole;
    else
        return false;
    return input->dtype != SMELT_FLOAT32 || (double)single == number || number != number;
}

bool fit(const smelt_model_info *info, int64_t index, value *v, smelt_tensor *into) {
    const smelt_tensor_info *input = &info->inputs[index];
    text problem = {0};
    if (!v->is_array && (v->object != NULL || v->is_device || !fit_number(input, v))) {
        text_add(&problem, "%s given; arrays are taken", json_shown(v->at));
        return wrong(info, input, &problem);
    }
    const smelt_tensor *t = &v->tensor;
    if (!is_accepted(input->dtype, t->dtype)) {
        text_add(&problem, "dtype %s given, %s needed; x.astype('%s')", smelt_dtype_name(t->dtype),
                 smelt_dtype_name(input->dtype), smelt_dtype_name(input->dtype));
        return wrong(info, input, &problem);
    }
    text_add(&problem, "shape ");
    add_shape(&problem, t->rank, t->shape);
    if (t->rank != input->rank) {
        text_add(&problem, " has rank %" PRId64 ", %d needed", t->rank, (int)input->rank);
        return wrong(info, input, &problem);
    }
    for (int64_t d = 0; d < t->rank; d++)
        if (input->shape[d] >= 0 && input->shape[d] != t->shape[d]) {
            text_add(&problem, ": dimension %" PRId64 " is %" PRId64 ", %" PRId64 " needed", d,
                     t->shape[d], input->shape[d]);
            return wrong(info, input, &problem);
        }
    text_free(&problem);
    into->data = t->data;
    memcpy(into->shape, t->shape, (size_t)t->rank * sizeof *t->shape);
    return true;
}

/* ---- results ----------------------------------------------------------------------------------- */

void add_shape(text *t, int64_t rank, const int64_t *shape) {
    for (int64_t d = 0; d < rank; d++)
        text_add(t, "%s%" PRId64, d > 0 ? ", " : "[", shape[d]);
    text_add(t, rank > 0 ? "]" : "[]");
}

void add_array(call *c, text *into, const smelt_tensor *t) {
    struct iovec *more = realloc(c->pieces, ((size_t)c->piece_count + 1) * sizeof *more);
    int64_t bytes = bytes_of(t);
    if (more == NULL || bytes < 0) {
        into->failed = true;
        return;
    }
    c->pieces = more;
    c->pieces[c->piece_count++] = (struct iovec){t->data, (size_t)bytes};
    text_add(into, "{\"$\": \"array\", \"dtype\": \"%s\", \"shape\": ", smelt_dtype_name(t->dtype));
    add_shape(into, t->rank, t->shape);
    text_add(into, "}");
}
