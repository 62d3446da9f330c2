/* smelt_graph.h: runs a model from its graph, JSON that is read by the program, without a heap.
 *
 *     smelt_graph graph;
 *     int32_t status = smelt_graph_open(&graph, &net_graph, arena, sizeof arena);
 *     if (status == 0) status = smelt_graph_set(&graph, "x", x, sizeof x);
 *     if (status == 0) status = smelt_graph_run(&graph);
 *     if (status == 0) status = smelt_graph_get_output(&graph, 0, y, sizeof y);
 *     if (status != 0) puts(smelt_graph_error(status));
 *
 * Every function gives 0, or why it does nothing. What the graph says is checked when it is opened:
 * a kernel gets values of at least the sizes that it was compiled for, and writes to the arena
 * alone. What the numbers mean that it reads is not checked: a graph that another tool has written
 * may give a kernel the wrong ones. */
#ifndef SMELT_GRAPH_H
#define SMELT_GRAPH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SMELT_GRAPH_OK,
    SMELT_GRAPH_BAD_JSON = 1001, /* the text is no JSON, or ends too early */
    SMELT_GRAPH_BAD_GRAPH,       /* it is no graph: what it should hold is not there, or wrong */
    SMELT_GRAPH_NO_FUNCTION,     /* it calls a function that the program does not have */
    SMELT_GRAPH_BAD_CALL,        /* it calls one with other values than it takes */
    SMELT_GRAPH_TOO_LARGE,       /* it has more than 65535 nodes, values or operands */
    SMELT_GRAPH_SMALL_ARENA,     /* the arena is too small for it */
    SMELT_GRAPH_UNALIGNED,       /* the arena is not aligned to 8 bytes */
    SMELT_GRAPH_NO_INPUT,        /* it has no such input, parameter or output */
    SMELT_GRAPH_BAD_SIZE,        /* the array is smaller than the value */
    SMELT_GRAPH_UNSET            /* an input was never set, or it is not open, or has not run */
};

/* A value: where it stands, and how long it is. */
typedef struct {
    void *data;
    uint32_t bytes;
    uint32_t kind;
} smelt_graph_value;

/* Calls a kernel; at: which values are its operands, then its results. 0 on success. */
typedef int32_t (*smelt_graph_call)(const smelt_graph_value *values, const uint16_t *at);

typedef struct {
    const char *name;
    smelt_graph_call call;
    const uint32_t *bytes; /* that each operand and result has at least */
    uint16_t inputs, outputs;
} smelt_graph_function;

typedef struct {
    const char *name;
    const void *data;
    uint32_t bytes;
} smelt_graph_param;

/* A model as its source brings it. done: called after each kernel with its number; may be 0. */
typedef struct {
    const uint8_t *json;
    uint32_t json_bytes;
    uint32_t function_count;
    const smelt_graph_function *functions;
    const smelt_graph_param *params;
    uint32_t param_count;
    void (*done)(uint32_t step);
} smelt_graph_model;

typedef struct {
    uint32_t name, length; /* in the JSON */
    uint32_t value;
} smelt_graph_input;

typedef struct {
    uint16_t function, first; /* first: of its values in `operands` */
} smelt_graph_step;

/* A model in an arena. All but the first four belong to smelt_graph.c. */
typedef struct {
    uint32_t input_count, output_count; /* inputs of the model, then its parameters */
    uint32_t used;                      /* bytes of the arena, after smelt_graph_open */
    uint32_t position;                  /* in the JSON, where smelt_graph_open failed */
    const smelt_graph_model *model;
    smelt_graph_value *values;
    smelt_graph_input *inputs;
    smelt_graph_step *steps;
    uint16_t *rows, *entries, *operands, *outputs;
    uint32_t step_count;
    uint32_t ready; /* 1: it was opened, 2: it has run */
} smelt_graph;

/* Reads the graph of a model; arena: aligned to 8, and in use as long as the graph. */
int32_t smelt_graph_open(smelt_graph *graph, const smelt_graph_model *model, void *arena,
                         uint32_t bytes);

/* Sets an input or a parameter, by number or by its name in the JSON. The array is not copied: each
 * run reads it. bytes: that it has, at least as many as the value. */
int32_t smelt_graph_set_input(smelt_graph *graph, uint32_t n, const void *data, uint32_t bytes);
int32_t smelt_graph_set(smelt_graph *graph, const char *name, const void *data, uint32_t bytes);

/* Runs all kernels; gives also what a kernel gives that fails. */
int32_t smelt_graph_run(smelt_graph *graph);

/* Copies a result; bytes: that there is room for. */
int32_t smelt_graph_get_output(const smelt_graph *graph, uint32_t n, void *to, uint32_t bytes);

/* A status in words. */
const char *smelt_graph_error(int32_t status);

#ifdef __cplusplus
}
#endif

#endif
