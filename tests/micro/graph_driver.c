/* Opens and runs a model whose graph is damaged in many ways; it prints how often each status came.
 * usage: driver MUTATIONS SEED. Inputs and outputs are the model's own; arrays end where they end, so
 * that the sanitizers see every step beyond them. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state;

static uint32_t draw(uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)state * limit) >> 32);
}

/* A copy of the graph with a few damages; size: of the copy. */
static uint8_t *damaged(uint32_t *size) {
    static const char *const words[] = {"-1", "0", "65535", "4294967295", "99999999999", "[", "]", "{",
                                        "}", "\"", "null", ",", ":", "\\", "1e9", "[[[[[[[["};
    const uint32_t whole = net_graph.json_bytes;
    uint8_t *const text = malloc(whole + 256);
    uint32_t length = whole, kind = draw(6);
    memcpy(text, net_graph.json, whole);
    for (uint32_t n = draw(3) + 1; n != 0; n--) {
        const uint32_t at = draw(length);
        if (kind == 0) { /* a byte */
            text[at] = (uint8_t)draw(256);
        } else if (kind == 1) { /* truncated */
            length = at + 1;
        } else if (kind == 2) { /* a digit: what is still JSON */
            uint32_t k = at;
            while (k < length && (text[k] < '0' || text[k] > '9'))
                k++;
            if (k < length) text[k] = (uint8_t)('0' + draw(10));
        } else if (kind == 3) { /* a piece is missing */
            const uint32_t cut = draw(length - at < 12 ? length - at : 12);
            memmove(text + at, text + at + cut, length - at - cut);
            length -= cut;
        } else if (kind == 4) { /* a piece stands elsewhere, too */
            const uint32_t from = draw(length), cut = draw(length - from < 24 ? length - from : 24);
            if (at + cut <= length) memmove(text + at, text + from, cut);
        } else { /* a word */
            const char *const word = words[draw(sizeof words / sizeof *words)];
            const uint32_t cut = (uint32_t)strlen(word);
            memmove(text + at + cut, text + at, length - at);
            memcpy(text + at, word, cut);
            length += cut;
        }
        if (length == 0) break;
    }
    uint8_t *const exact = malloc(length + (length == 0));
    memcpy(exact, text, length);
    free(text);
    *size = length;
    return exact;
}

static int32_t attempt(const smelt_graph_model *model, uint32_t arena_bytes) {
    static float numbers[4096];
    smelt_graph graph;
    uint8_t *const arena = malloc(arena_bytes + (arena_bytes == 0));
    int32_t status = smelt_graph_open(&graph, model, arena, arena_bytes);
    if (status != 0 && (graph.input_count != 0 || graph.output_count != 0)) abort();
    if (status != 0 && smelt_graph_run(&graph) != SMELT_GRAPH_UNSET) abort();
    if (graph.output_count != 0 &&
        smelt_graph_get_output(&graph, 0, numbers, sizeof numbers) != SMELT_GRAPH_UNSET)
        abort(); /* nothing has run */
    if (status == 0 && graph.used > arena_bytes) abort();
    for (uint32_t n = 0; status == 0 && n < graph.input_count; n++) {
        if (n + model->param_count >= graph.input_count) break;
        status = smelt_graph_set_input(&graph, n, numbers, sizeof numbers);
    }
    if (status == 0) status = smelt_graph_run(&graph);
    for (uint32_t n = 0; status == 0 && n < graph.output_count; n++)
        status = smelt_graph_get_output(&graph, n, numbers, sizeof numbers);
    free(arena);
    if (strlen(smelt_graph_error(status)) < 10) abort();
    return status;
}

int main(int argc, char **argv) {
    uint32_t counts[16] = {0};
    const uint32_t mutations = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    state = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    smelt_graph nowhere;
    if (smelt_graph_open(&nowhere, &net_graph, NULL, NET_WORKSPACE_BYTES) == 0) return 3;
    if (attempt(&net_graph, NET_WORKSPACE_BYTES) != 0) return 1;
    for (uint32_t bytes = 0; bytes < NET_WORKSPACE_BYTES; bytes += 8 + draw(200)) /* small arenas */
        if (bytes + 200 < NET_WORKSPACE_BYTES && attempt(&net_graph, bytes) != SMELT_GRAPH_SMALL_ARENA)
            return 2;
    for (uint32_t n = 0; n < mutations; n++) {
        smelt_graph_model model = net_graph;
        uint8_t *const json = damaged(&model.json_bytes);
        model.json = json;
        const int32_t status = attempt(&model, NET_WORKSPACE_BYTES);
        free(json);
        counts[status == 0 ? 0 : status > 1000 && status < 1015 ? status - 1000 : 15]++;
    }
    for (int n = 0; n < 16; n++)
        printf("%u ", counts[n]);
    return 0;
}
