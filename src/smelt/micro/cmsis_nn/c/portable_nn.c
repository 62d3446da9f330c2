/* What CMSIS-NN's functions compute, in plain C: to test a model where the library is not.
 *
 * Written by smelt from the definition of TFLite's quantized operators; it is not Arm's code, and
 * has none of its speed. It computes what TFLite does, number for number. CMSIS-NN rounds results
 * of arm_fully_connected_s8 twice, TFLite once: these may differ by 1 from the library's. */
#include "arm_nnfunctions.h"

/* The upper half of a product, doubled, rounded, halves up; saturated. */
static int32_t nn_high(int32_t a, int32_t b) {
    if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

/* x / 2^bits to the nearest number, halves away from zero. */
static int32_t nn_divided(int32_t x, int32_t bits) {
    const int64_t half = bits > 0 ? (int64_t)1 << (bits - 1) : 0;
    return (int32_t)((x + half - (x < 0 && bits > 0)) >> bits);
}

/* x times a factor, rounded twice. */
static int32_t nn_scaled(int32_t x, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? (int32_t)((uint32_t)x << shift) : x;
    return nn_divided(nn_high(left, multiplier), shift < 0 ? -shift : 0);
}

/* x times a factor, rounded once, halves up. */
static int32_t nn_scaled_once(int32_t x, int32_t multiplier, int32_t shift) {
    const int32_t bits = 31 - shift;
    return (int32_t)(((int64_t)x * multiplier + ((int64_t)1 << (bits - 1))) >> bits);
}

static int8_t nn_held(int32_t x, cmsis_nn_activation range) {
    return (int8_t)(x < range.min ? range.min : x > range.max ? range.max : x);
}

/* One result of a convolution: of channels `first` to `first + depth` with a filter whose elements
 * stand `step` apart. */
static int32_t nn_window(const int8_t *input, const cmsis_nn_dims *in, const int8_t *filter,
                         const cmsis_nn_dims *kernel, cmsis_nn_tile dilation, int32_t offset,
                         int32_t top, int32_t left, int32_t first, int32_t depth, int32_t step) {
    int32_t sum = 0;
    for (int32_t y = 0; y < kernel->h; ++y) {
        const int32_t row = top + y * dilation.h;
        if (row < 0 || row >= in->h) continue;
        for (int32_t x = 0; x < kernel->w; ++x) {
            const int32_t column = left + x * dilation.w;
            if (column < 0 || column >= in->w) continue;
            const int8_t *pixel = input + (row * in->w + column) * in->c + first;
            const int8_t *taps = filter + (y * kernel->w + x) * step;
            for (int32_t c = 0; c < depth; ++c) sum += (pixel[c] + offset) * taps[c];
        }
    }
    return sum;
}

/* A convolution; each result is of `depth` channels from `c / params->ch_mult`. Filters of two
 * results begin `apart` elements from each other, and have theirs `step` apart. */
static arm_cmsis_nn_status nn_convolve(
    const cmsis_nn_dw_conv_params *params, const cmsis_nn_per_channel_quant_params *scales,
    const cmsis_nn_dims *in, const int8_t *input, const cmsis_nn_dims *kernel,
    const int8_t *filter, int32_t apart, int32_t depth, int32_t step, const int32_t *bias,
    const cmsis_nn_dims *out, int8_t *output) {
    for (int32_t n = 0; n < in->n; ++n) {
        for (int32_t y = 0; y < out->h; ++y) {
            const int32_t top = y * params->stride.h - params->padding.h;
            for (int32_t x = 0; x < out->w; ++x) {
                const int32_t left = x * params->stride.w - params->padding.w;
                for (int32_t c = 0; c < out->c; ++c) {
                    int32_t sum = nn_window(input, in, filter + c * apart, kernel,
                                            params->dilation, params->input_offset, top, left,
                                            c / params->ch_mult, depth, step);
                    sum += bias ? bias[c] : 0;
                    sum = nn_scaled(sum, scales->multiplier[c], scales->shift[c]);
                    *output++ = nn_held(sum + params->output_offset, params->activation);
                }
            }
        }
        input += in->h * in->w * in->c;
    }
    return ARM_CMSIS_NN_SUCCESS;
}

SMELT_NN arm_cmsis_nn_status arm_convolve_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_conv_params *params,
    const cmsis_nn_per_channel_quant_params *scales, const cmsis_nn_dims *input_dims,
    const int8_t *input, const cmsis_nn_dims *filter_dims, const int8_t *filter,
    const cmsis_nn_dims *bias_dims, const int32_t *bias, const cmsis_nn_dims *output_dims,
    int8_t *output) {
    const int32_t depth = input_dims->c;
    /* As many results per channel as there are: all of them begin at channel 0. */
    const cmsis_nn_dw_conv_params one = {
        .input_offset = params->input_offset, .output_offset = params->output_offset,
        .ch_mult = output_dims->c,            .stride = params->stride,
        .padding = params->padding,           .dilation = params->dilation,
        .activation = params->activation};
    (void)ctx;
    (void)bias_dims;
    return nn_convolve(&one, scales, input_dims, input, filter_dims, filter,
                       filter_dims->h * filter_dims->w * filter_dims->c, depth, depth, bias,
                       output_dims, output);
}

