/* smelt_graph.c: see smelt_graph.h.
 *
 * The JSON is walked three times: as JSON, to count what is in it, and to fill tables in the arena:
 *
 *     values | inputs | steps | rows, entries, operands, outputs | the values' memory
 *
 * An entry is a result of a node, a row the first entry of a node; "storage_id" says which value an
 * entry is, "storage_bytes" its size, "storage_offset" its place in memory, or -1: the caller's. */
#include "smelt_graph.h"

#include <stddef.h>
#include <string.h>

#define MOST 65535u
#define DEEPEST 32u

/* ------------------------------------------------------------------------------------- the JSON */

typedef struct {
    const uint8_t *text;
    uint32_t size, at;
    int32_t broken; /* the status where something else stands than should */
    int32_t status; /* the first thing that went wrong; all functions do nothing then */
} reader;

typedef struct {
    uint32_t at, length;
} span;

static void fail(reader *r, int32_t status) {
    if (r->status == SMELT_GRAPH_OK) r->status = status;
}

/* The next character that is no space; 0: the end, or something went wrong. */
static uint8_t peek(reader *r) {
    if (r->status != SMELT_GRAPH_OK) return 0;
    while (r->at < r->size) {
        const uint8_t c = r->text[r->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
        r->at++;
    }
    return 0;
}

/* Steps over a character where it comes next. */
static int take(reader *r, uint8_t wanted) {
    if (wanted == 0 || peek(r) != wanted) return 0;
    r->at++;
    return 1;
}

static void expect(reader *r, uint8_t wanted) {
    if (!take(r, wanted)) fail(r, r->broken);
}

static int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* A string, as it stands between its quotes. */
static span string(reader *r) {
    span found = {0, 0};
    expect(r, '"');
    found.at = r->at;
    while (r->status == SMELT_GRAPH_OK) {
        const uint8_t c = r->at < r->size ? r->text[r->at] : 0;
        if (c < ' ') {
            fail(r, SMELT_GRAPH_BAD_JSON);
        } else if (c == '"') {
            found.length = r->at++ - found.at;
            return found;
        } else {
            r->at += c == '\\' && r->size - r->at > 1 ? 2u : 1u;
        }
    }
    return found;
}

/* A whole number from -1, in quotes or without them; -2 where something is wrong. */
static int64_t number(reader *r) {
    const int quoted = take(r, '"'), minus = take(r, '-');
    int64_t value = 0;
    if (!is_digit(peek(r))) fail(r, SMELT_GRAPH_BAD_GRAPH);
    while (r->status == SMELT_GRAPH_OK && r->at < r->size && is_digit(r->text[r->at])) {
        value = value * 10 + (r->text[r->at++] - '0');
        if (value > (minus ? 1 : (int64_t)UINT32_MAX)) fail(r, SMELT_GRAPH_BAD_GRAPH);
    }
    if (quoted) expect(r, '"');
    return r->status != SMELT_GRAPH_OK ? -2 : minus ? -value : value;
}

/* A number below a limit. */
static uint32_t below(reader *r, uint32_t limit) {
    const int64_t value = number(r);
    if (value >= 0 && value < (int64_t)limit) return (uint32_t)value;
    fail(r, SMELT_GRAPH_BAD_GRAPH);
    return 0;
}

/* Steps over a number, true, false or null. */
static void word(reader *r) {
    const uint32_t start = r->at;
    while (r->at < r->size) {
        const uint8_t c = r->text[r->at];
        if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != 'E' && c != '-' && c != '+' && c != '.')
            break;
        r->at++;
    }
    if (r->at == start) fail(r, SMELT_GRAPH_BAD_JSON);
}

/* The name of a member. */
static span key(reader *r) {
    const span name = string(r);
    expect(r, ':');
    return name;
}

/* Steps over any value. The bits of `objects` say which of the open brackets are braces. */
static void skip(reader *r) {
    uint32_t depth = 0, objects = 0;
    do {
        const uint8_t c = peek(r);
        if (c == '{' || c == '[') {
            if (++depth >= DEEPEST) fail(r, SMELT_GRAPH_BAD_JSON);
            objects = (objects << 1) | (c == '{');
            r->at++;
            if (!take(r, objects & 1u ? '}' : ']')) {
                if (objects & 1u) (void)key(r);
                continue;
            }
            depth--;
            objects >>= 1;
        } else if (c == '"') {
            (void)string(r);
        } else {
            word(r);
        }
        while (depth != 0 && take(r, objects & 1u ? '}' : ']')) {
            depth--;
            objects >>= 1;
        }
        if (depth != 0) expect(r, ',');
        if (depth != 0 && (objects & 1u)) (void)key(r);
    } while (depth != 0 && r->status == SMELT_GRAPH_OK);
}

