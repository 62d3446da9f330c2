/* process.c: the same with a C library and smelt's runtime: write, and the runtime's threads. */
#include "smelt.h"
#include <stdio.h>

int run(void);

void put(const void *data, size_t bytes) {
    fwrite(data, 1, bytes, stdout);
}

const smelt_host *host(void) {
    static smelt_host shared;
    static smelt_pool_view view;
    smelt_host_init(&shared, &view, 2);
    return &shared;
}

int main(void) {
    int status = run();
    return fflush(stdout) ? 1 : status;
}
