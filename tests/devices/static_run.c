/* static_run.c: a program with a model inside, for systems without shared libraries.
 * static_run WEIGHTS INPUT OUTPUT: raw bytes; one input and one output of fixed sizes. */
#include "net.h"
#include <stdio.h>
#include <stdlib.h>

static int64_t bytes_of(const smelt_tensor_info *t) {
    int64_t bytes = (t->dtype & 255) / 8;
    for (int32_t d = 0; d < t->rank; d++)
        bytes *= t->shape[d];
    return bytes;
}

static void *read_file(const char *path, int64_t bytes) {
    size_t size = (size_t)(bytes + 63) / 64 * 64;
    void *data = aligned_alloc(64, size ? size : 64);
    FILE *file = fopen(path, "rb");
    if (file == NULL || data == NULL || fread(data, 1, (size_t)bytes, file) != (size_t)bytes)
        exit(2);
    fclose(file);
    return data;
}

int main(int count, char **arguments) {
    if (count != 4)
        return 2;
    void *weights = read_file(arguments[1], net_info.weights_bytes);
    smelt_model *model = smelt_model_open_with_weights(&net_info, weights);
    if (model == NULL)
        return fprintf(stderr, "%s\n", smelt_last_error()), 1;
    const smelt_tensor_info *in = &net_info.inputs[0], *out = &net_info.outputs[0];
    smelt_tensor x = {read_file(arguments[2], bytes_of(in)), in->rank, (int64_t *)in->shape,
                      in->dtype};
    smelt_tensor y = {malloc((size_t)bytes_of(out)), out->rank, (int64_t *)out->shape, out->dtype};
    if (smelt_model_run(model, &x, &y) != SMELT_OK)
        return fprintf(stderr, "%s\n", smelt_last_error()), 1;
    FILE *file = fopen(arguments[3], "wb");
    if (file == NULL || fwrite(y.data, 1, (size_t)bytes_of(out), file) != (size_t)bytes_of(out))
        return 2;
    return fclose(file) != 0;
}
