/* main.c: runs an exported model, two rows at once. Its header says what it takes and gives. */
#include "net.h"
#include <stdio.h>

int main(void) {
    float x[2][4] = {{1, 2, 3, 4}, {4, 3, 2, 1}}, y[2][3];
    int64_t x_shape[] = {2, 4}, y_shape[] = {2, 3};
    smelt_tensor input = {x, 2, x_shape, SMELT_FLOAT32};
    smelt_tensor output = {y, 2, y_shape, SMELT_FLOAT32};
    smelt_model *model = net_open();
    if (model == NULL || smelt_model_run(model, &input, &output) != SMELT_OK) {
        fprintf(stderr, "%s\n", smelt_last_error());
        return 1;
    }
    for (int row = 0; row < 2; row++)
        printf("%.3f %.3f %.3f\n", y[row][0], y[row][1], y[row][2]);
    smelt_model_close(model);
    return 0;
}
