/* stdlib.h: what programs of smelt's need of it; there is no heap. */
#ifndef SMELT_STDLIB_H
#define SMELT_STDLIB_H
#define abs(x) __builtin_abs(x)
#define llabs(x) __builtin_llabs(x)
#endif
