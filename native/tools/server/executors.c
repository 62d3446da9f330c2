/* executors.c: a library with inputs that are set and outputs that are got. */
#include "worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------- */

/* The number of an input or output, which is given by that or its name. */
static bool index_of(const object *self, const char *role, const value *v, int64_t *index) {
    const smelt_model_info *info = self->frame.library->info;
    bool in = *role == 'i';
    const smelt_tensor_info *known = in ? info->inputs : info->outputs;
    int64_t count = in ? info->input_count : info->output_count;
    if (v != NULL && json_whole(v->at, index) && *index >= 0 && *index < count)
        return true;
    for (*index = 0; v != NULL && *index < count; ++*index)
        if (json_is(v->at, known[*index].name))
            return true;
    text t = {0};
    add_listing(&t, info, known, count);
    fail("InputError", "%s: no %s %s\n  %ss: %s", info->name, role, json_shown(v ? v->at : NULL), role,
         t.data == NULL ? "none" : t.data);
    text_free(&t);
    return false;
}

static bool add_number(call *c, int64_t number) {
    text_add(&c->made, "%" PRId64, number);
    return true;
}

static bool one_index(object *self, call *c, const char *role, int64_t *index) {
    return index_of(self, role, take(c, *role == 'i' ? "name" : "index"), index) &&
           all_taken(c, role);
}

static bool get_input_index(object *self, call *c) {
    int64_t i;
    return one_index(self, c, "input", &i) && add_number(c, i);
}

static bool get_output_index(object *self, call *c) {
    int64_t i;
    return one_index(self, c, "output", &i) && add_number(c, i);
}

static bool get_input_name(object *self, call *c) {
    int64_t i;
    if (!one_index(self, c, "input", &i))
        return false;
    text_quote(&c->made, self->frame.library->info->inputs[i].name);
    return true;
}

static bool get_output_name(object *self, call *c) {
    int64_t i;
    if (!one_index(self, c, "output", &i))
        return false;
    text_quote(&c->made, self->frame.library->info->outputs[i].name);
    return true;
}

static bool get_num_inputs(object *self, call *c) {
    return all_taken(c, "get_num_inputs") && add_number(c, self->frame.library->info->input_count);
}

static bool get_num_outputs(object *self, call *c) {
    return all_taken(c, "get_num_outputs") && add_number(c, self->frame.library->info->output_count);
}

static bool get_input_info(object *self, call *c) {
    const smelt_model_info *info = self->frame.library->info;
    text *t = &c->made;
    text_add(t, "{\"$\": \"tuple\", \"items\": [");
    for (int pass = 0; pass < 2; pass++) {
        text_add(t, "%s{\"$\": \"dict\", \"items\": {", pass > 0 ? ", " : "");
        for (int64_t i = 0; i < info->input_count; i++) {
            const smelt_tensor_info *input = &info->inputs[i];
            text_add(t, i > 0 ? ", " : "");
            text_quote(t, input->name);
            text_add(t, pass > 0 ? ": \"%s\"" : ": {\"$\": \"tuple\", \"items\": [",
                     smelt_dtype_name(input->dtype));
            for (int32_t d = 0; pass == 0 && d < input->rank; d++) {
                text_add(t, d > 0 ? ", " : "");
                if (input->shape[d] >= 0)
                    text_add(t, "%" PRId64, input->shape[d]);
                else
                    text_quote(t, info->symbols[~input->shape[d]]);
            }
            text_add(t, pass == 0 ? "]}" : "");
        }
        text_add(t, "}}");
    }
    text_add(t, "]}");
    return all_taken(c, "get_input_info");
}

/* ---- running ----------------------------------------------------------------------------------- */

/* Sets the inputs that are left in a call by their names. */
static bool set_named(object *self, call *c) {
    int64_t index;
    for (int64_t i = c->unnamed; i < c->count; i++) {
        value *v = &c->values[i];
        const value name = {.at = v->name};
        if (v->name == NULL)
            continue;
        if (!index_of(self, "input", &name, &index) || !frame_set(&self->frame, index, v))
            return false;
        v->name = NULL;
    }
    return all_taken(c, self->frame.library->info->name);
}

static bool none(call *c) {
    text_add(&c->made, "null");
    return true;
}

static bool set_input(object *self, call *c) {
    int64_t index;
    const value *key = take(c, "key");
    value *given = take(c, "value");
    if (key != NULL && *key->at != 'n') {
        if (!index_of(self, "input", key, &index))
            return false;
        if (given == NULL)
            return fail("InputError", "set_input: a value is needed");
        if (!frame_set(&self->frame, index, given))
            return false;
    }
    return set_named(self, c) && none(c);
}

frame *executor_frame(object *self) {
    const smelt_model_info *info = self->frame.library->info;
    for (int64_t i = 0; i < info->input_count; i++)
        if (self->frame.inputs[i].data == NULL) {
            fail("InputError", "%s: run: these inputs were never set: %s", info->name,
                 info->inputs[i].name);
            return NULL;
        }
    return &self->frame;
}

