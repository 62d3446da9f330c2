/* string.h: what programs without a C library need of it; startup.c has it. */
#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int value, size_t size);
