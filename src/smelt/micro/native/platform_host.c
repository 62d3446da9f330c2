/* platform_host.c: what smelt_serial.h asks of a platform, of a program with POSIX: the line is its
 * standard input and output. */
#define _POSIX_C_SOURCE 200809L
#include "smelt_serial.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define QUIET_MS 250

int smelt_get(void) {
    static uint8_t buffer[512];
    static ssize_t at, filled;
    if (at < filled) return buffer[at++];
    struct pollfd line = {.fd = STDIN_FILENO, .events = POLLIN};
    (void)fflush(stdout);
    if (poll(&line, 1, QUIET_MS) == 0) return SMELT_QUIET;
    at = 0;
    filled = read(STDIN_FILENO, buffer, sizeof buffer);
    return filled > 0 ? buffer[at++] : SMELT_CLOSED;
}

void smelt_put(uint8_t byte) { (void)putchar(byte); }

uint32_t smelt_ticks(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 10000000u + (uint64_t)now.tv_nsec / 100u);
}

uint32_t smelt_ticks_per_second(void) { return 10000000u; }

uint32_t smelt_stack_used(uint32_t *watched) {
    *watched = 0;
    return 0;
}
