/* program.c: values and memory of programs that decide while they run.
 *
 * A run owns its values: all of them stand in one list, which is freed when the run ends, so that
 * code that meets an error may just return. Within a run, values are counted, and their memory is
 * used again for the next ones; what a run has left is kept for the next run.
 */
#include "internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANK 16
#define SIZE_CLASSES 160
#define MOST_IDLE_RUNS 4
#define MOST_IDLE_BYTES ((int64_t)64 << 20)
#define MOST_STACK ((intptr_t)1 << 20) /* bytes that functions calling each other may take */

struct smelt_object {
    int64_t uses;
    smelt_object *next, *previous; /* all values of the run */
    int64_t room;                  /* bytes of a block of its own; 0: none */
    void *data;                    /* of a list: its items */
    int64_t count;                 /* of a list: how many; of a tensor: its elements */
    int32_t is_list;
    int32_t dtype;
    int32_t lent; /* 1 + number of the output that may become it: an input's memory, to write to */
    int64_t rank;
    int64_t shape[MOST_RANK];
};

typedef struct spare {
    struct spare *next;
} spare;

struct smelt_run {
    smelt_host host; /* first: kernels take a run for their host */
    smelt_run *next_idle;
    const smelt_program *program;
    const void *weights;
    smelt_object *values;
    smelt_object *spare_values;
    spare *spares[SIZE_CLASSES];
    int64_t spare_bytes, held_bytes;
    void *workspace;
    int64_t workspace_bytes;
    void **tensors; /* for the call of a segment, with room for the largest */
    int64_t *sizes, *extents;
    smelt_object **made; /* its results */
    int64_t tensor_room, size_room, extent_room, made_room;
    const char *stack;
    int64_t until_look, look_every, looked_at, asked_at;
    int64_t turns;
    smelt_program_memory memory;
};

static _Thread_local int64_t allocations_left; /* until one fails; 0: none does */
static _Thread_local smelt_program_memory last_memory;

void smelt_program_used(smelt_program_memory *memory) { *memory = last_memory; }

void smelt_program_fail(int64_t count) { allocations_left = count; }

#define MOST_NOTED 64
static _Thread_local int64_t misfit_segment = -1, misfit_sizes[MOST_NOTED];

