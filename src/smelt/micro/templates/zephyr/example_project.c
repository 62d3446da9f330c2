/* Runs the model on numbers of its own, and prints the results: a line for each output. */
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "example.h"

int main(void) {
    for (;;) {
        const int64_t start = k_uptime_get();
        const int32_t status = example_run();
        const int64_t taken = k_uptime_get() - start;
        if (status != 0)
            printk("failed with status %d\n", (int)status);
        for (uint32_t output = 0; output < example_outputs(); output++) {
            printk("output %u", (unsigned)output);
            for (uint32_t i = 0; i < example_count(output); i++)
                printk(" %f", example_value(output, i));
            printk("\n");
        }
        printk("milliseconds %d\n", (int)taken);
        k_msleep(1000);
    }
    return 0;
}