/* Begins the next item of an array, or member of an object; 0: it ends. open: its first bracket; n:
 * how many have begun, 0 before the first. */
static int next(reader *r, uint8_t open, uint32_t *n) {
    const uint8_t close = open == '[' ? ']' : '}';
    if (*n != 0 && take(r, close)) return 0;
    expect(r, *n != 0 ? ',' : open);
    if (*n == 0 && take(r, close)) return 0;
    ++*n;
    return r->status == SMELT_GRAPH_OK;
}

static int is(const reader *r, span s, const char *text) {
    uint32_t n = 0;
    while (n < s.length && text[n] != 0 && (uint8_t)text[n] == r->text[s.at + n])
        n++;
    return n == s.length && text[n] == 0;
}

/* Where the values of some members of an object begin; 0 for those that it does not have. */
static void find(reader *r, const char *const *names, uint32_t count, uint32_t *places) {
    uint32_t members = 0;
    memset(places, 0, (size_t)count * sizeof *places);
    while (next(r, '{', &members)) {
        const span name = key(r);
        (void)peek(r);
        for (uint32_t n = 0; n < count; n++)
            if (is(r, name, names[n])) {
                if (places[n] != 0) fail(r, r->broken); /* it is there twice */
                places[n] = r->at;
            }
        skip(r);
    }
}

/* Goes to one of these places. */
static void go(reader *r, uint32_t place) {
    if (place == 0) fail(r, SMELT_GRAPH_BAD_GRAPH);
    if (r->status == SMELT_GRAPH_OK) r->at = place;
}

/* Begins ["list_int", [...]]; what follows is an array. */
static void list(reader *r, uint32_t place) {
    go(r, place);
    expect(r, '[');
    (void)string(r);
    expect(r, ',');
}

/* The items of an array. */
static uint32_t items(reader *r) {
    uint32_t n = 0;
    while (next(r, '[', &n))
        skip(r);
    return n;
}

/* ------------------------------------------------------------------------------------ the graph */

enum { NODES, HEADS, ATTRIBUTES, PARTS };
static const char *const part_names[PARTS] = {"nodes", "heads", "attrs"};
enum { IDS, SIZES, OFFSETS, LISTS };
static const char *const list_names[LISTS] = {"storage_id", "storage_bytes", "storage_offset"};
enum { OP, NAME, INPUTS, CALL, NODE_PARTS };
static const char *const node_names[NODE_PARTS] = {"op", "name", "inputs", "attrs"};
enum { FUNCTION, INPUT_COUNT, OUTPUT_COUNT, CALL_PARTS };
static const char *const call_names[CALL_PARTS] = {"func_name", "num_inputs", "num_outputs"};

enum { UNKNOWN, GIVEN, MADE }; /* kinds of values; what is given, no kernel writes */

typedef struct {
    int is_call;
    span name, function;
    uint32_t inputs, input_count, output_count; /* inputs: where they begin in the JSON */
} node;

/* What is in a graph, and where its parts begin in the JSON. */
typedef struct {
    uint32_t nodes, values, inputs, steps, entries, operands, outputs;
    uint32_t parts[PARTS], lists[LISTS];
} outline;

/* The node that comes next. */
static node read_node(reader *r) {
    uint32_t places[NODE_PARTS], parts[CALL_PARTS], end;
    node n = {0};
    find(r, node_names, NODE_PARTS, places);
    end = r->at;
    go(r, places[NAME]);
    n.name = string(r);
    n.inputs = places[INPUTS];
    go(r, n.inputs);
    n.input_count = items(r);
    go(r, places[OP]);
    const span op = string(r);
    n.is_call = is(r, op, "tvm_op");
    n.output_count = 1;
    if (n.is_call) {
        go(r, places[CALL]);
        find(r, call_names, CALL_PARTS, parts);
        go(r, parts[FUNCTION]);
        n.function = string(r);
        go(r, parts[INPUT_COUNT]);
        if (below(r, MOST) != n.input_count) fail(r, SMELT_GRAPH_BAD_GRAPH);
        go(r, parts[OUTPUT_COUNT]);
        n.output_count = below(r, MOST);
    } else if (!is(r, op, "null") || n.input_count != 0) {
        fail(r, SMELT_GRAPH_BAD_GRAPH);
    }
    go(r, end);
    return n;
}

