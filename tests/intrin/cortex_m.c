/* cortex_m.c: start and semihosting of a Cortex-M board of the emulator.
 *
 * The emulator loads data where it belongs, so that nothing is copied at the start. */
#include <stddef.h>
#include <stdint.h>

int run(void);
extern char stack_top[];

static int semihost(int operation, const void *block) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void put(const void *data, size_t bytes) {
    static int out = -1;
    if (out < 0) {
        const uintptr_t open[3] = {(uintptr_t)":tt", 4, 3}; /* SYS_OPEN: the console, "w" */
        out = semihost(1, open);
    }
    const uintptr_t write[3] = {(uintptr_t)out, (uintptr_t)data, bytes};
    semihost(5, write); /* SYS_WRITE */
}

static void start(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: floating point and vectors on */
    __asm__ volatile("dsb\n isb");
    const uintptr_t status[2] = {0x20026, (uintptr_t)run()}; /* ADP_Stopped_ApplicationExit */
    semihost(0x20, status); /* SYS_EXIT_EXTENDED */
    for (;;) {}
}

static void fault(void) {
    const uintptr_t status[2] = {0x20026, 99};
    semihost(0x20, status);
    for (;;) {}
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    stack_top, (void *)start, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
    (void *)fault,
};
