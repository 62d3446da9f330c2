/* smelt_serial.c: the frames of smelt_serial.h. Every length that comes is checked before use. */
#include "smelt_serial.h"

#define HEAD 5u

static const smelt_program *served;
static uint32_t last_tick;
static uint8_t frame[HEAD + SMELT_PAYLOAD_BYTES]; /* that came */
static uint8_t answer[SMELT_PAYLOAD_BYTES];

static uint32_t crc_of(uint32_t crc, const uint8_t *data, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1u ? 0xEDB88320u : 0u);
    }
    return crc;
}

static uint32_t word(const uint8_t *from, uint32_t bytes) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint32_t)from[i] << (8u * i);
    return value;
}

/* Each gives the place behind what it has written. */
static uint32_t put_word(uint32_t at, uint32_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        answer[at + i] = (uint8_t)(value >> (8u * i));
    return at + bytes;
}

static uint32_t put_text(uint32_t at, const char *text) {
    while (*text != 0 && at < SMELT_PAYLOAD_BYTES - 1u)
        answer[at++] = (uint8_t)*text++;
    return at;
}

static void send(uint8_t command, uint8_t sequence, const uint8_t *data, uint32_t count) {
    const uint8_t head[HEAD] = {SMELT_SERIAL_VERSION, command, sequence, (uint8_t)(count & 255u),
                                (uint8_t)(count >> 8)};
    const uint32_t crc = ~crc_of(crc_of(UINT32_MAX, head, HEAD), data, count);
    smelt_put(0xA5);
    smelt_put(0x5A);
    for (uint32_t i = 0; i < HEAD; i++)
        smelt_put(head[i]);
    for (uint32_t i = 0; i < count; i++)
        smelt_put(data[i]);
    for (uint32_t i = 0; i < 4; i++)
        smelt_put((uint8_t)(crc >> (8u * i)));
}

static int take(uint8_t *to, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const int c = smelt_get();
        if (c < 0) return c == SMELT_CLOSED ? SMELT_CLOSED : SMELT_TRUNCATED;
        to[i] = (uint8_t)c;
    }
    return SMELT_OK;
}

/* Waits for a frame; gives SMELT_OK, SMELT_CLOSED, or why it is refused. */
static int receive(void) {
    int before = 0, now = 0, status;
    uint8_t sum[4];
    while (!(before == 0xA5 && now == 0x5A)) {
        before = now;
        now = smelt_get();
        if (now == SMELT_CLOSED) return SMELT_CLOSED;
    }
    if ((status = take(frame, HEAD)) != SMELT_OK) return status;
    const uint32_t count = word(frame + 3, 2);
    if (count > SMELT_PAYLOAD_BYTES) return SMELT_TOO_LONG;
    if ((status = take(frame + HEAD, count)) != SMELT_OK) return status;
    if ((status = take(sum, 4)) != SMELT_OK) return status;
    if (word(sum, 4) != (uint32_t)~crc_of(UINT32_MAX, frame, HEAD + count)) return SMELT_BAD_CRC;
    return frame[0] == SMELT_SERIAL_VERSION ? SMELT_OK : SMELT_OTHER_VERSION;
}

static int hello(uint32_t *count) {
    uint32_t at = put_word(0, served->input_count, 2);
    at = put_word(at, served->output_count, 2);
    at = put_word(at, served->step_count, 2);
    at = put_word(at, smelt_ticks_per_second(), 4);
    at = put_word(at, served->workspace_bytes, 4);
    *count = put_text(at, served->name);
    return SMELT_OK;
}

static int describe(const uint8_t *given, uint32_t *count) {
    const uint32_t n = word(given + 1, 2);
    if (given[0] > 1 || n >= (given[0] ? served->output_count : served->input_count))
        return SMELT_BAD_NUMBER;
    const smelt_slot *slot = (given[0] ? served->outputs : served->inputs) + n;
    uint32_t at = put_word(0, slot->rank, 1);
    for (uint32_t i = 0; i < slot->rank; i++)
        at = put_word(at, slot->dims[i], 4);
    at = put_text(at, slot->dtype);
    at = put_word(at, 0, 1);
    *count = put_text(at, slot->name);
    return SMELT_OK;
}

