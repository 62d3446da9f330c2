/* The functions of CMSIS-NN that models made by smelt call.
 *
 * This is not Arm's header, and holds none of its text: it declares the same names, so that such
 * models can be compiled and tested without the library. portable_nn.c defines them, slowly. For a
 * device, compile against CMSIS-NN and link it. */
#ifndef ARM_NNFUNCTIONS_H
#define ARM_NNFUNCTIONS_H

#include "arm_nn_types.h"

#ifdef SMELT_CMSIS_NN_INLINE
#define SMELT_NN static
#else
#define SMELT_NN
#endif

#ifdef __cplusplus
extern "C" {
#endif

SMELT_NN arm_cmsis_nn_status arm_convolve_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_conv_params *params,
    const cmsis_nn_per_channel_quant_params *scales, const cmsis_nn_dims *input_dims,
    const int8_t *input, const cmsis_nn_dims *filter_dims, const int8_t *filter,
    const cmsis_nn_dims *bias_dims, const int32_t *bias, const cmsis_nn_dims *output_dims,
    int8_t *output);

SMELT_NN arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *params,
    const cmsis_nn_per_channel_quant_params *scales, const cmsis_nn_dims *input_dims,
    const int8_t *input, const cmsis_nn_dims *filter_dims, const int8_t *filter,
    const cmsis_nn_dims *bias_dims, const int32_t *bias, const cmsis_nn_dims *output_dims,
    int8_t *output);

SMELT_NN arm_cmsis_nn_status arm_fully_connected_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_fc_params *params,
    const cmsis_nn_per_tensor_quant_params *scale, const cmsis_nn_dims *input_dims,
    const int8_t *input, const cmsis_nn_dims *filter_dims, const int8_t *filter,
    const cmsis_nn_dims *bias_dims, const int32_t *bias, const cmsis_nn_dims *output_dims,
    int8_t *output);

SMELT_NN arm_cmsis_nn_status arm_avgpool_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,
    const cmsis_nn_dims *input_dims, const int8_t *input, const cmsis_nn_dims *filter_dims,
    const cmsis_nn_dims *output_dims, int8_t *output);

SMELT_NN arm_cmsis_nn_status arm_max_pool_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,
    const cmsis_nn_dims *input_dims, const int8_t *input, const cmsis_nn_dims *filter_dims,
    const cmsis_nn_dims *output_dims, int8_t *output);

SMELT_NN arm_cmsis_nn_status arm_elementwise_add_s8(
    const int8_t *a, const int8_t *b, int32_t a_offset, int32_t a_multiplier, int32_t a_shift,
    int32_t b_offset, int32_t b_multiplier, int32_t b_shift, int32_t left_shift, int8_t *output,
    int32_t offset, int32_t multiplier, int32_t shift, int32_t low, int32_t high, int32_t size);

SMELT_NN arm_cmsis_nn_status arm_elementwise_mul_s8(
    const int8_t *a, const int8_t *b, int32_t a_offset, int32_t b_offset, int8_t *output,
    int32_t offset, int32_t multiplier, int32_t shift, int32_t low, int32_t high, int32_t size);

SMELT_NN void arm_softmax_s8(const int8_t *input, int32_t rows, int32_t row_size,
                             int32_t multiplier, int32_t shift, int32_t diff_min, int8_t *output);

#ifdef __cplusplus
}
#endif

#ifdef SMELT_CMSIS_NN_INLINE
#include "portable_nn.c"
#endif

#endif