int64_t smelt_program_misfit(int64_t *sizes, int64_t room) {
    for (int64_t i = 0; i < room && i < MOST_NOTED; i++)
        sizes[i] = misfit_sizes[i];
    return misfit_segment;
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* Four sizes to each power of two, the least of them 64 bytes. */
static int class_of(int64_t bytes, int64_t *size) {
    if (bytes <= 64) {
        *size = 64;
        return 0;
    }
    int power = 63 - __builtin_clzll((unsigned long long)(bytes - 1)); /* 2^power < bytes */
    int64_t step = (int64_t)1 << (power - 2);
    int64_t part = (bytes - ((int64_t)1 << power) + step - 1) / step; /* 1 to 4 */
    *size = ((int64_t)1 << power) + part * step;
    return (power - 6) * 4 + (int)part;
}

static int32_t no_memory(smelt_run *run, int64_t bytes) {
    int64_t most = run->host.most_bytes;
    if (most > 0 && run->held_bytes + bytes > most)
        return smelt_fail(SMELT_NO_MEMORY, "the run holds %lld bytes and needs %lld more, of %lld",
                          (long long)run->held_bytes, (long long)bytes, (long long)most);
    return smelt_fail(SMELT_NO_MEMORY, "no memory for %lld bytes", (long long)bytes);
}

static void drop_spares(smelt_run *run) {
    for (int i = 0; i < SIZE_CLASSES; i++)
        while (run->spares[i] != NULL) {
            spare *s = run->spares[i];
            run->spares[i] = s->next;
            smelt_free(s);
        }
    run->spare_bytes = 0;
}

static int32_t take_block(smelt_run *run, int64_t bytes, void **block, int64_t *room) {
    if (bytes < 0 || bytes > (int64_t)1 << 44)
        return smelt_fail(SMELT_NO_MEMORY, "no memory for %lld bytes", (long long)bytes);
    int64_t size, most = run->host.most_bytes;
    int number = class_of(bytes, &size);
    if (allocations_left > 0 && --allocations_left == 0) {
        allocations_left = 1; /* and every later one */
        return no_memory(run, size);
    }
    if (most > 0 && run->held_bytes + size > most)
        return no_memory(run, size);
    spare *found = run->spares[number];
    if (found != NULL) {
        run->spares[number] = found->next;
        run->spare_bytes -= size;
        *block = found;
    } else {
        *block = smelt_alloc(size);
        if (*block == NULL) {
            drop_spares(run);
            *block = smelt_alloc(size);
        }
        if (*block == NULL)
            return no_memory(run, size);
    }
    run->held_bytes += size;
    run->memory.allocations++;
    if (run->held_bytes > run->memory.most_bytes)
        run->memory.most_bytes = run->held_bytes;
    *room = size;
    return SMELT_OK;
}

static void give_block(smelt_run *run, void *block, int64_t room) {
    int64_t size;
    int number = class_of(room, &size);
    run->held_bytes -= room;
    if (run->spare_bytes + room > MOST_IDLE_BYTES) {
        smelt_free(block);
        return;
    }
    spare *s = block;
    s->next = run->spares[number];
    run->spares[number] = s;
    run->spare_bytes += room;
}

/* ---- values ------------------------------------------------------------------------------------ */

static smelt_object *new_value(smelt_run *run) {
    smelt_object *o = run->spare_values;
    if (o != NULL)
        run->spare_values = o->next;
    else if ((o = smelt_alloc(sizeof *o)) == NULL)
        return NULL;
    o->uses = 1;
    o->room = 0;
    o->data = NULL;
    o->count = 0;
    o->is_list = 0;
    o->lent = 0;
    o->rank = 0;
    o->previous = NULL;
    o->next = run->values;
    if (run->values != NULL)
        run->values->previous = o;
    run->values = o;
    return o;
}

static void give_value(smelt_run *run, smelt_object *o) {
    if (o->previous != NULL)
        o->previous->next = o->next;
    else
        run->values = o->next;
    if (o->next != NULL)
        o->next->previous = o->previous;
    if (o->room > 0)
        give_block(run, o->data, o->room);
    o->next = run->spare_values;
    run->spare_values = o;
}

/* Gives up one use of a value. Lists may hold lists: those that wait for their items to go know
 * where they were (shape[0]) and whose item they are (shape[1]); nothing recurs. */
static void forget(smelt_run *run, smelt_object *value) {
    smelt_object *o = value, *outer = NULL;
    if (value == NULL || --value->uses > 0)
        return;
    value->shape[0] = value->shape[1] = 0;
    while (o != NULL) {
        if (o->is_list && o->shape[0] < o->count) {
            smelt_object *item = ((smelt_object **)o->data)[o->shape[0]++];
            if (item == NULL || --item->uses > 0)
                continue;
            outer = o;
            o = item;
            if (o->is_list) {
                o->shape[0] = 0;
                o->shape[1] = (int64_t)(intptr_t)outer;
                continue;
            }
            give_value(run, o);
            o = outer;
            continue;
        }
        outer = (smelt_object *)(intptr_t)(o->is_list ? o->shape[1] : 0);
        give_value(run, o);
        o = outer;
    }
}

static int32_t put(smelt_run *run, smelt_object **slot, smelt_object *value) {
    smelt_object *old = *slot;
    *slot = value;
    forget(run, old);
    return SMELT_OK;
}

/* A tensor with memory for its elements, unless it is only there for its shape. */
static int32_t new_tensor(smelt_run *run, int32_t dtype, int64_t rank, const int64_t *shape,
                          int has_data, smelt_object **made) {
    int64_t count = 1, each = smelt_dtype_bytes(dtype);
    if (rank > MOST_RANK)
        return smelt_fail(SMELT_UNSUPPORTED, "a tensor of %lld dimensions, of %d that are possible",
                          (long long)rank, MOST_RANK);
    for (int64_t d = 0; d < rank; d++) {
        if (shape[d] < 0 || __builtin_mul_overflow(count, shape[d], &count) ||
            count > INT64_MAX / 16)
            return smelt_fail(SMELT_BAD_SHAPE, "a tensor whose dimension %lld is %lld", (long long)d,
                              (long long)shape[d]);
    }
    smelt_object *o = new_value(run);
    if (o == NULL)
        return no_memory(run, (int64_t)sizeof *o);
    o->dtype = dtype;
    o->rank = rank;
    o->count = count;
    if (rank > 0)
        memcpy(o->shape, shape, (size_t)rank * sizeof *shape);
    if (has_data) {
        int32_t status = take_block(run, count * each, &o->data, &o->room);
        if (status != SMELT_OK) {
            o->room = 0;
            give_value(run, o);
            return status;
        }
    }
    *made = o;
    return SMELT_OK;
}

static int32_t new_list(smelt_run *run, int64_t room, smelt_object **made) {
    smelt_object *o = new_value(run);
    if (o == NULL)
        return no_memory(run, (int64_t)sizeof *o);
    o->is_list = 1;
    int32_t status =
        take_block(run, (room > 0 ? room : 8) * (int64_t)sizeof(void *), &o->data, &o->room);
    if (status != SMELT_OK) {
        o->room = 0;
        give_value(run, o);
        return status;
    }
    *made = o;
    return SMELT_OK;
}

static int32_t no_tensor(const smelt_object *o) {
    return smelt_fail(SMELT_BAD_VALUE, "a %s where a tensor is needed",
                      o == NULL ? "value that is not there" : "list");
}

/* ---- what programs ask for --------------------------------------------------------------------- */

/* How many turns pass between two looks at the clock is found by how long they take. */
static int32_t ask(smelt_run *run) {
    int64_t now = smelt_now(), since = now - run->looked_at;
    if (since < SMELT_NANOSECONDS_TO_ASK / 16 && run->look_every < 65536)
        run->look_every *= 2;
    else if (since > SMELT_NANOSECONDS_TO_ASK / 4)
        run->look_every = 1;
    run->until_look = run->look_every;
    run->looked_at = now;
    if (run->asked_at == 0)
        run->asked_at = now;
    if (now - run->asked_at < SMELT_NANOSECONDS_TO_ASK || run->host.interrupted == NULL)
        return SMELT_OK;
    run->asked_at = now;
    return run->host.interrupted() != 0 ? smelt_fail(SMELT_CANCELLED, "cancelled") : SMELT_OK;
}

static inline int32_t poll(smelt_run *run) {
    return --run->until_look > 0 ? SMELT_OK : ask(run);
}

static inline smelt_object *used(smelt_object *value) {
    if (value != NULL)
        value->uses++;
    return value;
}

static int32_t service_enter(smelt_run *run, smelt_object **slots, int64_t count,
                             smelt_object **caller, const int64_t *args, int64_t arg_count) {
    char here;
    if (run->stack - &here > MOST_STACK)
        return smelt_fail(SMELT_FAILED, "functions call each other too deep: more than %lld bytes of "
                          "the stack; a call at a function's end needs none", (long long)MOST_STACK);
    for (int64_t i = 0; i < arg_count; i++) {
        slots[i] = args[i] < 0 ? caller[~args[i]] : used(caller[args[i]]);
        if (args[i] < 0)
            caller[~args[i]] = NULL;
    }
    for (int64_t i = arg_count; i < count; i++)
        slots[i] = NULL;
    return poll(run);
}

static int32_t service_again(smelt_run *run, smelt_object **slots, int64_t count,
                             const int64_t *args, int64_t arg_count, int64_t text) {
    smelt_object *few[32], **next = few;
    void *block = NULL;
    int64_t room = 0;
    if (arg_count > 32) {
        int32_t status = take_block(run, arg_count * (int64_t)sizeof *next, &block, &room);
        if (status != SMELT_OK)
            return status;
        next = block;
    }
    for (int64_t i = 0; i < arg_count; i++)
        next[i] = used(slots[args[i]]);
    for (int64_t i = 0; i < count; i++)
        put(run, &slots[i], i < arg_count ? next[i] : NULL);
    if (block != NULL)
        give_block(run, block, room);
    if (++run->turns == run->host.most_turns)
        return smelt_fail(SMELT_FAILED, "%s: more turns than the limit, which is %lld",
                          run->program->texts[text], (long long)run->host.most_turns);
    return poll(run);
}

static int32_t service_leave(smelt_run *run, smelt_object **slots, int64_t count, int64_t from,
                             smelt_object **caller, int64_t result) {
    put(run, &caller[result], used(slots[from]));
    for (int64_t i = 0; i < count; i++)
        forget(run, slots[i]);
    return SMELT_OK;
}

static int32_t service_assign(smelt_run *run, smelt_object **slots, int64_t to, int64_t from) {
    return put(run, &slots[to], used(slots[from]));
}

static int32_t service_release(smelt_run *run, smelt_object **slots, int64_t from) {
    return put(run, &slots[from], NULL);
}

static int32_t service_constant(smelt_run *run, smelt_object **slots, int64_t to, int64_t number) {
    const smelt_constant *c = &run->program->constants[number];
    smelt_object *made = NULL;
    int32_t status = new_tensor(run, (int32_t)c->dtype, c->rank, c->shape, 0, &made);
    if (status != SMELT_OK)
        return status;
    made->data = (char *)run->weights + c->offset;
    return put(run, &slots[to], made);
}

static int64_t element(const smelt_object *o, int64_t i) {
    switch (o->dtype) {
    case SMELT_BOOL:
    case SMELT_UINT8: return ((const uint8_t *)o->data)[i];
    case SMELT_INT8: return ((const int8_t *)o->data)[i];
    case SMELT_INT16: return ((const int16_t *)o->data)[i];
    case SMELT_UINT16: return ((const uint16_t *)o->data)[i];
    case SMELT_INT32: return ((const int32_t *)o->data)[i];
    case SMELT_UINT32: return ((const uint32_t *)o->data)[i];
    case SMELT_FLOAT32: return (int64_t)((const float *)o->data)[i];
    case SMELT_FLOAT64: return (int64_t)((const double *)o->data)[i];
    default: return ((const int64_t *)o->data)[i];
    }
}

static int32_t service_scalar(smelt_run *run, smelt_object **slots, int64_t from, int64_t *value) {
    const smelt_object *tensor = slots[from];
    (void)run;
    if (tensor == NULL || tensor->is_list || tensor->data == NULL)
        return no_tensor(tensor);
    if (tensor->count != 1)
        return smelt_fail(SMELT_BAD_VALUE, "a tensor of %lld elements where one number is needed",
                          (long long)tensor->count);
    *value = element(tensor, 0);
    return SMELT_OK;
}

static int32_t misfit(const smelt_segment *s, int64_t input, const char *what, int64_t have,
                      int64_t want) {
    return smelt_fail(SMELT_BAD_SHAPE, "%s: its operand %lld: %s is %lld, it must be %lld", s->name,
                      (long long)input, what, (long long)have, (long long)want);
}

/* The slot of an operand, which may be its last use. */
static inline int64_t operand(int64_t place) { return place < 0 ? ~place : place; }

/* Sizes from the shapes of a segment's operands, which are compared with what it takes. */
static int32_t bind(smelt_run *run, const smelt_segment *s, smelt_object *const *slots,
                    const int64_t *places, const int64_t **outputs) {
    const int64_t *t = s->tensors;
    for (int64_t i = 0; i < s->symbol_count; i++)
        run->sizes[i] = -1;
    for (int64_t i = 0; i < s->input_count; i++) {
        const smelt_object *o = slots[operand(places[i])];
        int64_t dtype = *t++, rank = *t++;
        if (o == NULL || o->is_list)
            return no_tensor(o);
        if (o->dtype != dtype || o->rank != rank)
            return misfit(s, i, o->rank != rank ? "its rank" : "its element type",
                          o->rank != rank ? o->rank : o->dtype, o->rank != rank ? rank : dtype);
        for (int64_t d = 0; d < rank; d++, t++) {
            if (*t >= 0) {
                if (o->shape[d] != *t)
                    return misfit(s, i, "a dimension", o->shape[d], *t);
            } else if (*t != SMELT_COMPUTED_DIM) {
                int64_t *size = &run->sizes[~*t];
                if (*size < 0)
                    *size = o->shape[d];
                else if (*size != o->shape[d])
                    return misfit(s, i, "a dimension", o->shape[d], *size);
            }
        }
        run->tensors[i] = o->data;
    }
    *outputs = t;
    return SMELT_OK;
}

static int32_t reserve(smelt_run *run, int64_t bytes) {
    if (bytes <= run->workspace_bytes)
        return SMELT_OK;
    if (run->workspace != NULL)
        give_block(run, run->workspace, run->workspace_bytes);
    run->workspace = NULL;
    run->workspace_bytes = 0;
    return take_block(run, bytes, &run->workspace, &run->workspace_bytes);
}

/* Whether a segment may write to an operand: nothing else has it, and its memory is the run's. */
static int is_alone(const smelt_segment *s, smelt_object *const *slots, const int64_t *places,
                    int64_t input) {
    const smelt_object *o = slots[operand(places[input])];
    if (places[input] >= 0 || o->uses > 1 || (o->room == 0 && !o->lent))
        return 0;
    for (int64_t i = 0; i < s->input_count; i++)
        if (i != input && slots[operand(places[i])] == o)
            return 0;
    return 1;
}

/* An operand that a segment updates becomes its result; where others have it, a copy does. */
static int32_t take_over(smelt_run *run, const smelt_segment *s, smelt_object **slots,
                         const int64_t *places, int64_t input) {
    smelt_object **slot = &slots[operand(places[input])], *o = *slot, *made = o;
    if (is_alone(s, slots, places, input)) {
        *slot = NULL;
    } else {
        int32_t status = new_tensor(run, o->dtype, o->rank, o->shape, 1, &made);
        if (status != SMELT_OK)
            return status;
        if (o->count > 0)
            memcpy(made->data, o->data, (size_t)(o->count * smelt_dtype_bytes(o->dtype)));
    }
    run->tensors[input] = made->data;
    run->made[s->updates[input]] = made;
    return SMELT_OK;
}

static int32_t service_segment(smelt_run *run, smelt_object **slots, const int64_t *places,
                               int64_t number) {
    const smelt_segment *s = &run->program->segments[number];
    const int64_t *t = NULL;
    int64_t bytes = 0;
    int32_t status = bind(run, s, slots, places, &t);
    if (status != SMELT_OK)
        return status;
    status = s->plan(run->sizes, run->extents, &bytes);
    if (status != SMELT_OK) {
        misfit_segment = number;
        for (int64_t i = 0; i < s->symbol_count && i < MOST_NOTED; i++)
            misfit_sizes[i] = run->sizes[i];
        return smelt_fail(status, "%s: %s", s->name, smelt_status_name(status));
    }
    for (int64_t i = 0; i < s->output_count; i++)
        run->made[i] = NULL;
    for (int64_t i = 0; s->updates != NULL && i < s->input_count; i++) {
        status = s->updates[i] < 0 ? SMELT_OK : take_over(run, s, slots, places, i);
        if (status != SMELT_OK)
            return status;
    }
    const int64_t *extents = run->extents;
    for (int64_t i = 0; i < s->output_count; i++) {
        int64_t dtype = *t++, rank = *t++;
        smelt_object *made = run->made[i];
        if (made == NULL)
            status = new_tensor(run, (int32_t)dtype, rank, extents, 1, &made);
        if (status != SMELT_OK)
            return status;
        run->tensors[s->input_count + i] = made->data;
        run->made[i] = made;
        extents += rank;
        t += rank;
    }
    status = reserve(run, bytes);
    if (status != SMELT_OK)
        return status;
    status = s->entry(&run->host, run->tensors, run->sizes, run->weights, run->workspace);
    if (status != SMELT_OK)
        return smelt_fail(status, "%s: %s", s->name, smelt_status_name(status));
    for (int64_t i = 0; i < s->output_count; i++) /* operands may stand in the same slots */
        put(run, &slots[places[s->input_count + i]], run->made[i]);
    return SMELT_OK;
}

static int32_t service_list(smelt_run *run, smelt_object **slots, int64_t to, const int64_t *items,
                            int64_t count) {
    smelt_object *made = NULL;
    int32_t status = new_list(run, count, &made);
    if (status != SMELT_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        ((smelt_object **)made->data)[i] = used(slots[items[i]]);
    made->count = count;
    return put(run, &slots[to], made);
}

static int32_t no_list(const smelt_object *o) {
    return smelt_fail(SMELT_BAD_VALUE, "a %s where a list is needed",
                      o == NULL ? "value that is not there" : "tensor");
}

static int32_t service_item(smelt_run *run, smelt_object **slots, int64_t to, int64_t from,
                            int64_t index) {
    const smelt_object *list = slots[from];
    if (list == NULL || !list->is_list)
        return no_list(list);
    if (index < 0 || index >= list->count)
        return smelt_fail(SMELT_BAD_INDEX, "item %lld of a list of %lld", (long long)index,
                          (long long)list->count);
    return put(run, &slots[to], used(((smelt_object **)list->data)[index]));
}

static int32_t service_append(smelt_run *run, smelt_object **slots, int64_t to, int64_t from,
                              int64_t item) {
    smelt_object *list = slots[from];
    if (list == NULL || !list->is_list)
        return no_list(list);
    if ((list->count + 1) * (int64_t)sizeof(void *) > list->room) {
        void *block;
        int64_t room;
        int32_t status = take_block(run, list->room * 2, &block, &room);
        if (status != SMELT_OK)
            return status;
        memcpy(block, list->data, (size_t)list->count * sizeof(void *));
        give_block(run, list->data, list->room);
        list->data = block;
        list->room = room;
    }
    ((smelt_object **)list->data)[list->count++] = used(slots[item]);
    return put(run, &slots[to], used(list));
}

static int32_t service_stack(smelt_run *run, smelt_object **slots, int64_t to, int64_t from,
                             const int64_t *how) {
    int64_t axis = how[0], backwards = how[1], rank = how[3], shape[MOST_RANK + 1];
    const int64_t *item = how + 4;
    const smelt_object *list = slots[from];
    if (list == NULL || !list->is_list)
        return no_list(list);
    int64_t count = list->count;
    smelt_object *const *items = list->data;
    for (int64_t n = 0; n < count; n++) {
        const smelt_object *o = items[n];
        if (o == NULL || o->is_list)
            return no_tensor(o);
        if (o->rank != rank || o->dtype != how[2])
            return smelt_fail(SMELT_BAD_VALUE, "a loop stacks its results, but that of iteration %lld "
                              "is of another type", (long long)n);
        for (int64_t d = 0; d < rank; d++)
            if (o->shape[d] != items[0]->shape[d])
                return smelt_fail(SMELT_BAD_VALUE,
                                  "a loop stacks its results, but dimension %lld of that of iteration "
                                  "%lld is %lld, of that of iteration 0 %lld",
                                  (long long)d, (long long)n, (long long)o->shape[d],
                                  (long long)items[0]->shape[d]);
    }
    if (count > 0)
        item = items[0]->shape;
    if (rank + 1 > MOST_RANK)
        return smelt_fail(SMELT_UNSUPPORTED, "a tensor of %lld dimensions", (long long)rank + 1);
    for (int64_t d = 0; d <= rank; d++)
        shape[d] = d < axis ? item[d] : d == axis ? count : item[d - 1];
    smelt_object *made = NULL;
    int32_t status = new_tensor(run, (int32_t)how[2], rank + 1, shape, 1, &made);
    if (status != SMELT_OK)
        return status;
    int64_t outer = 1, inner = smelt_dtype_bytes(made->dtype);
    for (int64_t d = 0; d < rank; d++)
        *(d < axis ? &outer : &inner) *= item[d];
    for (int64_t n = 0; n < count && inner > 0; n++) {
        const char *source = items[backwards ? count - 1 - n : n]->data;
        char *target = (char *)made->data + n * inner;
        for (int64_t o = 0; o < outer; o++)
            memcpy(target + o * count * inner, source + o * inner, (size_t)inner);
    }
    return put(run, &slots[to], made);
}

/* Numbers as a text, as many as there is room for. */
static const char *listed(const smelt_object *o, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "[");
    for (int64_t i = 0; i < o->count && used + 32 < room; i++)
        used += (size_t)snprintf(text + used, room - used, i ? ", %lld" : "%lld",
                                 (long long)element(o, i));
    snprintf(text + used, room - used, "]");
    return text;
}

static int32_t check_sizes(const char *where, const smelt_object *numbers,
                           const smelt_object *wanted) {
    char have[160], want[160];
    int64_t product = 1;
    int fits = wanted->count <= 1 || wanted->count == numbers->count;
    for (int64_t i = 0; i < numbers->count; i++) {
        if (__builtin_mul_overflow(product, element(numbers, i), &product))
            product = -1;
        fits = fits && (wanted->count <= 1 || element(numbers, i) == element(wanted, i));
    }
    listed(numbers, have, sizeof have);
    if (wanted->count == 1 && product != element(wanted, 0))
        return smelt_fail(SMELT_BAD_VALUE, "%s is %s, which does not hold %lld elements", where, have,
                          (long long)element(wanted, 0));
    return fits ? SMELT_OK
                : smelt_fail(SMELT_BAD_VALUE, "%s asks for %s, which does not fit %s", where, have,
                             listed(wanted, want, sizeof want));
}

static int32_t service_sizes(smelt_run *run, smelt_object **slots, const int64_t *to, int64_t count,
                             int64_t from, int64_t like, int64_t text) {
    const char *where = run->program->texts[text];
    smelt_object *numbers = slots[from], *wanted = like < 0 ? NULL : slots[like];
    if (numbers == NULL || numbers->is_list || (wanted != NULL && wanted->is_list))
        return no_tensor(numbers);
    int32_t fits = wanted == NULL ? SMELT_OK : check_sizes(where, numbers, wanted);
    if (fits != SMELT_OK)
        return fits;
    if (numbers->count != count)
        return smelt_fail(SMELT_BAD_VALUE, "%s has %lld numbers, where %lld are needed", where,
                          (long long)numbers->count, (long long)count);
    used(numbers); /* its slot may be one of the results' */
    for (int64_t i = 0; i < count; i++) {
        int64_t size = element(numbers, i);
        smelt_object *made = NULL;
        if (size < 0)
            return smelt_fail(SMELT_BAD_VALUE, "%s is %lld; it has to be 0 or more", where,
                              (long long)size);
        int32_t status = new_tensor(run, SMELT_UINT8, 1, &size, 0, &made);
        if (status != SMELT_OK)
            return status;
        put(run, &slots[to[i]], made);
    }
    forget(run, numbers);
    return SMELT_OK;
}

const smelt_services smelt_all_services = {
    .enter = service_enter,
    .again = service_again,
    .leave = service_leave,
    .assign = service_assign,
    .release = service_release,
    .constant = service_constant,
    .scalar = service_scalar,
    .segment = service_segment,
    .list = service_list,
    .item = service_item,
    .append = service_append,
    .stack = service_stack,
    .sizes = service_sizes,
};

/* ---- runs -------------------------------------------------------------------------------------- */

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static smelt_run *idle_runs;
static int idle_count;

static smelt_run *take_idle(void) {
    pthread_mutex_lock(&idle_lock);
    smelt_run *run = idle_runs;
    if (run != NULL) {
        idle_runs = run->next_idle;
        idle_count--;
    }
    pthread_mutex_unlock(&idle_lock);
    return run;
}

static smelt_run *take_run(void) {
    smelt_run *run = take_idle();
    if (run == NULL && (run = smelt_alloc(sizeof *run)) != NULL)
        memset(run, 0, sizeof *run);
    return run;
}

static void free_run(smelt_run *run) {
    while (run->spare_values != NULL) {
        smelt_object *o = run->spare_values;
        run->spare_values = o->next;
        smelt_free(o);
    }
    drop_spares(run);
    smelt_free(run->tensors);
    smelt_free(run->sizes);
    smelt_free(run->extents);
    smelt_free(run->made);
    smelt_free(run);
}

/* Frees the values that are left, and keeps the run for the next one. */
static void give_run(smelt_run *run) {
    while (run->values != NULL)
        give_value(run, run->values);
    if (run->workspace != NULL)
        give_block(run, run->workspace, run->workspace_bytes);
    run->workspace = NULL;
    run->workspace_bytes = 0;
    pthread_mutex_lock(&idle_lock);
    int keep = idle_count < MOST_IDLE_RUNS;
    if (keep) {
        run->next_idle = idle_runs;
        idle_runs = run;
        idle_count++;
    }
    pthread_mutex_unlock(&idle_lock);
    if (!keep)
        free_run(run);
}

static int32_t widen(void **array, int64_t *room, int64_t wanted) {
    if (wanted <= *room)
        return SMELT_OK;
    smelt_free(*array);
    *array = smelt_alloc(wanted * (int64_t)sizeof(int64_t));
    *room = *array == NULL ? 0 : wanted;
    return *array == NULL ? smelt_fail(SMELT_NO_MEMORY, "no memory for a call") : SMELT_OK;
}

/* Room for the call of any segment. */
static int32_t prepare(smelt_run *run) {
    int64_t tensors = 1, sizes = 1, extents = 1, results = 1;
    for (int64_t i = 0; i < run->program->segment_count; i++) {
        const smelt_segment *s = &run->program->segments[i];
        int64_t own = s->input_count + s->output_count;
        tensors = own > tensors ? own : tensors;
        results = s->output_count > results ? s->output_count : results;
        sizes = s->symbol_count > sizes ? s->symbol_count : sizes;
        extents = s->extent_count > extents ? s->extent_count : extents;
    }
    int32_t status = widen((void **)&run->tensors, &run->tensor_room, tensors);
    if (status == SMELT_OK)
        status = widen((void **)&run->made, &run->made_room, results);
    if (status == SMELT_OK)
        status = widen((void **)&run->sizes, &run->size_room, sizes);
    return status == SMELT_OK ? widen((void **)&run->extents, &run->extent_room, extents) : status;
}

/* A result, which leaves the run: its memory goes along, or a copy where others use it. */
static int32_t hand_out(smelt_run *run, smelt_object *value, smelt_tensor *output, int64_t number) {
    if (value == NULL || value->is_list)
        return no_tensor(value);
    int64_t bytes = value->count * smelt_dtype_bytes(value->dtype);
    if (value->rank > 0)
        memcpy(output->shape, value->shape, (size_t)value->rank * sizeof(int64_t));
    output->rank = value->rank;
    output->dtype = value->dtype;
    if (value->uses == 1 && value->lent == number + 1) {
        output->data = value->data;
        return SMELT_OK;
    }
    if (value->uses == 1 && value->room > 0) {
        run->held_bytes -= value->room;
        output->data = value->data;
        value->room = 0;
        return SMELT_OK;
    }
    output->data = smelt_alloc(bytes);
    if (output->data == NULL)
        return no_memory(run, bytes);
    if (bytes > 0)
        memcpy(output->data, value->data, (size_t)bytes);
    return SMELT_OK;
}

static int is_input(const smelt_program_call *call, const void *data) {
    for (int64_t i = 0; i < call->input_count; i++)
        if (call->inputs[i].data == data)
            return 1;
    return 0;
}

static int32_t hand_out_all(smelt_run *run, smelt_object *result, const smelt_program_call *call) {
    smelt_object **items = &result;
    int64_t count = 1;
    if (result != NULL && result->is_list) {
        items = result->data;
        count = result->count;
    }
    if (count != call->output_count)
        return smelt_fail(SMELT_FAILED, "the program gives %lld results, not %lld", (long long)count,
                          (long long)call->output_count);
    int32_t status = SMELT_OK;
    int64_t done = 0;
    while (status == SMELT_OK && done < count) {
        status = hand_out(run, items[done], &call->outputs[done], done);
        done += status == SMELT_OK;
    }
    for (int64_t i = 0; status != SMELT_OK && i < done; i++) {
        if (!is_input(call, call->outputs[i].data))
            smelt_free(call->outputs[i].data);
        call->outputs[i].data = NULL;
    }
    return status;
}

static int32_t run_main(smelt_run *run, const smelt_program_call *call) {
    int64_t count = call->input_count, room, *places;
    smelt_object **slots = NULL; /* the inputs, the result; behind them their numbers */
    int32_t status = prepare(run);
    if (status == SMELT_OK)
        status = take_block(run, (count + 1) * (int64_t)(sizeof *slots + sizeof *places),
                            (void **)&slots, &room);
    if (status != SMELT_OK)
        return status;
    places = (int64_t *)(slots + count + 1);
    slots[count] = NULL;
    for (int64_t i = 0; i < count && status == SMELT_OK; i++) {
        const smelt_tensor *t = &call->inputs[i];
        status = new_tensor(run, t->dtype, t->rank, t->shape, 0, &slots[i]);
        if (status == SMELT_OK) {
            slots[i]->data = t->data;
            slots[i]->lent = call->lent == NULL || call->lent[i] < 0 ? 0 : (int32_t)call->lent[i] + 1;
        }
        places[i] = ~i;
    }
    if (status == SMELT_OK)
        status = call->program->main(run, slots, places, count);
    if (status == SMELT_OK)
        status = hand_out_all(run, slots[count], call);
    give_block(run, slots, room);
    return status;
}

int32_t smelt_program_run(const smelt_program_call *call) {
    smelt_run *run = take_run();
    char here;
    if (run == NULL)
        return smelt_fail(SMELT_NO_MEMORY, "no memory for a call");
    run->host = *call->host;
    if (run->host.services == NULL) /* a host of somebody's own */
        run->host.services = &smelt_all_services;
    run->program = call->program;
    run->weights = call->weights;
    run->held_bytes = run->turns = 0;
    run->memory.allocations = run->memory.most_bytes = 0;
    run->stack = &here;
    run->until_look = run->look_every = 1;
    run->looked_at = run->asked_at = 0;
    misfit_segment = -1;
    for (int64_t i = 0; i < call->output_count; i++)
        call->outputs[i].data = NULL;
    int32_t status = run_main(run, call);
    last_memory = run->memory;
    give_run(run);
    return status;
}

void smelt_program_trim(void) {
    for (smelt_run *run = take_idle(); run != NULL; run = take_idle())
        free_run(run);
}