/* Checks that the text is JSON, and counts what tables are needed for. */
static void survey(reader *r, outline *o) {
    uint32_t n = 0;
    memset(o, 0, sizeof *o);
    find(r, part_names, PARTS, o->parts);
    if (peek(r) != 0 || r->at != r->size) fail(r, r->broken);
    r->broken = SMELT_GRAPH_BAD_GRAPH;
    go(r, o->parts[ATTRIBUTES]);
    find(r, list_names, LISTS, o->lists);
    go(r, o->parts[NODES]);
    while (next(r, '[', &n)) {
        const node made = read_node(r);
        o->nodes = n;
        o->entries += made.output_count;
        o->inputs += made.is_call ? 0u : 1u;
        o->steps += made.is_call ? 1u : 0u;
        o->operands += made.is_call ? made.input_count + made.output_count : 0u;
        if (n >= MOST || o->entries >= MOST || o->operands >= MOST) fail(r, SMELT_GRAPH_TOO_LARGE);
    }
    list(r, o->lists[SIZES]);
    o->values = items(r);
    go(r, o->parts[HEADS]);
    o->outputs = items(r);
    if (o->values >= MOST || o->outputs >= MOST) fail(r, SMELT_GRAPH_TOO_LARGE);
}

/* Takes a table from the arena. */
static void *table(uint8_t **arena, uint32_t rows, size_t size) {
    void *const made = *arena;
    *arena += rows * size;
    return made;
}

/* Lays the tables out, the widest first, where they fit. */
static int32_t lay_out(smelt_graph *g, const outline *o, uint8_t *arena, uint32_t bytes) {
    const uint64_t small = (uint64_t)o->nodes + 1u + o->entries + o->operands + o->outputs;
    const uint64_t all = (uint64_t)o->values * sizeof *g->values + small * sizeof *g->rows +
                         (uint64_t)o->inputs * sizeof *g->inputs +
                         (uint64_t)o->steps * sizeof *g->steps;
    if ((all + 7u) / 8u * 8u > bytes) return SMELT_GRAPH_SMALL_ARENA;
    g->used = (uint32_t)((all + 7u) / 8u * 8u);
    g->values = table(&arena, o->values, sizeof *g->values);
    g->inputs = table(&arena, o->inputs, sizeof *g->inputs);
    g->steps = table(&arena, o->steps, sizeof *g->steps);
    g->rows = table(&arena, o->nodes + 1u, sizeof *g->rows);
    g->entries = table(&arena, o->entries, sizeof *g->entries);
    g->operands = table(&arena, o->operands, sizeof *g->operands);
    g->outputs = table(&arena, o->outputs, sizeof *g->outputs);
    return SMELT_GRAPH_OK;
}

/* The values: sizes and places behind the tables in the arena; and which of them entries are. */
static void read_values(reader *r, smelt_graph *g, const outline *o, uint8_t *arena,
                        uint32_t bytes) {
    const uint32_t tables = g->used;
    uint32_t n = 0;
    list(r, o->lists[IDS]);
    while (next(r, '[', &n) && n <= o->entries)
        g->entries[n - 1u] = (uint16_t)below(r, o->values);
    if (n != o->entries) fail(r, SMELT_GRAPH_BAD_GRAPH);
    list(r, o->lists[SIZES]);
    for (n = 0; next(r, '[', &n) && n <= o->values;) {
        const smelt_graph_value empty = {NULL, below(r, UINT32_MAX), 0};
        g->values[n - 1u] = empty;
    }
    list(r, o->lists[OFFSETS]);
    for (n = 0; next(r, '[', &n) && n <= o->values;) {
        smelt_graph_value *const v = &g->values[n - 1u];
        const int64_t at = number(r);
        if (at < 0) continue;
        const uint64_t end = tables + (uint64_t)at + v->bytes;
        if (at % 8 != 0) fail(r, SMELT_GRAPH_BAD_GRAPH);
        if (end > bytes) fail(r, SMELT_GRAPH_SMALL_ARENA);
        if (r->status != SMELT_GRAPH_OK) return;
        v->data = arena + tables + at;
        if (end > g->used) g->used = (uint32_t)end;
    }
    if (n != o->values) fail(r, SMELT_GRAPH_BAD_GRAPH);
}