static bool run(object *self, call *c) {
    if (!set_named(self, c) || executor_frame(self) == NULL || !frame_run(&self->frame))
        return false;
    self->ran = true;
    return none(c);
}

static bool get_output(object *self, call *c) {
    int64_t i;
    if (!one_index(self, c, "output", &i))
        return false;
    if (!self->ran || !self->frame.bound)
        return fail("InputError", "%s: get_output before run()", self->frame.library->info->name);
    add_array(c, &c->made, &self->frame.outputs[i]);
    return true;
}

static bool get_input(object *self, call *c) {
    int64_t i;
    if (!index_of(self, "input", take(c, "index"), &i) || !all_taken(c, "get_input"))
        return false;
    smelt_tensor *mine = &self->frame.inputs[i];
    const smelt_tensor_info *input = &self->frame.library->info->inputs[i];
    if (mine->data == NULL) {
        smelt_tensor fixed = {NULL, input->rank, (int64_t *)(uintptr_t)input->shape, input->dtype};
        int64_t bytes = bytes_of(&fixed);
        if (bytes < 0)
            return fail("InputError", "%s: input '%s' has no fixed size; set it first",
                        self->frame.library->info->name, input->name);
        if ((mine->data = smelt_alloc(bytes)) == NULL)
            return no_memory("an input", (uint64_t)bytes);
        memset(mine->data, 0, (size_t)bytes);
        memcpy(mine->shape, input->shape, (size_t)input->rank * sizeof *mine->shape);
    }
    add_array(c, &c->made, mine);
    return true;
}

/* ---- measuring --------------------------------------------------------------------------------- */

typedef struct whole {
    object *self;
    call *call;
    int64_t first; /* of the values that are inputs */
} whole;

/* Runs with copies of the inputs that are given in, and of all outputs out. */
static bool time_whole(void *what, int64_t number, double *milliseconds) {
    const whole *w = what;
    frame *f = &w->self->frame;
    int64_t start = now(), index;
    for (int64_t n = 0; n < number; n++) {
        for (int64_t i = w->first; i < w->call->count; i++) {
            const value name = {.at = w->call->values[i].name};
            if (name.at != NULL && (!index_of(w->self, "input", &name, &index) ||
                                    !frame_set(f, index, &w->call->values[i])))
                return false;
        }
        if (executor_frame(w->self) == NULL || !frame_run(f))
            return false;
        for (int64_t i = 0; i < f->library->info->output_count; i++) {
            size_t bytes = (size_t)bytes_of(&f->outputs[i]);
            void *copy = malloc(bytes + 1);
            if (copy == NULL)
                return no_memory("a result", bytes);
            memcpy(copy, f->outputs[i].data, bytes);
            free(copy);
        }
    }
    *milliseconds = (double)(now() - start) / (double)number / 1e6;
    return true;
}

static bool benchmark(object *self, call *c) {
    static const char who[] = "benchmark";
    timing how = {.number = 5, .repeat = 5, .cooldown_every = 1};
    double milliseconds;
    if (!take_device(c, "device"))
        return false;
    const value *name = take(c, "func_name"), *whole_too;
    if (name != NULL && !json_is(name->at, "run"))
        return fail("InputError", "benchmark: func_name=%s; only 'run' can be timed",
                    json_shown(name->at));
    if (!take_whole(c, who, "repeat", 1, &how.repeat) || !take_whole(c, who, "number", 1, &how.number) ||
        !take_number(c, who, "min_repeat_ms", &how.least_ms))
        return false;
    take(c, "limit_zero_time_iterations");
    whole_too = take(c, "end_to_end");
    if (!take_number(c, who, "cooldown_interval_ms", &how.cooldown_ms) ||
        !take_whole(c, who, "repeats_to_cooldown", 1, &how.cooldown_every))
        return false;
    whole all = {self, c, c->unnamed};
    if (!time_whole(&all, 1, &milliseconds))
        return false;
    self->ran = true;
    if (whole_too != NULL && *whole_too->at == 't')
        return add_evaluation(c, &how, time_whole, &all);
    return add_evaluation(c, &how, frame_time, &self->frame);
}

/* ---- the virtual machine ----------------------------------------------------------------------- */

static bool takes_main(call *c) {
    const value *name = take(c, "func_name");
    return (name != NULL && json_is(name->at, "main")) ||
           fail("InputError", "the server in C runs the function main alone");
}

static bool machine_set(object *self, call *c) {
    const smelt_model_info *info = self->frame.library->info;
    if (!takes_main(c))
        return false;
    for (int64_t i = 0; i < info->input_count; i++) {
        value *v = take(c, info->inputs[i].name);
        if (v == NULL)
            return fail("InputError", "%s: input '%s' is missing", info->name, info->inputs[i].name);
        if (!frame_set(&self->frame, i, v))
            return false;
    }
    return all_taken(c, info->name) && none(c);
}

