/* user.c: runs an exported model that it knows by its header. Floats in, floats out, by files. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what) {
    printf("%s: %s\n", what, smelt_last_error());
    return 1;
}

int main(int argc, char **argv) {
    smelt_model *model = net_open();
    if (argc != 3 || !model)
        return fail("open");
    const smelt_tensor_info *in = smelt_model_input(model, 0), *out = smelt_model_output(model, 0);
    size_t count = 1, results = 1;
    for (int i = 0; i < in->rank; i++)
        count *= (size_t)in->shape[i];
    for (int i = 0; i < out->rank; i++)
        results *= (size_t)out->shape[i];
    float *x = malloc(count * sizeof *x), *y = malloc(results * sizeof *y);
    int64_t found[8];
    FILE *file = fopen(argv[1], "rb");
    if (!x || !y || !file || fread(x, sizeof *x, count, file) != count)
        return fail("read");
    fclose(file);
    int64_t shape[8];
    memcpy(shape, in->shape, (size_t)in->rank * sizeof *shape);
    smelt_tensor input = {x, in->rank, shape, SMELT_FLOAT32};
    smelt_tensor output = {y, out->rank, found, SMELT_FLOAT32};
    if (smelt_model_output_shapes(model, &input, found) != SMELT_OK)
        return fail("shapes");
    for (int threads = 1; threads <= 2; threads++) {
        if (smelt_model_set_threads(model, threads) != SMELT_OK)
            return fail("threads");
        if (smelt_model_run(model, &input, &output) != SMELT_OK)
            return fail("run");
    }
    file = fopen(argv[2], "wb");
    if (!file || fwrite(y, sizeof *y, results, file) != results || fclose(file))
        return fail("write");
    smelt_model_close(model);
    free(x);
    free(y);
    return 0;
}
