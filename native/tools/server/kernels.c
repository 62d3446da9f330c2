/* kernels.c: candidates of tuning, which are timed on arrays that stay here. */
#define _GNU_SOURCE
#include "worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const method nothing[] = {{NULL, NULL}};

static const kind candidate = {"Kernel", nothing, nothing};

static bool check_features(const char *message) {
    char name[64];
    const char *features = json_get(message, "features"), *none;
    for (const char *m = NULL; features && (m = json_member(features, m, &none)) != NULL;)
        if (!json_text(m, name, sizeof name) || !smelt_cpu_has(name))
            return fail("LoadError", "compiled for a CPU with %s, which this CPU lacks",
                        json_shown(m));
    return true;
}

/* The data of a call as a file without a name; -1: there is none. */
static int file_of(const call *c) {
    char name[] = "kernel-XXXXXX";
    int file = mkstemp(name);
    if (file >= 0)
        unlink(name);
    for (uint64_t at = 0; file >= 0 && at < c->left;) {
        ssize_t n = write(file, c->data + at, c->left - at);
        if (n <= 0) {
            close(file);
            return -1;
        }
        at += (uint64_t)n;
    }
    return file;
}

object *kernel_new(const char *message, const call *c) {
    if (!check_features(message))
        return NULL;
    int file = file_of(c);
    smelt_kernel *kernel = file < 0 ? NULL : kernel_open("a candidate", file);
    if (file < 0)
        fail("LoadError", "a candidate cannot be kept: there is no room for it");
    else
        close(file);
    if (file >= 0 && kernel == NULL)
        fail("LoadError", "%s", smelt_last_error());
    object *made = kernel == NULL ? NULL : object_new(&candidate, NULL);
    if (made == NULL)
        kernel_close(kernel);
    else
        made->kernel = kernel;
    return made;
}

/* Numbers of a list; how many there are, or -1. */
static int64_t numbers(const char *list, int64_t *into, int64_t room) {
    const char *none;
    int64_t count = 0;
    if (list == NULL || *list != '[')
        return -1;
    for (const char *m = NULL; (m = json_member(list, m, &none)) != NULL; count++)
        if (count == room || !json_whole(m, &into[count]))
            return -1;
    return count;
}

/* An operand is [the array's number, bytes, stride, copies, touched]. */
static bool read_operand(const char *at, smelt_operand *o) {
    int64_t row[4], last = 0;
    const char *none, *handle = *at == '[' ? json_member(at, NULL, &none) : NULL;
    const char *m = handle;
    for (int i = 0; i < 4; i++)
        if (m == NULL || (m = json_member(at, m, &none)) == NULL || !json_whole(m, &row[i]))
            return fail("RPCError", "a message that asks for nothing: an operand that is none");
    object *array = object_find(handle);
    if (array == NULL)
        return false;
    int64_t have = is_array(array) ? bytes_of(&array->tensor) : -1;
    bool whole = row[0] >= 0 && row[1] >= 0 && row[2] >= 1 && row[3] >= 0 &&
                 !__builtin_mul_overflow(row[2] - 1, row[1], &last) &&
                 !__builtin_add_overflow(last, row[0], &last) && last <= have;
    *o = (smelt_operand){array->tensor.data, row[0], row[1], row[2], row[3]};
    return whole || fail("RPCError", "an operand lies outside of its array");
}

static bool run(call *c, object *o, const char *message, smelt_operand *operands, int64_t count,
                const int64_t *sizes) {
    int64_t turn, calls, threads, nanoseconds;
    smelt_pool_view view;
    smelt_host host;
    if (!json_whole(json_get(message, "turn"), &turn) || turn < 0 ||
        !json_whole(json_get(message, "calls"), &calls) || calls < 1 ||
        !json_whole(json_get(message, "threads"), &threads) || threads < 1 || threads > 65535)
        return fail("RPCError", "a message that asks for nothing: turn, calls or threads");
    smelt_host_init(&host, &view, (int32_t)threads);
    int32_t status = smelt_entry_time(kernel_entry(o->kernel), &host, operands, count, sizes, turn,
                                      calls, threads, &nanoseconds);
    if (status != SMELT_OK)
        return fail("RuntimeFailure", "the kernel returned the status %" PRId32, status);
    text_add(&c->made, "%.9f", (double)nanoseconds * 1e-9);
    return true;
}

bool kernel_time(call *c, const char *message) {
    const char *on = json_get(message, "kernel"), *list = json_get(message, "operands"), *none;
    object *o = on == NULL ? NULL : object_find(on);
    int64_t count = list == NULL || *list != '[' ? -1 : json_count(list), sizes[64];
    if (o == NULL || o->kind != &candidate || count < 0 || count > MOST_VALUES ||
        numbers(json_get(message, "sizes"), sizes, 64) < 0)
        return fail("RPCError", "a message that asks for nothing: no kernel, operands or sizes");
    smelt_operand *operands = calloc((size_t)count + 1, sizeof *operands), *next = operands;
    bool whole = operands != NULL || no_memory("operands", (uint64_t)count * sizeof *operands);
    for (const char *m = NULL; whole && (m = json_member(list, m, &none)) != NULL; next++)
        whole = read_operand(m, next);
    whole = whole && run(c, o, message, operands, count, sizes);
    free(operands);
    return whole;
}
