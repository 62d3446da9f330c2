/* memory.c: what compilers call without being asked. */
#include <stddef.h>

__attribute__((no_builtin)) void *memcpy(void *to, const void *from, size_t bytes) {
    volatile char *t = to;
    const char *f = from;
    while (bytes--) *t++ = *f++;
    return to;
}

__attribute__((no_builtin)) void *memset(void *to, int value, size_t bytes) {
    volatile char *t = to;
    while (bytes--) *t++ = (char)value;
    return to;
}
