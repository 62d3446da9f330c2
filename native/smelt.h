/* smelt.h: what a compiled smelt model and its host program agree on.
 *
 * A compiled model is two functions, smelt_entry and smelt_plan, and a blob of constants. The runtime
 * adds a thread pool, a loader that finds the constants at the tail of the library file, and checks.
 * Lengths are in elements unless the name says bytes. Functions return a smelt_status, 0 on success;
 * smelt_last_error() then has the text. All functions may be called from several threads at once.
 */
#ifndef SMELT_H
#define SMELT_H

#include <stddef.h>
#include <stdint.h>

#define SMELT_ABI_VERSION 6

#ifdef _WIN32
#define SMELT_API __declspec(dllexport)
#elif defined(__GNUC__) || defined(__clang__)
#define SMELT_API __attribute__((visibility("default")))
#else
#define SMELT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum smelt_status {
    SMELT_OK = 0,
    SMELT_FAILED = 1,        /* a kernel or task reported a failure */
    SMELT_NO_MEMORY = 2,     /* memory could not be allocated */
    SMELT_BAD_SHAPE = 3,     /* sizes that the model does not accept */
    SMELT_BAD_DTYPE = 4,     /* a tensor of another element type than the model's */
    SMELT_BAD_INDEX = 5,     /* an index tensor points outside of its operand */
    SMELT_BAD_ARGUMENT = 6,  /* a null pointer, a wrong count, ... */
    SMELT_BAD_FILE = 7,      /* the library's constants are missing or damaged */
    SMELT_CPU_LACKS = 8,     /* this CPU lacks a feature that the code was compiled for */
    SMELT_BAD_ABI = 9,       /* built for another version of this header */
    SMELT_UNSUPPORTED = 10,  /* the model needs something that this runtime does not have */
    SMELT_BAD_VALUE = 11,    /* a value that the run computed, and that means nothing */
    SMELT_CANCELLED = 12     /* whoever called does not want the result any more */
};

/* An element type is DLPack's type code and a width: float32 is SMELT_DTYPE(2, 32). An element of
 * fewer than 8 bits takes a byte, in which its bits are the low ones and the others 0. */
#define SMELT_DTYPE(code, bits) (((code) << 8) | (bits))
enum smelt_dtype {
    SMELT_BOOL = SMELT_DTYPE(6, 8),
    SMELT_INT8 = SMELT_DTYPE(0, 8),
    SMELT_INT16 = SMELT_DTYPE(0, 16),
    SMELT_INT32 = SMELT_DTYPE(0, 32),
    SMELT_INT64 = SMELT_DTYPE(0, 64),
    SMELT_UINT8 = SMELT_DTYPE(1, 8),
    SMELT_UINT16 = SMELT_DTYPE(1, 16),
    SMELT_UINT32 = SMELT_DTYPE(1, 32),
    SMELT_UINT64 = SMELT_DTYPE(1, 64),
    SMELT_FLOAT16 = SMELT_DTYPE(2, 16),
    SMELT_FLOAT32 = SMELT_DTYPE(2, 32),
    SMELT_FLOAT64 = SMELT_DTYPE(2, 64),
    SMELT_BFLOAT16 = SMELT_DTYPE(4, 16),
    SMELT_FLOAT8_E4M3FN = SMELT_DTYPE(10, 8),
    SMELT_FLOAT8_E4M3FNUZ = SMELT_DTYPE(11, 8),
    SMELT_FLOAT8_E5M2 = SMELT_DTYPE(12, 8),
    SMELT_FLOAT8_E5M2FNUZ = SMELT_DTYPE(13, 8),
    SMELT_FLOAT8_E8M0FNU = SMELT_DTYPE(14, 8),
    SMELT_FLOAT4_E2M1FN = SMELT_DTYPE(17, 4),
    SMELT_INT4 = SMELT_DTYPE(0, 4),
    SMELT_UINT4 = SMELT_DTYPE(1, 4),
    SMELT_INT2 = SMELT_DTYPE(0, 2),
    SMELT_UINT2 = SMELT_DTYPE(1, 2),
    SMELT_COMPLEX64 = SMELT_DTYPE(5, 64),
    SMELT_COMPLEX128 = SMELT_DTYPE(5, 128)
};

/* ---- what generated code calls ------------------------------------------------------------- */

/* One piece of a parallel loop; nonzero means failure. */
typedef int32_t (*smelt_task)(void *closure, int64_t index);

/* A part of a model that the host's own code runs. tensors: its inputs, then its outputs, row-major;
 * sizes: the symbolic dimensions that it mentions. Nonzero means failure. */
