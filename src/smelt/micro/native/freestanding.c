/* freestanding.c: the functions of a C library that programs of smelt's need and compilers without
 * one lack. Those in float take the way through double, which keeps them right to the last bits. */
#include <math.h>
#include <string.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t i = 0; i < size; i++) /* volatile: or the loop would become a call of memcpy */
        ((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((volatile unsigned char *)to)[i] = (unsigned char)value;
    return to;
}

double rint(double x) {
    volatile double shifted;
    if (!(fabs(x) < 4503599627370496.0)) return x;
    shifted = fabs(x) + 4503599627370496.0;
    return copysign(shifted - 4503599627370496.0, x);
}

float rintf(float x) {
    volatile float shifted;
    if (!(fabsf(x) < 8388608.0f)) return x;
    shifted = fabsf(x) + 8388608.0f;
    return copysignf(shifted - 8388608.0f, x);
}

float nearbyintf(float x) { return rintf(x); }

double nearbyint(double x) { return rint(x); }

float tanhf(float x) {
    const double a = fabs((double)x), e = exp(2.0 * a);
    const double y = a < 1e-3 ? a - a * a * a / 3.0 : a > 20.0 ? 1.0 : (e - 1.0) / (e + 1.0);
    return x == x ? copysignf((float)y, x) : x;
}

float powf(float x, float y) {
    const double a = fabs((double)x), power = exp2((double)y * log2(a));
    if (y == 0.0f || x == 1.0f) return 1.0f;
    if (x < 0.0f && y != rintf(y)) return NAN;
    return x < 0.0f && fmodf(y, 2.0f) != 0.0f ? -(float)power : (float)power;
}
