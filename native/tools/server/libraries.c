/* libraries.c: what a library can do: models, programs that decide, functions on tensors. */
#include "worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const method nothing[] = {{NULL, NULL}};

/* The library of an object, and the executor whose part it is. */
static object *library_of(object *o) {
    while (o->target != NULL)
        o = o->target;
    return o;
}

static bool takes(const value *v, const char *name) { return v == NULL || json_is(v->at, name); }

static bool no_function(const object *library, const value *given) {
    return fail("InputError", "%s: no function %s; functions: default", library->info->name,
                json_shown(given->at));
}

/* ---- methods as values ------------------------------------------------------------------------- */

static bool call_bound(object *self, call *c) { return self->named->run(self->target, c); }

static const kind bound_method = {"method", (const method[]){{"__call__", call_bound}, {NULL, NULL}},
                                  nothing};

bool add_method(call *c, object *o, const value *given) {
    for (const method *m = o->kind->methods; m->name != NULL; m++)
        if (given != NULL && json_is(given->at, m->name)) {
            object *made = object_new(&bound_method, o);
            if (made != NULL)
                made->named = m;
            return add_object(c, made);
        }
    return given == NULL ? fail("InputError", "a name is needed")
                         : no_function(library_of(o), given);
}

/* ---- calling ----------------------------------------------------------------------------------- */

/* The results of a program are one after another what its outputs are made of. */
static bool add_outputs(call *c, const frame *f) {
    const smelt_model_info *info = f->library->info;
    const char *groups = json_get(f->library->description, "groups"), *group = NULL, *none;
    bool grouped = groups != NULL && json_member(groups, NULL, &none) != NULL;
    for (int64_t i = 0; grouped || i < info->output_count;) {
        int64_t items = -1;
        bool first = group == NULL && i == 0;
        if (grouped && (group = json_member(groups, group, &none)) == NULL)
            break;
        if ((grouped && !json_whole(group, &items)) || items < -2 ||
            items > info->output_count - i || (items == -1 && i == info->output_count))
            return fail("RuntimeFailure", "%s: its metadata is damaged", info->name);
        text_add(&c->made, "%s%s", first ? "" : ", ", items >= 0 ? "[" : items == -2 ? "null" : "");
        for (int64_t k = 0; k < (items == -1 ? 1 : items); k++) {
            text_add(&c->made, k > 0 ? ", " : "");
            add_array(c, &c->made, &f->outputs[i++]);
        }
        text_add(&c->made, items >= 0 ? "]" : "");
    }
    return true;
}

static bool add_results(call *c, const frame *f) {
    const char *outputs = json_get(f->library->description, "outputs"), *none;
    const char *one = outputs == NULL ? NULL : json_member(outputs, NULL, &none);
    if (one != NULL && json_member(outputs, one, &none) == NULL)
        return add_outputs(c, f);
    text_add(&c->made, "{\"$\": \"results\", \"items\": [");
    if (!add_outputs(c, f))
        return false;
    text_add(&c->made, "], \"names\": [");
    for (const char *m = NULL; outputs != NULL && (m = json_member(outputs, m, &none)) != NULL;) {
        const char *name = json_get(m, "name");
        text_add(&c->made, m == one ? "" : ", ");
        text_json(&c->made, name == NULL ? "\"\"" : name);
    }
    text_add(&c->made, "]}");
    return true;
}

static bool call_model(object *self, call *c) {
    object *library = library_of(self);
    frame *f = call_frame(c, library);
    if (f == NULL)
        return false;
    f->lends = true;
    return frame_borrow(f, c) && all_taken(c, library->info->name) && frame_run(f) &&
           add_results(c, f);
}

static bool benchmark(object *self, call *c) {
    int64_t repeat = 10, number = 0;
    frame *f = call_frame(c, library_of(self));
    if (f == NULL)
        return false;
    f->lends = true;
    return frame_borrow(f, c) && take_whole(c, "benchmark", "repeat", 1, &repeat) &&
           take_whole(c, "benchmark", "number", 1, &number) && all_taken(c, "benchmark") &&
           add_benchmark(c, repeat, number, frame_time, f);
}

static bool profile(object *self, call *c) {
    int64_t repeat = 10;
    frame *f = call_frame(c, library_of(self));
    if (f == NULL)
        return false;
    f->lends = true;
    return frame_borrow(f, c) && take_whole(c, "profile", "repeat", 1, &repeat) &&
           all_taken(c, "profile") && add_profile(c, f, repeat);
}