typedef int32_t (*smelt_external)(void *const *tensors, const int64_t *sizes);

/* What a program that decides while it runs asks of the runtime: see below. */
typedef struct smelt_services smelt_services;

/* What a model needs from its host. The order of the fields is part of the ABI: generated code
 * loads parallel_for at offset 8, probe_sink at 16, probe at 24, externals at 32 and services at 40
 * (with 8-byte pointers). */
typedef struct smelt_host {
    void *pool;
    /* Calls task(closure, i) once for every i in [0, count); returns the first nonzero status. */
    int32_t (*parallel_for)(void *pool, smelt_task task, void *closure, int64_t count);
    void *probe_sink;
    /* Called before and after each kernel; nonzero ends the run with that status. May be NULL. A
     * program that decides while it runs has further numbers behind those of its kernels, for turns
     * of loops and sides of branches. */
    int32_t (*probe)(void *probe_sink, int64_t kernel, int32_t is_end);
    /* One function for each part of the model that a user's own code runs; NULL: there are none,
     * and a model that needs some ends with SMELT_UNSUPPORTED. */
    const smelt_external *externals;
    /* Only programs that decide while they run use these; NULL: the runtime's own. */
    const smelt_services *services;
    /* Asked from time to time in loops: nonzero ends the run with SMELT_CANCELLED; may be NULL. */
    int32_t (*interrupted)(void);
    /* The most bytes that a run may hold at a time besides its inputs; 0: as many as there are. */
    int64_t most_bytes;
    /* The most turns of all its loops together; 0: any number. */
    int64_t most_turns;
} smelt_host;

/* ---- what generated code gives --------------------------------------------------------------- */

/* Runs the model. tensors: all inputs, then all outputs. sizes: the symbolic dimensions in order.
 * weights and workspace are aligned to 64 bytes. */
typedef int32_t (*smelt_entry_function)(const smelt_host *host, void *const *tensors,
                                        const int64_t *sizes, const void *weights,
                                        void *workspace);

/* Writes the dimensions of all outputs, one tensor after the other, and the workspace size. */
typedef int32_t (*smelt_plan_function)(const int64_t *sizes, int64_t *extents,
                                       int64_t *workspace_bytes);

/* ---- programs that decide while they run ----------------------------------------------------- */

/* A run of such a program, and a value of it: a tensor or a list. A run owns all of its values, and
 * frees them whichever way it ends. A function keeps values in slots, which count as users of them;
 * slots are numbered from 0, and one that is written gives up what it had. */
typedef struct smelt_run smelt_run;
typedef struct smelt_object smelt_object;

/* A function of a program. Its operands stand in slots of its caller, those with the numbers
 * args[0], args[1], ...; its result goes into the caller's slot `result`. */
typedef int32_t (*smelt_function)(smelt_run *run, smelt_object **caller, const int64_t *args,
                                  int64_t result);

/* All that a program may ask for; each may fail. The order of the fields is part of the ABI. */
struct smelt_services {
    /* Begins a function: `count` slots, the first of them with its operands; those that the caller
     * does not use any more are given by the complements of their slots. */
    int32_t (*enter)(smelt_run *run, smelt_object **slots, int64_t count, smelt_object **caller,
                     const int64_t *args, int64_t arg_count);
    /* Begins it again, with operands from its own slots: a turn of a loop. text: its name. */
    int32_t (*again)(smelt_run *run, smelt_object **slots, int64_t count, const int64_t *args,
                     int64_t arg_count, int64_t text);
    /* Ends it: its result goes to the caller. */
    int32_t (*leave)(smelt_run *run, smelt_object **slots, int64_t count, int64_t from,
                     smelt_object **caller, int64_t result);
    int32_t (*assign)(smelt_run *run, smelt_object **slots, int64_t to, int64_t from);
    int32_t (*release)(smelt_run *run, smelt_object **slots, int64_t from);
    int32_t (*constant)(smelt_run *run, smelt_object **slots, int64_t to, int64_t number);
    /* A tensor of one element as a number. */
    int32_t (*scalar)(smelt_run *run, smelt_object **slots, int64_t from, int64_t *value);
    /* A straight part of the program. places: the slots of its operands, then of its results; of an
     * operand that nobody reads afterwards the complement: it may be updated in place. */
    int32_t (*segment)(smelt_run *run, smelt_object **slots, const int64_t *places, int64_t number);
    /* Lists: their items in order. `append` changes the list that it is given. */
    int32_t (*list)(smelt_run *run, smelt_object **slots, int64_t to, const int64_t *items,
                    int64_t count);
    int32_t (*item)(smelt_run *run, smelt_object **slots, int64_t to, int64_t list, int64_t index);
    int32_t (*append)(smelt_run *run, smelt_object **slots, int64_t to, int64_t list, int64_t item);
    /* The items along a new axis; how: axis, whether from the last to the first, and an item's
     * dtype, rank and shape where there is none. */
    int32_t (*stack)(smelt_run *run, smelt_object **slots, int64_t to, int64_t list,
                     const int64_t *how);
    /* Numbers as sizes: for each, in the slots `to`, a tensor of that length without data. wanted:
     * what they have to be, or their product; below 0: nothing. text: the number of the text that
     * says what they are. */
    int32_t (*sizes)(smelt_run *run, smelt_object **slots, const int64_t *to, int64_t count,
                     int64_t numbers, int64_t wanted, int64_t text);
};