SMELT_NN arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *params,
    const cmsis_nn_per_channel_quant_params *scales, const cmsis_nn_dims *input_dims,
    const int8_t *input, const cmsis_nn_dims *filter_dims, const int8_t *filter,
    const cmsis_nn_dims *bias_dims, const int32_t *bias, const cmsis_nn_dims *output_dims,
    int8_t *output) {
    (void)ctx;
    (void)bias_dims;
    return nn_convolve(params, scales, input_dims, input, filter_dims, filter, 1, 1,
                       output_dims->c, bias, output_dims, output);
}

SMELT_NN arm_cmsis_nn_status arm_fully_connected_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_fc_params *params,
    const cmsis_nn_per_tensor_quant_params *scale, const cmsis_nn_dims *input_dims,
    const int8_t *input, const cmsis_nn_dims *filter_dims, const int8_t *filter,
    const cmsis_nn_dims *bias_dims, const int32_t *bias, const cmsis_nn_dims *output_dims,
    int8_t *output) {
    const int32_t depth = filter_dims->n;
    (void)ctx;
    (void)bias_dims;
    for (int32_t n = 0; n < input_dims->n; ++n, input += depth) {
        for (int32_t c = 0; c < output_dims->c; ++c) {
            int32_t sum = bias ? bias[c] : 0;
            for (int32_t k = 0; k < depth; ++k) {
                const int32_t weight = filter[c * depth + k] + params->filter_offset;
                sum += (input[k] + params->input_offset) * weight;
            }
            sum = nn_scaled_once(sum, scale->multiplier, scale->shift);
            *output++ = nn_held(sum + params->output_offset, params->activation);
        }
    }
    return ARM_CMSIS_NN_SUCCESS;
}

/* Pools; mean: of the pixels inside of the image, halves away from zero. */
static arm_cmsis_nn_status nn_pool(int mean, const cmsis_nn_pool_params *params,
                                   const cmsis_nn_dims *in, const int8_t *input,
                                   const cmsis_nn_dims *kernel, const cmsis_nn_dims *out,
                                   int8_t *output) {
    for (int32_t at = 0; at < in->n * out->h * out->w * out->c; ++at) {
        const int32_t c = at % out->c, x = at / out->c % out->w, y = at / out->c / out->w % out->h;
        const int8_t *image = input + at / out->c / out->w / out->h * in->h * in->w * in->c;
        const int32_t top = y * params->stride.h - params->padding.h;
        const int32_t left = x * params->stride.w - params->padding.w;
        int32_t sum = 0, count = 0, most = -128;
        for (int32_t row = top; row < top + kernel->h; ++row) {
            for (int32_t column = left; column < left + kernel->w; ++column) {
                if (row < 0 || row >= in->h || column < 0 || column >= in->w) continue;
                const int32_t value = image[(row * in->w + column) * in->c + c];
                most = value > most ? value : most;
                sum += value;
                ++count;
            }
        }
        if (mean && count == 0) return ARM_CMSIS_NN_ARG_ERROR;
        if (mean) most = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
        output[at] = nn_held(most, params->activation);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

SMELT_NN arm_cmsis_nn_status arm_avgpool_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,
    const cmsis_nn_dims *input_dims, const int8_t *input, const cmsis_nn_dims *filter_dims,
    const cmsis_nn_dims *output_dims, int8_t *output) {
    (void)ctx;
    return nn_pool(1, params, input_dims, input, filter_dims, output_dims, output);
}

SMELT_NN arm_cmsis_nn_status arm_max_pool_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,
    const cmsis_nn_dims *input_dims, const int8_t *input, const cmsis_nn_dims *filter_dims,
    const cmsis_nn_dims *output_dims, int8_t *output) {
    (void)ctx;
    return nn_pool(0, params, input_dims, input, filter_dims, output_dims, output);
}