/* lib["default"](device) is the library itself. */
static bool on_device(object *self, call *c) {
    if (!take_device(c, "device") || !all_taken(c, "default"))
        return false;
    self->users++;
    return add_object(c, self);
}

static const kind creator = {"method", (const method[]){{"default", on_device}, {NULL, NULL}},
                             nothing};

static bool item(object *self, call *c) {
    const value *name = take(c, "name");
    object *library = library_of(self);
    if (!all_taken(c, "__getitem__"))
        return false;
    if (name == NULL)
        return fail("InputError", "a name is needed");
    if (!json_is(name->at, "default") && !json_is(name->at, library->info->name))
        return self == library ? no_function(library, name) : add_method(c, self->target, name);
    object *made = object_new(&bound_method, self);
    if (made != NULL)
        made->named = creator.methods;
    return add_object(c, made);
}

/* ---- functions on tensors ---------------------------------------------------------------------- */

static int64_t input_of(const smelt_model_info *info, const char *name) {
    for (int64_t i = 0; i < info->input_count; i++)
        if (json_is(name, info->inputs[i].name))
            return i;
    return -1;
}

/* Whether the arrays have a size, as it was given, too. */
static bool check_size(const frame *f, const char *name, const value *v) {
    const smelt_model_info *info = f->library->info;
    int64_t size = -1;
    for (int64_t i = 0; i < info->input_count; i++)
        for (int32_t d = 0; d < info->inputs[i].rank; d++) {
            int64_t dim = info->inputs[i].shape[d];
            if (dim >= 0 || dim == SMELT_COMPUTED_DIM || !json_is(name, info->symbols[~dim]))
                continue;
            if (!json_whole(v->at, &size) || size != f->inputs[i].shape[d])
                return fail("InputError", "%s: the size %s is given as %s, but the arrays' shapes say %"
                            PRId64, info->name, json_shown(name), json_shown(v->at),
                            f->inputs[i].shape[d]);
        }
    return true;
}

/* The arguments of a function in its order; sizes may all be left out. Then what it writes. */
static bool borrow_parameters(frame *f, call *c, bool write) {
    const smelt_model_info *info = f->library->info;
    const char *names = json_get(f->library->description, "parameters"), *none;
    const char *written = json_get(f->library->description, "written");
    if (names == NULL || c->unnamed != c->count ||
        (c->unnamed != json_count(names) && c->unnamed != info->input_count))
        return fail("InputError", "%s: %" PRId64 " arguments given, %" PRId64 " needed", info->name,
                    c->count, info->input_count);
    for (int pass = 0; pass < (write ? 3 : 2); pass++) {
        value *v = c->values;
        for (const char *m = NULL; (m = json_member(names, m, &none)) != NULL;) {
            int64_t input = input_of(info, m);
            if (input < 0 && c->unnamed == info->input_count)
                continue;
            if (pass == 0 && input >= 0 && !fit(info, input, v, &f->inputs[input]))
                return false;
            if (pass == 1 && input < 0 && !check_size(f, m, v))
                return false;
            bool out = false;
            for (const char *w = NULL; pass == 2 && written && (w = json_member(written, w, &none));)
                out |= v->object == NULL && input >= 0 && json_is(w, info->inputs[input].name);
            if (pass == 2)
                text_add(&c->written, "%s%s", v == c->values ? "[" : ", ", out ? "" : "null");
            if (out)
                add_array(c, &c->written, &f->inputs[input]);
            v++;
        }
    }
    c->next = c->unnamed;
    text_add(&c->written, write ? "]" : "");
    return true;
}

static bool call_function(object *self, call *c) {
    frame *f = call_frame(c, library_of(self));
    if (f == NULL || !borrow_parameters(f, c, true) || !frame_run(f))
        return false;
    text_add(&c->made, "null");
    return true;
}

/* ---- timing ------------------------------------------------------------------------------------ */

static const kind attached_kind, module;

static bool evaluate(object *self, call *c) {
    object *library = library_of(self);
    frame *f;
    double milliseconds;
    if (self->target->kind == &attached_kind && c->count == 0) {
        if ((f = executor_frame(self->target->target)) == NULL)
            return false;
    } else {
        if ((f = call_frame(c, library)) == NULL)
            return false;
        f->lends = true;
        bool tensors = library->kind == &module;
        if (!(tensors ? borrow_parameters(f, c, false) : frame_borrow(f, c)) ||
            !all_taken(c, library->info->name))
            return false;
    }
    return frame_time(f, 1, &milliseconds) && add_evaluation(c, &self->timing, frame_time, f);
}

static const kind timer = {"function", (const method[]){{"__call__", evaluate}, {NULL, NULL}},
                           nothing};

