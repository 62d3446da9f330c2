/* startup.c: the beginning of a program on the boards mps2-an386 and mps2-an500 that QEMU emulates,
 * with output on the first serial line and an end by semihosting. */
#include <stddef.h>
#include <stdint.h>

extern uint32_t stack_top, data_load, data_start, data_end, bss_start, bss_end;
int main(void);
void put(char c);
void put_number(uint32_t value);
uint32_t ticks(void);
void reset(void);

#define WORD(address) (*(volatile uint32_t *)(address))
#define UART 0x40004000u
#define SYSTICK 0xE000E010u

void put(char c) {
    while (WORD(UART + 4) & 1u)
        continue;
    WORD(UART) = (uint32_t)(unsigned char)c;
}

void put_number(uint32_t value) {
    for (int shift = 28; shift >= 0; shift -= 4)
        put("0123456789abcdef"[value >> shift & 15u]);
    put('\n');
}

/* Down from 2^24 - 1, one tick in 40 instructions with -icount shift=0. */
uint32_t ticks(void) { return 0xFFFFFFu - WORD(SYSTICK + 8); }

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((volatile unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((volatile unsigned char *)to)[i] = (unsigned char)value;
    return to;
}

void reset(void) {
    WORD(0xE000ED88u) |= 0xFu << 20; /* the floating-point unit */
    for (uint32_t *to = &data_start, *from = &data_load; to < &data_end;)
        *to++ = *from++;
    for (uint32_t *to = &bss_start; to < &bss_end;)
        *to++ = 0;
    WORD(UART + 16) = 16;
    WORD(UART + 8) = 1;
    WORD(SYSTICK + 4) = 0xFFFFFF;
    WORD(SYSTICK + 8) = 0;
    WORD(SYSTICK) = 5;
    int status = main();
    register uint32_t what __asm__("r0") = 0x18; /* SYS_EXIT */
    register uint32_t why __asm__("r1") = status == 0 ? 0x20026u : 0x20023u;
    __asm__ volatile("bkpt 0xab" : : "r"(what), "r"(why));
    for (;;)
        continue;
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (const void *)reset};

float rintf(float x);
float rintf(float x) {
    volatile float shifted = x < 0 ? x - 8388608.0f : x + 8388608.0f;
    return x < 0 ? shifted + 8388608.0f : shifted - 8388608.0f;
}
