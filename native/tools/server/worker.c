/* worker.c: the process of a session in which libraries run: what it has, and what it is asked.
 *
 * It answers messages of its session over a pair of sockets, one after another. What cannot be sent
 * stays here, and gets a number.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static object **objects; /* that the client has handles of */
static int64_t object_count, next_number;

/* ---- objects ----------------------------------------------------------------------------------- */

object *object_new(const kind *kind, object *target) {
    object *made = calloc(1, sizeof *made);
    if (made == NULL) {
        no_memory("an object", sizeof *made);
        return NULL;
    }
    made->kind = kind;
    made->users = 1;
    made->target = target;
    if (target != NULL)
        target->users++;
    return made;
}

void object_release(object *o) {
    if (o == NULL || --o->users > 0)
        return;
    frame_free(&o->frame);
    frame_free(&o->last);
    object_release(o->target);
    smelt_free(o->tensor.data);
    kernel_close(o->kernel);
    smelt_model_close(o->model);
    free(o->description);
    free(o);
}

object *object_find(const char *handle) {
    int64_t number = 0;
    json_whole(json_get(handle, "number"), &number);
    for (int64_t i = 0; i < object_count; i++)
        if (objects[i]->number == number)
            return objects[i];
    fail("RPCError", "there is no object %" PRId64 " in this session", number);
    return NULL;
}

bool add_object(call *c, object *o) {
    if (o == NULL)
        return false;
    if (o->handles == 0) {
        object **more = realloc(objects, ((size_t)object_count + 1) * sizeof *more);
        if (more == NULL) {
            object_release(o);
            return no_memory("objects", (uint64_t)object_count);
        }
        objects = more;
        objects[object_count++] = o;
        if (o->number == 0)
            o->number = next_number++;
    }
    o->handles++;
    text_add(&c->made, "{\"$\": \"object\", \"number\": %" PRId64 ", \"kind\": \"%s\", \"methods\": [",
             o->number, o->kind->name);
    for (const method *m = o->kind->methods; m->name != NULL; m++)
        text_add(&c->made, "%s\"%s\"", m == o->kind->methods ? "" : ", ", m->name);
    text_add(&c->made, "], \"facts\": [");
    for (const method *m = o->kind->facts; m->name != NULL; m++)
        text_add(&c->made, "%s\"%s\"", m == o->kind->facts ? "" : ", ", m->name);
    text_add(&c->made, "]}");
    return true;
}

static void forget(object *o) {
    if (--o->handles == 0)
        for (int64_t i = 0; i < object_count; i++)
            if (objects[i] == o) {
                objects[i] = objects[--object_count];
                break;
            }
    object_release(o);
}

/* ---- what is asked ----------------------------------------------------------------------------- */

static bool load(call *c, const char *message, const char *folder) {
    char name[256], path[FOLDER_ROOM + 256];
    if (!json_text(json_get(message, "path"), name, sizeof name) || strchr(name, '/') != NULL)
        return fail("LoadError", "cannot load a file with such a name");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return add_object(c, load_library(path));
}

/* A method of a name, or a fact. */
static const method *found(const method *rows, const char *name) {
    for (; rows->name != NULL; rows++)
        if (json_is(name, rows->name))
            return rows;
    return NULL;
}

static bool call_method(call *c, const char *message, bool read) {
    const char *name = json_get(message, "name"), *on = json_get(message, "object");
    object *o = on == NULL ? NULL : object_find(on);
    if (name == NULL || *name != '"' || on == NULL)
        return fail("RPCError", "a message that asks for nothing: no object, or no name");
    if (o == NULL)
        return false;
    const method *m = found(read ? o->kind->facts : o->kind->methods, name);
    if (m == NULL)
        return fail("RPCError", "%s of a %s: the server in C has none", json_shown(name),
                    o->kind->name);
    return (read || call_decode(c, json_get(message, "args"), json_get(message, "named"))) &&
           m->run(o, c);
}

static bool make(call *c, const char *message) {
    char kind[64];
    if (!json_text(json_get(message, "kind"), kind, sizeof kind) ||
        !call_decode(c, json_get(message, "args"), NULL))
        return fail("RPCError", "a message that asks for nothing: no kind, or no arguments");
    value *library = take(c, "module");
    if (library == NULL || library->object == NULL)
        return fail("RPCError", "%s is made around a library", kind);
    for (value *v; (v = take(c, "device")) != NULL;)
        if (!v->is_device || v->number != 0)
            return fail("InputError", "%s: only cpu(0) is there", kind);
    return add_object(c, make_executor(kind, library->object));
}

static bool answer(call *c, const char *message, const char *folder) {
    const char *what = json_get(message, "do");
    if (json_is(what, "load"))
        return load(c, message, folder);
    if (json_is(what, "call") || json_is(what, "read"))
        return call_method(c, message, json_is(what, "read"));
    if (json_is(what, "make"))
        return make(c, message);
    if (json_is(what, "forget")) {
        object *o = object_find(message);
        if (o != NULL)
            forget(o);
        text_add(&c->made, "null");
        return true;
    }
    if (json_is(what, "array"))
        return add_object(c, array_new(message));
    if (json_is(what, "fill")) {
        const char *on = json_get(message, "array");
        object *o = on == NULL ? NULL : object_find(on);
        text_add(&c->made, "null");
        return on == NULL ? fail("RPCError", "a message that asks for nothing: no array")
                          : o != NULL && array_fill(o, c);
    }
    if (json_is(what, "kernel"))
        return add_object(c, kernel_new(message, c));
    if (json_is(what, "time"))
        return kernel_time(c, message);
    return fail("RPCError", "nobody knows how to do %s", json_shown(what));
}

static void serve_one(channel *server, const char *message, char *data, uint64_t left,
                      const char *folder) {
    call c = {.data = data, .left = left};
    text all = {0};
    bool done = answer(&c, message, folder);
    if (done) {
        text_add(&all, "{\"value\": ");
        text_join(&all, &c.made);
        if (c.written.size > 0) {
            text_add(&all, ", \"written\": ");
            text_join(&all, &c.written);
        }
        text_add(&all, "}");
        if (all.failed || all.size > MOST_TEXT)
            done = no_memory("an answer", all.size);
    }
    if (!done)
        channel_error(server);
    else
        channel_send_all(server, all.data, all.size, c.pieces, c.piece_count);
    text_free(&all);
    call_free(&c);
}

void serve_worker(int end, const char *folder) {
    channel server = {.end = end, .stop = -1, .asker = -1, .peer = "the server"};
    size_t size;
    uint64_t left;
    char start[33];
    /* numbers of a process that has crashed mean nothing in the next one */
    if (!random_number(start) || chdir(folder) != 0)
        exit(1);
    start[8] = '\0';
    next_number = (int64_t)strtoul(start, NULL, 16) << 16 | 1;
    while (server.over == OPEN && channel_head(&server, MOST_TEXT, MOST_DATA, &size, &left)) {
        char *message = channel_take(&server, size), *data = NULL;
        if (message == NULL)
            break;
        if ((data = channel_take(&server, left)) == NULL)
            channel_error(&server); /* there was no memory for it, or there is nobody */
        else
            serve_one(&server, message, data, left, folder);
        free(data);
        free(message);
    }
    while (object_count > 0)
        forget(objects[0]);
    free(objects);
    exit(0);
}
