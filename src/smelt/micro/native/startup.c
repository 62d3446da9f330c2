/* startup.c: the beginning of a program on Arm's boards MPS2 and MPS3, as QEMU emulates them: the
 * first serial line (CMSDK's UART), the clock of the processor (SysTick), an end by semihosting. */
#include "board.h"
#include "smelt_serial.h"

extern uint32_t stack_top, stack_limit, data_load, data_start, data_end, bss_start, bss_end;
int main(void);
void reset(void);

#define WORD(address) (*(volatile uint32_t *)(address))
#define SYSTICK 0xE000E010u
#define ROUND 0x1000000u  /* ticks of SysTick from one interrupt to the next */
#define QUIET 2000000u    /* ticks without a byte after which a frame is given up */
#define PAINT 0x5AC3E196u /* what the stack is filled with: no byte of it is like another */

static volatile uint32_t rounds;

int smelt_get(void) {
    const uint32_t start = smelt_ticks();
    while (!(WORD(BOARD_UART + 4) & 2u))
        if (smelt_ticks() - start > QUIET) return SMELT_QUIET;
    return (int)(WORD(BOARD_UART) & 255u);
}

void smelt_put(uint8_t byte) {
    while (WORD(BOARD_UART + 4) & 1u)
        continue;
    WORD(BOARD_UART) = byte;
}

uint32_t smelt_ticks(void) {
    uint32_t before, left;
    do {
        before = rounds;
        left = WORD(SYSTICK + 8);
    } while (before != rounds);
    return before * ROUND + (ROUND - 1u - left);
}

uint32_t smelt_ticks_per_second(void) { return BOARD_HZ; }

uint32_t smelt_stack_used(uint32_t *watched) {
    const volatile uint32_t *at = &stack_limit;
    while (at < &stack_top && *at == PAINT)
        at++;
    *watched = (uint32_t)((uintptr_t)&stack_top - (uintptr_t)&stack_limit);
    return (uint32_t)((uintptr_t)&stack_top - (uintptr_t)at);
}

static void next_round(void) { rounds = rounds + 1u; }

static void leave(uint32_t why) {
    register uint32_t what __asm__("r0") = 0x18; /* SYS_EXIT */
    register uint32_t reason __asm__("r1") = why;
    __asm__ volatile("bkpt 0xab" : : "r"(what), "r"(reason) : "memory");
    for (;;)
        continue;
}

static void fault(void) { leave(0x20023u); } /* ADP_Stopped_RunTimeErrorUnknown */

void reset(void) {
    volatile uint32_t *to;
    const uint32_t *from = &data_load;
    uint32_t *stack_pointer;
    WORD(0xE000ED88u) |= 0xFu << 20; /* floating point, and vectors, where they are there */
    __asm__ volatile("dsb\n isb\n mov %0, sp" : "=r"(stack_pointer));
    for (to = &data_start; to < &data_end;)
        *to++ = *from++;
    for (to = &bss_start; to < &bss_end;)
        *to++ = 0;
    for (to = &stack_limit; to < stack_pointer;)
        *to++ = PAINT;
    WORD(BOARD_UART + 16) = 16; /* the divider of its clock */
    WORD(BOARD_UART + 8) = 3;   /* send and receive */
    WORD(SYSTICK + 4) = ROUND - 1u;
    WORD(SYSTICK + 8) = 0;
    WORD(SYSTICK) = 7;
    leave(main() == 0 ? 0x20026u : 0x20023u); /* ADP_Stopped_ApplicationExit */
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top,         (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault, (const void *)fault,
    0, 0, 0, (const void *)fault, (const void *)fault, 0, (const void *)fault,
    (const void *)next_round};