SMELT_NN arm_cmsis_nn_status arm_elementwise_add_s8(
    const int8_t *a, const int8_t *b, int32_t a_offset, int32_t a_multiplier, int32_t a_shift,
    int32_t b_offset, int32_t b_multiplier, int32_t b_shift, int32_t left_shift, int8_t *output,
    int32_t offset, int32_t multiplier, int32_t shift, int32_t low, int32_t high, int32_t size) {
    const cmsis_nn_activation range = {low, high};
    for (int32_t n = 0; n < size; ++n) {
        const int32_t x = (a[n] + a_offset) * ((int32_t)1 << left_shift);
        const int32_t y = (b[n] + b_offset) * ((int32_t)1 << left_shift);
        const int32_t sum =
            nn_scaled(x, a_multiplier, a_shift) + nn_scaled(y, b_multiplier, b_shift);
        output[n] = nn_held(nn_scaled(sum, multiplier, shift) + offset, range);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

SMELT_NN arm_cmsis_nn_status arm_elementwise_mul_s8(
    const int8_t *a, const int8_t *b, int32_t a_offset, int32_t b_offset, int8_t *output,
    int32_t offset, int32_t multiplier, int32_t shift, int32_t low, int32_t high, int32_t size) {
    const cmsis_nn_activation range = {low, high};
    for (int32_t n = 0; n < size; ++n) {
        const int32_t product = (a[n] + a_offset) * (b[n] + b_offset);
        output[n] = nn_held(nn_scaled(product, multiplier, shift) + offset, range);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

/* exp of a number up to 0 with 5 integer bits, without integer bits: of its quarters by a
 * polynomial, of the powers of two above by factors. */
static int32_t nn_exp(int32_t a) {
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308,
                                       39332535,   720401,     242};
    const int32_t quarter = 1 << 24, rest = (a & (quarter - 1)) - quarter, away = rest - a;
    const int32_t x = (int32_t)((uint32_t)rest << 5) + (1 << 28), x2 = nn_high(x, x);
    const int32_t x3 = nn_high(x2, x), x4 = nn_high(x2, x2);
    const int32_t high = nn_divided(nn_high(nn_divided(x4, 2) + x3, 715827883) + x2, 1);
    int32_t y = 1895147668 + nn_high(1895147668, x + high);
    if (a == 0) return INT32_MAX;
    for (int32_t n = 0; n < 7; ++n) {
        if (away & (quarter << n)) y = nn_high(y, factors[n]);
    }
    return y;
}

/* 1 / (2 half) of a number from 1/2 to 1, without integer bits: three of Newton's steps. */
static int32_t nn_reciprocal(int32_t half) {
    int64_t y = (int64_t)1515870810 + nn_high(half, -1010580540);
    for (int32_t n = 0; n < 3; ++n) {
        const int32_t rest = (1 << 29) - nn_high(half, (int32_t)y);
        y += (int64_t)nn_high((int32_t)y, rest) * 4;
    }
    return 2 * y > INT32_MAX ? INT32_MAX : (int32_t)(2 * y);
}

SMELT_NN void arm_softmax_s8(const int8_t *input, int32_t rows, int32_t row_size,
                             int32_t multiplier, int32_t shift, int32_t diff_min, int8_t *output) {
    const cmsis_nn_activation range = {-128, 127};
    for (int32_t row = 0; row < rows; ++row, input += row_size, output += row_size) {
        int32_t most = -128, sum = 0, free = 0;
        for (int32_t n = 0; n < row_size; ++n) most = input[n] > most ? input[n] : most;
        for (int32_t n = 0; n < row_size; ++n) {
            const int32_t away = input[n] - most;
            if (away >= diff_min) sum += nn_divided(nn_exp(nn_scaled(away, multiplier, shift)), 12);
        }
        while (((uint32_t)sum << free) < 0x80000000u) ++free;
        const int32_t share = nn_reciprocal((int32_t)(((uint32_t)sum << free) >> 1));
        for (int32_t n = 0; n < row_size; ++n) {
            const int32_t away = input[n] - most;
            const int32_t e =
                away >= diff_min ? nn_exp(nn_scaled(away, multiplier, shift)) : 0;
            const int32_t bits = 12 + 31 - 8 - free;
            const int64_t y = ((int64_t)nn_high(share, e) + ((int64_t)1 << (bits - 1))) >> bits;
            output[n] = nn_held((int32_t)y - 128, range);
        }
    }
}
