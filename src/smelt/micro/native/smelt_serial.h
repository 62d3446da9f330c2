/* smelt_serial.h: a model that is served over a serial line, without a heap.
 *
 * A frame, numbers little-endian:
 *
 *     A5 5A | version u8 | command u8 | sequence u8 | bytes u16 | payload | CRC-32 u32
 *
 * The CRC (that of zlib) is over all between A5 5A and itself; the head and the CRC are the same in
 * all versions. Who is asked answers with the command + 0x80 and the same sequence, or with
 * SMELT_REFUSED: a reason u8, then this side's version u8. What is between frames is ignored.
 *
 *     HELLO                                       inputs u16, outputs u16, steps u16,
 *                                                 ticks per second u32, workspace u32, name
 *     DESCRIBE  of u8 (0 input, 1 output), n u16  rank u8, dims u32..., dtype, 0, name
 *     WRITE     input n u16, offset u32, bytes    -
 *     RUN                                         status i32, ticks u32
 *     READ      output n u16, offset u32, bytes u16  the bytes
 *     TICKS     first step u16                    u32 for each step, as many as fit
 *     STACK                                       used u32, watched u32; 0, 0: not known
 *     EXIT                                        -                                        */
#ifndef SMELT_SERIAL_H
#define SMELT_SERIAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SMELT_SERIAL_VERSION 1
#define SMELT_PAYLOAD_BYTES 264 /* at most: 256 of data and where they belong */

enum { SMELT_HELLO = 1, SMELT_DESCRIBE, SMELT_WRITE, SMELT_RUN, SMELT_READ, SMELT_TICKS,
       SMELT_STACK, SMELT_EXIT, SMELT_REFUSED = 0xFF };

/* Why a frame is refused. */
enum { SMELT_OK, SMELT_BAD_CRC, SMELT_TRUNCATED, SMELT_TOO_LONG, SMELT_OTHER_VERSION,
       SMELT_UNKNOWN, SMELT_BAD_LENGTH, SMELT_BAD_NUMBER, SMELT_BAD_RANGE };

typedef struct {
    const char *name;
    const char *dtype;
    void *data;
    uint32_t bytes;
    const uint32_t *dims;
    uint8_t rank; /* at most 16 */
} smelt_slot;

typedef struct {
    const char *name;
    const smelt_slot *inputs;
    const smelt_slot *outputs;
    uint16_t input_count;
    uint16_t output_count;
    uint16_t step_count;
    uint32_t *step_ticks; /* of the last run */
    uint32_t workspace_bytes;
    int32_t (*run)(void); /* 0 on success */
} smelt_program;

/* Answers until the line is closed, or until it is asked to end. */
void smelt_serve(const smelt_program *program);

/* For the macro that stands after each kernel: NET_STEP_DONE(step). */
void smelt_step_done(uint32_t step);

/* What the platform gives. */
enum { SMELT_QUIET = -1, SMELT_CLOSED = -2 };
int smelt_get(void);          /* the next byte; SMELT_QUIET: none came for a while */
void smelt_put(uint8_t byte); /* may keep it until smelt_get is called */
uint32_t smelt_ticks(void);   /* of a clock that only goes on, modulo 2^32 */
uint32_t smelt_ticks_per_second(void);
uint32_t smelt_stack_used(uint32_t *watched); /* bytes; both 0: not known */

#ifdef __cplusplus
}
#endif

#endif
