/* worker.h: what the process has in which libraries run: objects, and calls of their methods. */
#ifndef SMELT_WORKER_H
#define SMELT_WORKER_H

#include "server.h"

#include "../library.h"

#define MOST_RANK 16
#define MOST_VALUES 4096

typedef struct object object;

/* ---- values.c ---------------------------------------------------------------------------------- */

/* An argument of a call. */
typedef struct value {
    const char *name; /* where its name stands in the message; NULL: it has none, or was taken */
    const char *at;   /* where it stands itself */
    bool is_array, is_device;
    smelt_tensor tensor;      /* of an array; its shape follows */
    int64_t shape[MOST_RANK];
    object *object;
    void *own;      /* memory of an array that came at an address that is no multiple of 8 */
    int64_t number; /* of a device; a number as an element */
} value;

/* What is asked for, and what is answered. */
typedef struct call {
    value *values; /* those without a name first */
    int64_t count, unnamed, next;
    char *data; /* of the message; `left` bytes belong to arrays that are yet to come */
    uint64_t left;
    text made, written;
    struct iovec *pieces;
    int piece_count;
    struct frame *frame; /* whose memory the pieces are */
} call;

bool call_decode(call *c, const char *args, const char *named);
void call_free(call *c);
/* The next argument by position, or the one of this name; NULL: it is not given. */
value *take(call *c, const char *name);
bool take_whole(call *c, const char *who, const char *name, int64_t least, int64_t *number);
bool take_number(call *c, const char *who, const char *name, double *number);
bool take_device(call *c, const char *name); /* the processor, or nothing */
bool any_left(const call *c);
/* Whether all arguments were taken. */
bool all_taken(call *c, const char *who);

int64_t bytes_of(const smelt_tensor *t); /* -1: they mean nothing */
void add_array(call *c, text *into, const smelt_tensor *t);
void add_shape(text *t, int64_t rank, const int64_t *shape);
/* A value as an input; what the model says of it is checked. */
bool fit(const smelt_model_info *info, int64_t input, value *v, smelt_tensor *into);
/* The element type and the shape of an array in a message. */
bool describe_tensor(const char *at, smelt_tensor *t, int64_t shape[MOST_RANK]);

/* ---- description.c ----------------------------------------------------------------------------- */

/* The description at the end of a library's file, a checked text, freed by the caller. */
char *read_description(const char *path, uint64_t *id);
/* Inputs or outputs as they are described. */
void add_infos(text *t, const char *description, const char *role);
/* The inputs or outputs for a message. */
void add_listing(text *t, const smelt_model_info *info, const smelt_tensor_info *tensors,
                 int64_t count);

/* ---- objects ----------------------------------------------------------------------------------- */

typedef struct method {
    const char *name;
    bool (*run)(object *self, call *c);
} method;

/* What may be called and read of some objects; both end with a row without a name. */
typedef struct kind {
    const char *name;
    const method *methods, *facts;
} kind;

/* The tensors of calls of a library. */
typedef struct frame {
    object *library;
    smelt_tensor *inputs, *outputs;
    int64_t *extents; /* the shapes of all of them */
    bool owns;        /* the inputs' memory */
    bool lends;       /* outputs may be inputs updated in place */
    bool bound;       /* outputs are what the inputs' shapes need */
} frame;

typedef struct timing {
    int64_t number, repeat, cooldown_every, flush_bytes;
    double least_ms, cooldown_ms;
} timing;

struct object {
    const kind *kind;
    int64_t number;      /* in messages */
    int users, handles;  /* who needs it; how many of these are the client */
    object *target;      /* what it belongs to; NULL: it is a library */
    const method *named; /* of a method */
    smelt_model *model;
    const smelt_model_info *info;
    char *description;
    frame frame, last; /* of an executor, and of its last call */
    bool ran;
    timing timing;
    smelt_tensor tensor; /* of an array that stays here */
    int64_t shape[MOST_RANK];
    smelt_kernel *kernel;
};

object *object_new(const kind *kind, object *target);
void object_release(object *o);
/* Adds the handle of an object, whose user is the client from now on instead of the caller. */
bool add_object(call *c, object *o);
object *object_find(const char *handle);

/* ---- frames.c ---------------------------------------------------------------------------------- */

bool frame_make(frame *f, object *library);
void frame_free(frame *f);
/* Copies a value into memory of the frame's own. */
bool frame_set(frame *f, int64_t input, value *v);
/* Takes all inputs from a call, whose memory they stay. */
bool frame_borrow(frame *f, call *c);
bool frame_run(frame *f);
/* A frame of a call, as long as that; NULL: there is no memory. */
frame *call_frame(call *c, object *library);

/* ---- timing.c ---------------------------------------------------------------------------------- */

/* Gives the milliseconds of a run, over so many. */
typedef bool (*timed)(void *what, int64_t number, double *milliseconds);
bool frame_time(void *frame, int64_t number, double *milliseconds);
/* Adds the times of runs in seconds: a TimeEvaluation. */
bool add_evaluation(call *c, const timing *how, timed run, void *what);
/* Adds the times in milliseconds: a BenchmarkResult. number 0: as many as take some. */
bool add_benchmark(call *c, int64_t repeat, int64_t number, timed run, void *what);
/* The arguments of time_evaluator from `number` on. */
bool take_timing(call *c, timing *how);

/* ---- profile.c --------------------------------------------------------------------------------- */

/* Adds the times of a model's kernels in some runs. */
bool add_profile(call *c, frame *f, int64_t repeat);

/* ---- arrays.c, kernels.c ------------------------------------------------------------------------ */

/* An array of zeros that stays here, from the message that asks for it. */
object *array_new(const char *message);
bool is_array(const object *o);
/* Fills an array with the data of a call, again and again. */
bool array_fill(object *o, const call *c);
/* A candidate of tuning, from a library that is the data of a call. */
object *kernel_new(const char *message, const call *c);
/* Adds the seconds of calls of a candidate. */
bool kernel_time(call *c, const char *message);

/* ---- libraries.c, executors.c -------------------------------------------------------------------- */

object *load_library(const char *path);
/* An executor of this kind around a library. */
object *make_executor(const char *kind, object *library);
/* The executor's library, as it belongs to the executor. */
object *attached(object *executor);
/* Whether an object is a model that runs straight through, or a program that decides. */
bool is_model(const object *o);
bool is_program(const object *o);
/* Adds a method as a value; given: its name. */
bool add_method(call *c, object *o, const value *given);
/* The runs of an executor, on the inputs that were set. */
frame *executor_frame(object *executor);

#endif