#define SMELT_COMPUTED_DIM INT64_MIN

/* What becomes of an input: the number of the output that is this input's memory, updated; or: */
#define SMELT_READ (-1)

/* A straight part of a program. tensors: for its inputs, then its outputs, one after another: dtype,
 * rank, and the dimensions as in smelt_tensor_info. updates: as in smelt_model_info. */
typedef struct smelt_segment {
    const char *name;
    smelt_entry_function entry;
    smelt_plan_function plan;
    const int64_t *tensors;
    const int64_t *updates;
    int64_t input_count;
    int64_t output_count;
    int64_t symbol_count;
    int64_t extent_count;
} smelt_segment;

/* A constant: where it stands in the model's constants. */
typedef struct smelt_constant {
    int64_t offset;
    int64_t dtype;
    int64_t rank;
    const int64_t *shape;
} smelt_constant;

typedef struct smelt_program {
    smelt_function main;
    int64_t segment_count;
    const smelt_segment *segments;
    int64_t constant_count;
    const smelt_constant *constants;
    int64_t text_count;
    const char *const *texts;
} smelt_program;

typedef struct smelt_tensor_info {
    const char *name;
    int32_t dtype;
    int32_t rank;
    const int64_t *shape; /* >= 0: fixed; SMELT_COMPUTED_DIM: an expression; else symbol number ~d */
} smelt_tensor_info;

typedef struct smelt_model_info smelt_model_info;
struct smelt_model_info {
    int32_t abi_version;
    int32_t reserved;
    uint64_t id; /* of this export; the constants' file carries the same */
    smelt_entry_function entry;
    smelt_plan_function plan; /* NULL: all shapes are fixed, workspace_bytes holds */
    const char *name;
    const char *const *features; /* names of the CPU features needed, NULL at the end */
    int64_t input_count;
    const smelt_tensor_info *inputs;
    int64_t output_count;
    const smelt_tensor_info *outputs;
    int64_t symbol_count;
    const char *const *symbols;
    int64_t weights_bytes;
    int64_t workspace_bytes;
    /* Not NULL: the model decides while it runs; entry and plan are NULL then, and dimensions of
     * outputs that are computed may be known only afterwards. */
    const smelt_program *program;
    /* For each input what becomes of it; NULL: all are only read. */
    const int64_t *updates;
    /* Where its constants begin among those of the library. */
    int64_t weights_offset;
    /* The same model for a processor with fewer features; NULL: there is none. */
    const smelt_model_info *lesser;
};

/* ---- running a model from C -------------------------------------------------------------------- */

/* A tensor in row-major order without gaps. The caller owns data and shape. */
typedef struct smelt_tensor {
    void *data;
    int64_t rank;
    int64_t *shape;
    int32_t dtype;
} smelt_tensor;

typedef struct smelt_model smelt_model;

/* Checks ABI version and CPU, picks what this CPU can run of a library for several of them, and maps
 * the constants; NULL on failure. */
SMELT_API smelt_model *smelt_model_open(const smelt_model_info *info);
/* The same where code and constants did not come to memory by the system's loader: the constants are
 * those at the end of this file. Its name is in UTF-8 on Windows. */
SMELT_API smelt_model *smelt_model_open_file(const smelt_model_info *info, const char *path);
/* The same with constants in memory: info->weights_bytes of them, aligned to 64 bytes, alive as long
 * as the model. Of a library for several CPUs `info` is what smelt_model_fitting gives. */
SMELT_API smelt_model *smelt_model_open_with_weights(const smelt_model_info *info,
                                                     const void *weights);
