/* math.h: what programs without a C library need of it; startup.c has what the compiler lacks. */
#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
float rintf(float x);
float expf(float x);
