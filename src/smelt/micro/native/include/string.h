/* string.h: what programs of smelt's need of it. */
#ifndef SMELT_STRING_H
#define SMELT_STRING_H
#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int value, size_t size);
#endif