static bool make_timer(object *self, call *c, const value *name) {
    object *library = library_of(self), *made;
    timing how;
    if (!takes(name, "run") && !takes(name, "default") && !takes(name, library->info->name))
        return no_function(library, name);
    if (!take_device(c, "dev") || !take_timing(c, &how) || (made = object_new(&timer, self)) == NULL)
        return false;
    made->timing = how;
    return add_object(c, made);
}

static bool time_evaluator(object *self, call *c) { return make_timer(self, c, take(c, "func_name")); }

static bool time_function(object *self, call *c) { return make_timer(self, c, NULL); }

/* ---- facts ------------------------------------------------------------------------------------- */

static bool read_name(object *self, call *c) {
    text_quote(&c->made, library_of(self)->info->name);
    return true;
}

static bool read_inputs(object *self, call *c) {
    add_infos(&c->made, library_of(self)->description, "inputs");
    return true;
}

static bool read_outputs(object *self, call *c) {
    add_infos(&c->made, library_of(self)->description, "outputs");
    return true;
}

/* ---- kinds ------------------------------------------------------------------------------------- */

static const method facts[] = {
    {"name", read_name}, {"inputs", read_inputs}, {"outputs", read_outputs}, {NULL, NULL}};
static const method model_methods[] = {{"__call__", call_model},   {"__getitem__", item},
                                       {"benchmark", benchmark},   {"get_function", item},
                                       {"profile", profile},
                                       {"time_evaluator", time_evaluator}, {NULL, NULL}};
static const kind model = {"NativeExecutable", model_methods, facts};
static const kind attached_kind = {"NativeExecutable", model_methods, facts};
static const kind decides = {
    "VMExecutable",
    (const method[]){{"__call__", call_model}, {"benchmark", benchmark}, {NULL, NULL}}, facts};
static const kind function = {
    "TensorFunction",
    (const method[]){{"__call__", call_function}, {"time_evaluator", time_function}, {NULL, NULL}},
    facts};

static bool function_of(object *self, call *c) {
    const value *name = take(c, "name");
    if (!all_taken(c, "get_function"))
        return false;
    if (name == NULL)
        return fail("InputError", "a name is needed");
    if (!json_is(name->at, "default") && !json_is(name->at, self->info->name))
        return no_function(self, name);
    return add_object(c, object_new(&function, self));
}

static const kind module = {"Module",
                            (const method[]){{"__call__", call_function},
                                             {"__getitem__", function_of},
                                             {"get_function", function_of},
                                             {"time_evaluator", time_evaluator},
                                             {NULL, NULL}},
                            (const method[]){{"entry_name", read_name}, {NULL, NULL}}};

object *attached(object *executor) { return object_new(&attached_kind, executor); }

bool is_model(const object *o) { return o->kind == &model || o->kind == &attached_kind; }

bool is_program(const object *o) { return o->kind == &decides; }

/* ---- loading ----------------------------------------------------------------------------------- */

static bool check(const object *o, uint64_t id, const char *path) {
    const char *states = json_get(o->description, "states"), *none;
    if (o->model == NULL)
        return fail("LoadError", "cannot load %s: %s", path, smelt_last_error());
    if (o->info->id != id)
        return fail("LoadError", "cannot load %s: its code and its constants do not belong together",
                    path);
    if (states != NULL && json_member(states, NULL, &none) != NULL)
        return fail("LoadError", "cannot load %s: it keeps values from call to call, and the server "
                    "in C does not", path);
    for (int64_t i = 0; i < o->info->input_count; i++)
        for (int32_t d = 0; d < o->info->inputs[i].rank; d++)
            if (o->info->inputs[i].shape[d] == SMELT_COMPUTED_DIM)
                return fail("LoadError", "cannot load %s: a size of input '%s' is computed from others, "
                            "which the server in C does not check", path, o->info->inputs[i].name);
    return true;
}

object *load_library(const char *path) {
    uint64_t id = 0;
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".tar") == 0) {
        fail("LoadError", "cannot load %s: it holds objects, and the server in C links none; export a "
             "shared library: model.so", path);
        return NULL;
    }
    char *description = read_description(path, &id);
    if (description == NULL)
        return NULL;
    const char *what = json_get(description, "kind");
    object *made = object_new(json_is(what, "program") ? &module
                              : json_is(what, "vm")    ? &decides
                                                       : &model, NULL);
    if (made == NULL) {
        free(description);
        return NULL;
    }
    made->description = description;
    made->model = library_open(path, &made->info);
    if (check(made, id, path))
        return made;
    object_release(made);
    return NULL;
}
