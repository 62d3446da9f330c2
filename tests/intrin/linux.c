/* linux.c: a program without a C library for the user-mode emulators: write and exit. */
#include <stddef.h>

int run(void);

static long call(long number, long a, long b, long c) {
#if defined(__aarch64__)
    register long n __asm__("x8") = number;
    register long x __asm__("x0") = a;
    register long y __asm__("x1") = b;
    register long z __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x) : "r"(n), "r"(y), "r"(z) : "memory");
#elif defined(__riscv)
    register long n __asm__("a7") = number;
    register long x __asm__("a0") = a;
    register long y __asm__("a1") = b;
    register long z __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(x) : "r"(n), "r"(y), "r"(z) : "memory");
#else
#error "which system call is this?"
#endif
    return x;
}

void put(const void *data, size_t bytes) {
    call(64, 1, (long)data, (long)bytes); /* write(stdout) */
}

void _start(void) {
    call(94, run(), 0, 0); /* exit_group */
    for (;;) {}
}