/* A value that one of the nodes before number `nodes` makes: [node, which of its results, ...]. */
static uint16_t read_entry(reader *r, const smelt_graph *g, uint32_t nodes) {
    uint32_t n = 0, from = 0, entry = 0;
    while (next(r, '[', &n)) {
        if (n == 1)
            from = below(r, nodes);
        else if (n == 2)
            entry = g->rows[from] + below(r, (uint32_t)g->rows[from + 1u] - g->rows[from]);
        else
            skip(r);
    }
    if (n < 2) fail(r, SMELT_GRAPH_BAD_GRAPH);
    return r->status == SMELT_GRAPH_OK ? g->entries[entry] : 0;
}

/* The function that a node calls; its values have to be such as it takes. */
static uint16_t read_function(reader *r, const smelt_graph *g, const node *made,
                              const uint16_t *operands) {
    const smelt_graph_function *f = g->model->functions;
    uint32_t n = 0;
    while (n < g->model->function_count && !is(r, made->function, f[n].name))
        n++;
    if (n == g->model->function_count || n > MOST) {
        fail(r, SMELT_GRAPH_NO_FUNCTION);
        return 0;
    }
    f += n;
    if (made->input_count != f->inputs || made->output_count != f->outputs)
        fail(r, SMELT_GRAPH_BAD_CALL);
    for (uint32_t i = 0; r->status == SMELT_GRAPH_OK && i < (uint32_t)f->inputs + f->outputs; i++) {
        smelt_graph_value *const v = &g->values[operands[i]];
        const int is_result = i >= f->inputs;
        if (v->bytes < f->bytes[i] || (is_result && (v->kind == GIVEN || v->data == NULL)))
            fail(r, SMELT_GRAPH_BAD_CALL);
        if (is_result) v->kind = MADE;
    }
    return (uint16_t)n;
}

/* The nodes: what is set from outside, then what is called on which values. */
static void read_nodes(reader *r, smelt_graph *g, const outline *o) {
    uint32_t n = 0, entry = 0, operand = 0;
    go(r, o->parts[NODES]);
    while (next(r, '[', &n)) {
        const node made = read_node(r);
        const uint32_t end = r->at, first = operand;
        uint32_t k = 0;
        g->rows[n - 1u] = (uint16_t)entry;
        if (r->status == SMELT_GRAPH_OK && !made.is_call) {
            smelt_graph_input *const in = &g->inputs[g->input_count++];
            in->name = made.name.at;
            in->length = made.name.length;
            in->value = g->entries[entry];
            if (g->values[in->value].kind == MADE) fail(r, SMELT_GRAPH_BAD_GRAPH);
            g->values[in->value].kind = GIVEN;
            g->values[in->value].data = NULL;
        } else if (r->status == SMELT_GRAPH_OK) {
            go(r, made.inputs);
            while (next(r, '[', &k))
                g->operands[operand++] = read_entry(r, g, n - 1u);
            for (k = 0; k < made.output_count; k++)
                g->operands[operand++] = g->entries[entry + k];
            smelt_graph_step *const step = &g->steps[g->step_count++];
            step->first = (uint16_t)first;
            step->function = read_function(r, g, &made, &g->operands[first]);
        }
        entry += made.output_count;
        go(r, end);
    }
    g->rows[o->nodes] = (uint16_t)entry;
}

/* Which values are results. */
static void read_heads(reader *r, smelt_graph *g, const outline *o) {
    uint32_t n = 0;
    go(r, o->parts[HEADS]);
    while (next(r, '[', &n))
        g->outputs[n - 1u] = read_entry(r, g, o->nodes);
    g->output_count = o->outputs;
}

