/* Runs the model on numbers of its own, and prints the results: a line for each output. */
#include <stdio.h>

#include "example.h"

int main(void) {
    const int32_t status = example_run();
    if (status != 0) return 1;
    for (uint32_t output = 0; output < example_outputs(); output++) {
        printf("output %u", (unsigned)output);
        for (uint32_t i = 0; i < example_count(output); i++)
            printf(" %.6f", example_value(output, i));
        printf("\n");
    }
    return 0;
}