SMELT_API void smelt_model_close(smelt_model *model);
/* The first of `info`, info->lesser, ... that this CPU has the features for, else the last. */
SMELT_API const smelt_model_info *smelt_model_fitting(const smelt_model_info *info);

SMELT_API int64_t smelt_model_input_count(const smelt_model *model);
SMELT_API int64_t smelt_model_output_count(const smelt_model *model);
/* NULL where the index is out of range. */
SMELT_API const smelt_tensor_info *smelt_model_input(const smelt_model *model, int64_t index);
SMELT_API const smelt_tensor_info *smelt_model_output(const smelt_model *model, int64_t index);

/* Writes the dimensions of all outputs, one after the other, for inputs of these shapes
 * (data may be NULL). Not of a model that decides while it runs. */
SMELT_API int32_t smelt_model_output_shapes(smelt_model *model, const smelt_tensor *inputs,
                                            int64_t *extents);
/* Checks every tensor against the model's description, then runs. Several threads may run one
 * model at once. Outputs of a model that decides while it runs (info->program) are given room for
 * their dimensions in `shape`; the run writes these, and `data`, which the caller frees with
 * smelt_free.
 * An output that is an input updated (info->updates) may have that input's `data`: then it is
 * updated in place. In other memory it is a copy, and the input stays as it is. A model that decides
 * while it runs updates in place where it can, and gives other memory where it cannot: compare. */
SMELT_API int32_t smelt_model_run(smelt_model *model, const smelt_tensor *inputs,
                                  smelt_tensor *outputs);
/* Checks once, runs `number` times, and writes the nanoseconds of all runs together. Not of a model
 * that decides while it runs. */
SMELT_API int32_t smelt_model_time(smelt_model *model, const smelt_tensor *inputs,
                                   smelt_tensor *outputs, int64_t number, int64_t *nanoseconds);
/* At most this many threads for later runs; 0: as many as the pool has. Not during a run. */
SMELT_API int32_t smelt_model_set_threads(smelt_model *model, int32_t threads);
/* Another parallel_for or probe for later runs; copied. Not during a run. */
SMELT_API void smelt_model_set_host(smelt_model *model, const smelt_host *host);

/* The text of this thread's last failure; "" where there was none. */
SMELT_API const char *smelt_last_error(void);
SMELT_API const char *smelt_status_name(int32_t status);
SMELT_API const char *smelt_dtype_name(int32_t dtype);

/* ---- threads ----------------------------------------------------------------------------------- */

typedef struct smelt_pool smelt_pool;

/* The one pool of this process, whichever library made it. threads: how many to use if this call
 * makes it, 0 for SMELT_NUM_THREADS or else smelt_cpu_count(), which is also the most. */
SMELT_API smelt_pool *smelt_pool_default(int32_t threads);
/* A pool of its own with exactly this many threads, the caller's included. */
SMELT_API smelt_pool *smelt_pool_create(int32_t threads);
/* Only for pools of smelt_pool_create, and not during a launch. */
SMELT_API void smelt_pool_destroy(smelt_pool *pool);
SMELT_API int32_t smelt_pool_threads(const smelt_pool *pool);
/* The three forms of smelt_host.parallel_for: `pool` is a smelt_pool, a smelt_pool_view, unused. */
SMELT_API int32_t smelt_pool_for(void *pool, smelt_task task, void *closure, int64_t count);
SMELT_API int32_t smelt_pool_view_for(void *view, smelt_task task, void *closure, int64_t count);
SMELT_API int32_t smelt_serial_for(void *unused, smelt_task task, void *closure, int64_t count);

/* A pool of which at most max_threads are used. */
typedef struct smelt_pool_view {
    smelt_pool *pool;
    int32_t max_threads;
} smelt_pool_view;

/* Fills host and view for at most this many threads (0: all) of the default pool. */
SMELT_API void smelt_host_init(smelt_host *host, smelt_pool_view *view, int32_t threads);

/* ---- timing candidates ------------------------------------------------------------------------- */

/* Where an operand lies: copies of it, `stride` bytes apart, of which each call takes the next one.
 * touched: 1 to 3: before each call the host's threads write what it holds, each a part, so that it
 * lies in their caches as the results of another kernel would; lower numbers first. 0: they do not. */
typedef struct smelt_operand {
    void *memory;
    int64_t bytes, stride, copies, touched;
} smelt_operand;

/* Calls an entry, without weights and workspace, so many times; turn: which copies the first call
 * takes. shares: threads that touch operands. nanoseconds: of the calls alone, together. */
