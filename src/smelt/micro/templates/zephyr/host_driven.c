/* Serves the model over the console's serial line: smelt_serial.h describes the protocol. */
#include <zephyr/device.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/kernel.h>

#include "smelt_serial.h"

#define QUIET_MS 250

static const struct device *const uart = DEVICE_DT_GET(DT_CHOSEN(zephyr_console));

int smelt_main(void);

int smelt_get(void) {
    unsigned char byte;
    const int64_t start = k_uptime_get();
    while (uart_poll_in(uart, &byte) != 0) {
        if (k_uptime_get() - start > QUIET_MS) return SMELT_QUIET;
    }
    return byte;
}

void smelt_put(uint8_t byte) { uart_poll_out(uart, byte); }

uint32_t smelt_ticks(void) { return k_cycle_get_32(); }

uint32_t smelt_ticks_per_second(void) { return (uint32_t)sys_clock_hw_cycles_per_sec(); }

uint32_t smelt_stack_used(uint32_t *watched) {
    *watched = 0;
    return 0;
}

int main(void) {
    for (;;)
        smelt_main();
    return 0;
}
