/* error.c: the text of the last failure of each thread, and names for messages. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[512];

int32_t smelt_fail(int32_t status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

const char *smelt_last_error(void) { return last_error; }

const char *smelt_status_name(int32_t status) {
    switch (status) {
    case SMELT_OK: return "success";
    case SMELT_FAILED: return "a kernel failed";
    case SMELT_NO_MEMORY: return "out of memory";
    case SMELT_BAD_SHAPE: return "sizes that the model does not accept";
    case SMELT_BAD_DTYPE: return "a wrong element type";
    case SMELT_BAD_INDEX: return "an index outside of its operand";
    case SMELT_BAD_ARGUMENT: return "a wrong argument";
    case SMELT_BAD_FILE: return "missing or damaged constants";
    case SMELT_CPU_LACKS: return "this CPU lacks a feature";
    case SMELT_BAD_ABI: return "another ABI version";
    case SMELT_UNSUPPORTED: return "something this runtime does not have";
    case SMELT_BAD_VALUE: return "a computed value that means nothing";
    case SMELT_CANCELLED: return "cancelled";
    default: return "an unknown status";
    }
}

const char *smelt_dtype_name(int32_t dtype) {
    switch (dtype) {
    case SMELT_BOOL: return "bool";
    case SMELT_INT8: return "int8";
    case SMELT_INT16: return "int16";
    case SMELT_INT32: return "int32";
    case SMELT_INT64: return "int64";
    case SMELT_UINT8: return "uint8";
    case SMELT_UINT16: return "uint16";
    case SMELT_UINT32: return "uint32";
    case SMELT_UINT64: return "uint64";
    case SMELT_FLOAT16: return "float16";
    case SMELT_FLOAT32: return "float32";
    case SMELT_FLOAT64: return "float64";
    case SMELT_BFLOAT16: return "bfloat16";
    case SMELT_FLOAT8_E4M3FN: return "float8_e4m3fn";
    case SMELT_FLOAT8_E4M3FNUZ: return "float8_e4m3fnuz";
    case SMELT_FLOAT8_E5M2: return "float8_e5m2";
    case SMELT_FLOAT8_E5M2FNUZ: return "float8_e5m2fnuz";
    case SMELT_FLOAT8_E8M0FNU: return "float8_e8m0fnu";
    case SMELT_FLOAT4_E2M1FN: return "float4_e2m1fn";
    case SMELT_INT4: return "int4";
    case SMELT_UINT4: return "uint4";
    case SMELT_INT2: return "int2";
    case SMELT_UINT2: return "uint2";
    case SMELT_COMPLEX64: return "complex64";
    case SMELT_COMPLEX128: return "complex128";
    default: return "unknown dtype";
    }
}