SMELT_API int32_t smelt_entry_time(smelt_entry_function entry, const smelt_host *host,
                                   const smelt_operand *operands, int64_t count,
                                   const int64_t *sizes, int64_t turn, int64_t calls, int64_t shares,
                                   int64_t *nanoseconds);

/* ---- prepared calls ---------------------------------------------------------------------------- */

/* All arguments of one entry call: a foreign-function call with one pointer is several times
 * cheaper than one with five. */
typedef struct smelt_bound {
    const smelt_host *host;
    smelt_entry_function entry;
    void *const *tensors;
    const int64_t *sizes;
    const void *weights;
    void *workspace;
} smelt_bound;

SMELT_API int32_t smelt_bound_run(const smelt_bound *bound);
/* Runs `number` times and writes the time of all of them in nanoseconds. */
SMELT_API int32_t smelt_bound_time(const smelt_bound *bound, int64_t number, int64_t *nanoseconds);

/* All arguments of one run of a program; outputs have room for their dimensions, and get memory that
 * the caller frees with smelt_free. lent: for each input the output that may become it, or
 * SMELT_READ: the run may write to its memory, and where the output's `data` are the input's, it did;
 * NULL: all are only read. */
typedef struct smelt_program_call {
    const smelt_host *host;
    const smelt_program *program;
    const void *weights;
    int64_t input_count;
    const smelt_tensor *inputs;
    int64_t output_count;
    smelt_tensor *outputs;
    const int64_t *lent;
} smelt_program_call;

SMELT_API int32_t smelt_program_run(const smelt_program_call *call);

/* How often a run took a block of memory, and the most bytes that it held at a time. */
typedef struct smelt_program_memory {
    int64_t allocations;
    int64_t most_bytes;
} smelt_program_memory;

/* The memory of this thread's last run. */
SMELT_API void smelt_program_used(smelt_program_memory *memory);
/* Frees the memory that ended runs keep for the next ones. */
SMELT_API void smelt_program_trim(void);
/* Where this thread's last run ended at a segment that does not accept the sizes of its operands: its
 * number, and the first `room` of these sizes; else -1. */
SMELT_API int64_t smelt_program_misfit(int64_t *sizes, int64_t room);
/* Lets allocations of programs fail from the count-th on, in this thread; 0: none. For tests. */
SMELT_API void smelt_program_fail(int64_t count);

/* The sink of smelt_profile_probe: two arrays of kernel_count entries each, and scratch. */
typedef struct smelt_profile {
    int64_t kernel_count;
    int64_t *start;       /* time of the last start, nanoseconds */
    int64_t *nanoseconds; /* sum over all calls */
    int64_t *calls;
} smelt_profile;

SMELT_API int32_t smelt_profile_probe(void *profile, int64_t kernel, int32_t is_end);

/* The sink of smelt_watch_probe, which ends a run between two kernels: from time to time it asks
 * `interrupted`, as smelt_host's is asked. Zero at first. */
typedef struct smelt_watch {
    int64_t asked_at;
    int32_t (*interrupted)(void);
} smelt_watch;

SMELT_API int32_t smelt_watch_probe(void *watch, int64_t kernel, int32_t is_end);

/* The sink of smelt_trace_probe: what began or ended (2 * number + is_end) and when, in nanoseconds;
 * `count` goes on where there is no room left. Of one thread at a time. */
typedef struct smelt_trace {
    int64_t room;
    int64_t count;
    int64_t *what;
    int64_t *time;
} smelt_trace;

SMELT_API int32_t smelt_trace_probe(void *trace, int64_t kernel, int32_t is_end);

/* ---- memory and CPU ---------------------------------------------------------------------------- */

/* Memory aligned to 64 bytes or more (never NULL for 0 bytes); NULL where there is none left. */
SMELT_API void *smelt_alloc(int64_t bytes);
SMELT_API void smelt_free(void *memory);
/* How many blocks of smelt_alloc this process has not freed. */
SMELT_API int64_t smelt_blocks(void);
/* 1 where this CPU and operating system have the feature of this LLVM name, else 0. */
SMELT_API int32_t smelt_cpu_has(const char *feature);
/* The names smelt_cpu_has knows on this architecture, NULL past the end. */
SMELT_API const char *smelt_cpu_feature(int64_t index);
/* How many CPUs this process may use now: cores of its affinity, at most its cgroups' quota. */
SMELT_API int32_t smelt_cpu_count(void);
/* The same for a set of CPUs (a cpu_set_t), where the files of Linux stand under the folder `root`. */
SMELT_API int32_t smelt_count_cpus(const char *root, const void *cpus);

#ifdef __cplusplus
}
#endif

#endif