static int inside(const smelt_slot *slot, uint32_t offset, uint32_t bytes) {
    return offset <= slot->bytes && bytes <= slot->bytes - offset;
}

static int write_input(const uint8_t *given, uint32_t bytes) {
    const uint32_t n = word(given, 2), offset = word(given + 2, 4);
    if (n >= served->input_count) return SMELT_BAD_NUMBER;
    if (!inside(served->inputs + n, offset, bytes)) return SMELT_BAD_RANGE;
    for (uint32_t i = 0; i < bytes; i++)
        ((uint8_t *)served->inputs[n].data)[offset + i] = given[6 + i];
    return SMELT_OK;
}

static int read_output(const uint8_t *given, uint32_t *count) {
    const uint32_t n = word(given, 2), offset = word(given + 2, 4), bytes = word(given + 6, 2);
    if (n >= served->output_count) return SMELT_BAD_NUMBER;
    if (bytes > SMELT_PAYLOAD_BYTES || !inside(served->outputs + n, offset, bytes))
        return SMELT_BAD_RANGE;
    for (uint32_t i = 0; i < bytes; i++)
        answer[i] = ((const uint8_t *)served->outputs[n].data)[offset + i];
    *count = bytes;
    return SMELT_OK;
}

static int run(uint32_t *count) {
    const uint32_t start = last_tick = smelt_ticks();
    const int32_t status = served->run();
    const uint32_t taken = smelt_ticks() - start;
    *count = put_word(put_word(0, (uint32_t)status, 4), taken, 4);
    return SMELT_OK;
}

static int ticks(uint32_t step, uint32_t *count) {
    if (step > served->step_count) return SMELT_BAD_NUMBER;
    while (step < served->step_count && *count + 4 <= SMELT_PAYLOAD_BYTES)
        *count = put_word(*count, served->step_ticks[step++], 4);
    return SMELT_OK;
}

static int stack(uint32_t *count) {
    uint32_t watched = 0;
    const uint32_t used = smelt_stack_used(&watched);
    *count = put_word(put_word(0, used, 4), watched, 4);
    return SMELT_OK;
}

/* Carries out a frame of `bytes` bytes of payload. */
static int carry_out(uint32_t bytes, uint32_t *count) {
    static const uint8_t needed[] = {0, 0, 3, 6, 0, 8, 2, 0, 0};
    const uint8_t command = frame[1], *given = frame + HEAD;
    if (command == 0 || command > SMELT_EXIT) return SMELT_UNKNOWN;
    if (command == SMELT_WRITE ? bytes < needed[command] : bytes != needed[command])
        return SMELT_BAD_LENGTH;
    switch (command) {
    case SMELT_HELLO: return hello(count);
    case SMELT_DESCRIBE: return describe(given, count);
    case SMELT_WRITE: return write_input(given, bytes - 6u);
    case SMELT_RUN: return run(count);
    case SMELT_READ: return read_output(given, count);
    case SMELT_TICKS: return ticks(word(given, 2), count);
    case SMELT_STACK: return stack(count);
    default: return SMELT_OK;
    }
}

void smelt_step_done(uint32_t step) {
    if (step < served->step_count) served->step_ticks[step] = smelt_ticks() - last_tick;
    last_tick = smelt_ticks();
}

void smelt_serve(const smelt_program *program) {
    int ended = 0;
    served = program;
    while (!ended) {
        uint32_t count = 0;
        int status = receive();
        if (status == SMELT_CLOSED) return;
        if (status == SMELT_OK) status = carry_out(word(frame + 3, 2), &count);
        if (status == SMELT_OK) {
            send((uint8_t)(frame[1] | 0x80u), frame[2], answer, count);
            ended = frame[1] == SMELT_EXIT;
        } else {
            const uint8_t why[2] = {(uint8_t)status, SMELT_SERIAL_VERSION};
            send(SMELT_REFUSED, frame[2], why, 2);
        }
    }
}
