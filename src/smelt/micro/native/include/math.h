/* math.h: what the compiler's own library or freestanding.c has of it. A function that is declared
 * here and is in neither is an error of the linker's, which names it. */
#ifndef SMELT_MATH_H
#define SMELT_MATH_H
#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
#define fabs(x) __builtin_fabs(x)
#define fabsf(x) __builtin_fabsf(x)
#define copysign(x, y) __builtin_copysign(x, y)
#define copysignf(x, y) __builtin_copysignf(x, y)
#define SMELT_ONE(name) double name(double x); float name##f(float x);
#define SMELT_TWO(name) double name(double x, double y); float name##f(float x, float y);
SMELT_ONE(exp) SMELT_ONE(exp2) SMELT_ONE(expm1) SMELT_ONE(log) SMELT_ONE(log2) SMELT_ONE(log10)
SMELT_ONE(log1p) SMELT_ONE(sqrt) SMELT_ONE(tanh) SMELT_ONE(erf) SMELT_ONE(sin) SMELT_ONE(cos)
SMELT_ONE(tan) SMELT_ONE(asin) SMELT_ONE(acos) SMELT_ONE(atan) SMELT_ONE(sinh) SMELT_ONE(cosh)
SMELT_ONE(asinh) SMELT_ONE(acosh) SMELT_ONE(atanh) SMELT_ONE(floor) SMELT_ONE(ceil)
SMELT_ONE(trunc) SMELT_ONE(round) SMELT_ONE(rint) SMELT_ONE(nearbyint)
SMELT_TWO(atan2) SMELT_TWO(pow) SMELT_TWO(fmod) SMELT_TWO(nextafter) SMELT_TWO(hypot)
SMELT_TWO(fmin) SMELT_TWO(fmax)
double fma(double x, double y, double z);
float fmaf(float x, float y, float z);
double ldexp(double x, int power);
double frexp(double x, int *power);
#endif
