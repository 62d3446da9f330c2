/* arrays.c: arrays that stay here from call to call. */
#include "worker.h"

#include <inttypes.h>
#include <string.h>

static bool read_array(object *self, call *c) {
    if (all_taken(c, "numpy"))
        add_array(c, &c->made, &self->tensor);
    return !any_left(c);
}

static bool write_array(object *self, call *c) {
    const value *v = take(c, "source_array");
    const smelt_tensor *t = &self->tensor;
    if (v == NULL || !v->is_array || !all_taken(c, "copyfrom"))
        return fail("InputError", "copyfrom: one array is needed");
    if (v->tensor.dtype != t->dtype || v->tensor.rank != t->rank ||
        memcmp(v->tensor.shape, t->shape, (size_t)t->rank * sizeof *t->shape) != 0) {
        text both = {0};
        text_add(&both, "the source is %s", smelt_dtype_name(v->tensor.dtype));
        add_shape(&both, v->tensor.rank, v->tensor.shape);
        text_add(&both, ", the array is %s", smelt_dtype_name(t->dtype));
        add_shape(&both, t->rank, t->shape);
        fail("InputError", "copyfrom: %s", both.failed ? "another shape" : both.data);
        text_free(&both);
        return false;
    }
    memmove(t->data, v->tensor.data, (size_t)bytes_of(t));
    text_add(&c->made, "null");
    return true;
}

static bool read_shape(object *self, call *c) {
    text_add(&c->made, "{\"$\": \"tuple\", \"items\": ");
    add_shape(&c->made, self->tensor.rank, self->tensor.shape);
    text_add(&c->made, "}");
    return true;
}

static bool read_dtype(object *self, call *c) {
    text_quote(&c->made, smelt_dtype_name(self->tensor.dtype));
    return true;
}

static const kind array = {
    "NDArray", (const method[]){{"numpy", read_array}, {"copyfrom", write_array}, {NULL, NULL}},
    (const method[]){{"shape", read_shape}, {"dtype", read_dtype}, {NULL, NULL}}};

bool is_array(const object *o) { return o->kind == &array; }

static bool make(object *o, const char *message) {
    smelt_tensor *t = &o->tensor;
    if (!describe_tensor(message, t, o->shape))
        return false;
    int64_t bytes = bytes_of(t);
    if (bytes < 0)
        return fail("RPCError", "a message that holds no value: an array of such a shape");
    if ((t->data = smelt_alloc(bytes)) == NULL)
        return no_memory("an array", (uint64_t)bytes);
    memset(t->data, 0, (size_t)bytes);
    return true;
}

object *array_new(const char *message) {
    object *made = object_new(&array, NULL);
    if (made != NULL && !make(made, message)) {
        object_release(made);
        made = NULL;
    }
    return made;
}

bool array_fill(object *o, const call *c) {
    int64_t bytes = is_array(o) ? bytes_of(&o->tensor) : -1;
    if (bytes < 0 || c->left == 0)
        return fail("RPCError", "filling an array: it is none, or there is no data");
    for (uint64_t at = 0; at < (uint64_t)bytes; at += c->left) {
        uint64_t rest = (uint64_t)bytes - at;
        memcpy((char *)o->tensor.data + at, c->data, rest < c->left ? rest : c->left);
    }
    return true;
}