/* A call on the arguments that are given, or on those that were set. */
static bool prepare(object *self, call *c) {
    const smelt_model_info *info = self->frame.library->info;
    bool given = any_left(c);
    self->ran = false;
    frame_free(&self->last);
    if (!frame_make(&self->last, self->frame.library))
        return false;
    if (given)
        return frame_borrow(&self->last, c);
    if (executor_frame(self) == NULL)
        return false;
    for (int64_t i = 0; i < info->input_count; i++) {
        const smelt_tensor *mine = &self->frame.inputs[i];
        self->last.inputs[i].data = mine->data;
        memcpy(self->last.inputs[i].shape, mine->shape, (size_t)mine->rank * sizeof *mine->shape);
    }
    return true;
}

static bool invoked(object *self, call *c) {
    self->ran = prepare(self, c) && all_taken(c, "invoke") && frame_run(&self->last);
    return self->ran;
}

static bool add_values(object *self, call *c, const char *before, const char *after) {
    text_add(&c->made, "%s", before);
    for (int64_t i = 0; i < self->frame.library->info->output_count; i++) {
        text_add(&c->made, i > 0 ? ", " : "");
        add_array(c, &c->made, &self->last.outputs[i]);
    }
    text_add(&c->made, "%s", after);
    return true;
}

static bool run_main(object *self, call *c) {
    const char *program = json_get(self->frame.library->description, "program");
    const char *single = json_get(program, "single");
    if (!invoked(self, c))
        return false;
    return single != NULL && *single == 't'
               ? add_values(self, c, "", "")
               : add_values(self, c, "{\"$\": \"tuple\", \"items\": [", "]}");
}

static bool invoke(object *self, call *c) { return takes_main(c) && run_main(self, c); }

static bool invoke_stateful(object *self, call *c) {
    return takes_main(c) && invoked(self, c) && none(c);
}

static bool get_outputs(object *self, call *c) {
    if (!self->ran)
        return fail("InputError", "get_outputs before a call");
    return all_taken(c, "get_outputs") && add_values(self, c, "[", "]");
}

static bool machine_benchmark(object *self, call *c) {
    static const char who[] = "benchmark";
    int64_t repeat = 5, number = 5;
    if (!take_device(c, "device"))
        return false;
    int64_t inputs = c->next;
    c->next = c->unnamed; /* the others have to be named */
    const value *name = take(c, "func_name");
    if (name != NULL && !json_is(name->at, "main"))
        return fail("InputError", "the server in C runs the function main alone");
    if (!take_whole(c, who, "repeat", 1, &repeat) || !take_whole(c, who, "number", 1, &number))
        return false;
    c->next = inputs;
    self->ran = false;
    return prepare(self, c) && all_taken(c, who) &&
           add_benchmark(c, repeat, number, frame_time, &self->last);
}

/* ---- kinds ------------------------------------------------------------------------------------- */

static bool item(object *self, call *c) {
    const value *name = take(c, "name");
    return all_taken(c, "__getitem__") && add_method(c, self, name);
}

static bool read_module(object *self, call *c) { return add_object(c, attached(self)); }

static const method methods[] = {
    {"__getitem__", item},           {"benchmark", benchmark},
    {"get_input", get_input},        {"get_input_index", get_input_index},
    {"get_input_info", get_input_info}, {"get_input_name", get_input_name},
    {"get_num_inputs", get_num_inputs}, {"get_num_outputs", get_num_outputs},
    {"get_output", get_output},      {"get_output_index", get_output_index},
    {"get_output_name", get_output_name}, {"run", run},
    {"set_input", set_input},        {NULL, NULL}};
static const method facts[] = {{"module", read_module}, {NULL, NULL}};
static const method machine_methods[] = {
    {"benchmark", machine_benchmark}, {"get_outputs", get_outputs}, {"invoke", invoke},
    {"invoke_stateful", invoke_stateful}, {"run", run_main}, {"set_input", machine_set}, {NULL, NULL}};
static const kind executors[] = {{"AotModule", methods, facts},
                                 {"GraphModule", methods, facts},
                                 {"VirtualMachine", machine_methods, facts + 1}};

object *make_executor(const char *name, object *library) {
    for (size_t i = 0; i < sizeof executors / sizeof *executors; i++) {
        if (strcmp(executors[i].name, name) != 0)
            continue;
        if (i < 2 ? !is_model(library) : !is_program(library)) {
            fail("InputError", "a %s is not made around a %s", name, library->kind->name);
            return NULL;
        }
        object *made = object_new(&executors[i], library);
        while (library->target != NULL)
            library = library->target;
        if (made != NULL && frame_make(&made->frame, library)) {
            made->frame.owns = true;
            made->frame.lends = i < 2;
            return made;
        }
        object_release(made);
        return NULL;
    }
    fail("RPCError", "%s: the server in C has none", name);
    return NULL;
}
