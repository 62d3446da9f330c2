/* user.c: a program that knows an exported model by its header only. */
#include "add.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (%s)\n", __LINE__, #condition, smelt_last_error()); \
            return 1; \
        } \
    } while (0)

static int check_errors(smelt_model *model, smelt_tensor *inputs, smelt_tensor *output) {
    int64_t other[] = {3, 4};
    smelt_tensor saved = inputs[1];
    inputs[1].shape = other;
    EXPECT(smelt_model_run(model, inputs, output) == SMELT_BAD_SHAPE);
    EXPECT(!strcmp(smelt_last_error(),
                   "add: input 'y': dimension 0 is 3, but n is 2 by another input"));
    inputs[1] = saved;
    inputs[1].dtype = SMELT_INT32;
    EXPECT(smelt_model_run(model, inputs, output) == SMELT_BAD_DTYPE);
    EXPECT(!strcmp(smelt_last_error(), "add: input 'y': dtype int32, it must be float32"));
    inputs[1] = saved;
    inputs[1].rank = 1;
    EXPECT(smelt_model_run(model, inputs, output) == SMELT_BAD_SHAPE);
    EXPECT(!strcmp(smelt_last_error(), "add: input 'y': rank 1, it must be 2"));
    inputs[1] = saved;
    inputs[1].data = NULL;
    EXPECT(smelt_model_run(model, inputs, output) == SMELT_BAD_ARGUMENT);
    EXPECT(!strcmp(smelt_last_error(), "add: 'y' has no data"));
    inputs[1] = saved;
    smelt_tensor wrong = *output;
    wrong.shape = other;
    EXPECT(smelt_model_run(model, inputs, &wrong) == SMELT_BAD_SHAPE);
    EXPECT(!strcmp(smelt_last_error(), "add: output 'z': dimension 0 is 3, it must be 2"));
    return 0;
}

/* Rows of which there are none need no memory. */
static int check_nothing(smelt_model *model) {
    int64_t shape[] = {0, 4}, found[2];
    smelt_tensor none = {NULL, 2, shape, SMELT_FLOAT32};
    smelt_tensor inputs[] = {none, none};
    EXPECT(smelt_model_output_shapes(model, inputs, found) == SMELT_OK);
    EXPECT(found[0] == 0 && found[1] == 4);
    EXPECT(smelt_model_run(model, inputs, &none) == SMELT_OK);
    return 0;
}

static int check_features(void) {
    static const char *const future[] = {"avx10.9", "amx-moon", NULL};
    smelt_model_info info = add_info;
    info.features = future;
    EXPECT(smelt_model_open(&info) == NULL);
    EXPECT(!strcmp(smelt_last_error(),
                   "add was compiled for a CPU with avx10.9, amx-moon, which this one lacks"));
    info = add_info;
    info.abi_version = 7;
    EXPECT(smelt_model_open(&info) == NULL);
    EXPECT(!strcmp(smelt_last_error(), "the model has ABI version 7, this runtime has 6"));
    return 0;
}

static void *run_often(void *argument) {
    smelt_model *model = argument;
    float x[4] = {1, 2, 3, 4}, z[4];
    int64_t shape[] = {1, 4};
    smelt_tensor in = {x, 2, shape, SMELT_FLOAT32}, out = {z, 2, shape, SMELT_FLOAT32};
    smelt_tensor inputs[] = {in, in};
    for (int i = 0; i < 2000; i++) {
        x[0] = (float)i;
        if (smelt_model_run(model, inputs, &out) != SMELT_OK || z[0] != 2 * x[0] + 100)
            return argument;
    }
    return NULL;
}

static int check_threads(smelt_model *model) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run_often, model);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        EXPECT(failed == NULL);
    }
    return 0;
}

int main(void) {
    smelt_model *model = add_open();
    EXPECT(model != NULL);
    EXPECT(smelt_model_input_count(model) == 2 && smelt_model_output_count(model) == 1);
    EXPECT(smelt_model_input(model, 2) == NULL);
    EXPECT(smelt_model_input(model, 0)->shape[0] == ~0 && smelt_model_input(model, 0)->rank == 2);
    float x[8], z[8];
    for (int i = 0; i < 8; i++)
        x[i] = (float)i;
    int64_t shape[] = {2, 4}, found[2];
    smelt_tensor input = {x, 2, shape, SMELT_FLOAT32}, output = {z, 2, found, SMELT_FLOAT32};
    smelt_tensor inputs[] = {input, input};
    EXPECT(smelt_model_output_shapes(model, inputs, found) == SMELT_OK);
    EXPECT(smelt_model_run(model, inputs, &output) == SMELT_OK);
    const smelt_tensor_info *info = smelt_model_output(model, 0);
    printf("%s %s [%d, %d]\n", info->name, smelt_dtype_name(info->dtype), (int)found[0],
           (int)found[1]);
    for (int i = 0; i < 8; i++)
        printf("%g%s", z[i], i < 7 ? " " : "\n");
    int64_t nanoseconds = -1;
    EXPECT(smelt_model_time(model, inputs, &output, 3, &nanoseconds) == SMELT_OK);
    EXPECT(nanoseconds >= 0);
    EXPECT(smelt_model_set_threads(model, 1) == SMELT_OK);
    EXPECT(smelt_model_run(model, inputs, &output) == SMELT_OK);
    if (check_errors(model, inputs, &output) || check_nothing(model) || check_features() ||
        check_threads(model))
        return 1;
    smelt_model_close(model);
    return 0;
}