int32_t smelt_graph_open(smelt_graph *graph, const smelt_graph_model *model, void *arena,
                         uint32_t bytes) {
    reader r = {model->json, model->json_bytes, 0, SMELT_GRAPH_BAD_JSON, SMELT_GRAPH_OK};
    outline o;
    memset(graph, 0, sizeof *graph);
    graph->model = model;
    if (arena == NULL) return SMELT_GRAPH_SMALL_ARENA;
    if ((uintptr_t)arena % 8u != 0) return SMELT_GRAPH_UNALIGNED;
    survey(&r, &o);
    if (r.status == SMELT_GRAPH_OK) r.status = lay_out(graph, &o, arena, bytes);
    if (r.status == SMELT_GRAPH_OK) read_values(&r, graph, &o, arena, bytes);
    if (r.status == SMELT_GRAPH_OK) read_nodes(&r, graph, &o);
    if (r.status == SMELT_GRAPH_OK) read_heads(&r, graph, &o);
    graph->position = r.at;
    for (uint32_t n = 0; r.status == SMELT_GRAPH_OK && n < model->param_count; n++) {
        const smelt_graph_param *const p = &model->params[n];
        r.status = smelt_graph_set(graph, p->name, p->data, p->bytes);
    }
    if (r.status != SMELT_GRAPH_OK)
        graph->input_count = graph->output_count = graph->step_count = 0;
    graph->ready = r.status == SMELT_GRAPH_OK;
    return r.status;
}

int32_t smelt_graph_set_input(smelt_graph *graph, uint32_t n, const void *data, uint32_t bytes) {
    if (n >= graph->input_count) return SMELT_GRAPH_NO_INPUT;
    smelt_graph_value *const v = &graph->values[graph->inputs[n].value];
    if (bytes < v->bytes) return SMELT_GRAPH_BAD_SIZE;
    v->data = (void *)(uintptr_t)data; /* nothing writes to it: see read_function */
    return SMELT_GRAPH_OK;
}

int32_t smelt_graph_set(smelt_graph *graph, const char *name, const void *data, uint32_t bytes) {
    const reader r = {graph->model->json, graph->model->json_bytes, 0, 0, 0};
    for (uint32_t n = 0; n < graph->input_count; n++) {
        const span own = {graph->inputs[n].name, graph->inputs[n].length};
        if (is(&r, own, name)) return smelt_graph_set_input(graph, n, data, bytes);
    }
    return SMELT_GRAPH_NO_INPUT;
}

int32_t smelt_graph_run(smelt_graph *graph) {
    const smelt_graph_model *const model = graph->model;
    if (graph->ready == 0) return SMELT_GRAPH_UNSET;
    for (uint32_t n = 0; n < graph->input_count; n++)
        if (graph->values[graph->inputs[n].value].data == NULL) return SMELT_GRAPH_UNSET;
    for (uint32_t n = 0; n < graph->step_count; n++) {
        const smelt_graph_step *const step = &graph->steps[n];
        const smelt_graph_call call = model->functions[step->function].call;
        const int32_t status = call(graph->values, &graph->operands[step->first]);
        if (status != 0) return status;
        if (model->done != NULL) model->done(n);
    }
    graph->ready = 2;
    return SMELT_GRAPH_OK;
}

int32_t smelt_graph_get_output(const smelt_graph *graph, uint32_t n, void *to, uint32_t bytes) {
    if (n >= graph->output_count) return SMELT_GRAPH_NO_INPUT;
    const smelt_graph_value *const v = &graph->values[graph->outputs[n]];
    if (v->data == NULL || graph->ready < 2) return SMELT_GRAPH_UNSET;
    if (bytes < v->bytes) return SMELT_GRAPH_BAD_SIZE;
    memcpy(to, v->data, (size_t)v->bytes);
    return SMELT_GRAPH_OK;
}

const char *smelt_graph_error(int32_t status) {
    static const char *const texts[] = {
        "the graph is no JSON, or it ends too early",
        "the JSON is no graph: what it should hold is missing or out of range",
        "the graph calls a function that the program does not have",
        "the graph calls a function with other values than it takes",
        "the graph has more than 65535 nodes, values or operands",
        "the arena is too small for the graph",
        "the arena is not aligned to 8 bytes",
        "the graph has no such input, parameter or output",
        "the array is smaller than the value",
        "an input or a parameter was never set, or the graph is not open or has not run",
    };
    if (status == SMELT_GRAPH_OK) return "all went well";
    if (status < SMELT_GRAPH_BAD_JSON || status > SMELT_GRAPH_UNSET) return "a kernel failed";
    return texts[status - SMELT_GRAPH_BAD_JSON];
}
