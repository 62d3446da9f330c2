/* simavr_serial.c: runs a program on an emulated AVR; its first serial line is this program's
 * standard input and output. Arguments: the program (ELF), the processor, ticks per second.
 * Ends when its input is closed, or when the program crashes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>

#define STEPS 2000 /* between two looks at the input */

static int ready = 1; /* whether the line takes a byte */

static void wrote(struct avr_irq_t *irq, uint32_t value, void *param) {
    const uint8_t byte = (uint8_t)value;
    (void)irq, (void)param;
    if (write(STDOUT_FILENO, &byte, 1) != 1) exit(0);
}

static void set_ready(struct avr_irq_t *irq, uint32_t value, void *param) {
    (void)irq, (void)value;
    ready = param != NULL;
}

int main(int argc, char **argv) {
    static elf_firmware_t firmware;
    static uint8_t waiting[4096];
    ssize_t at = 0, filled = 0;
    uint32_t flags = 0;
    if (argc != 4 || elf_read_firmware(argv[1], &firmware) != 0) {
        fprintf(stderr, "simavr_serial: PROGRAM PROCESSOR HERTZ\n");
        return 2;
    }
    avr_t *avr = avr_make_mcu_by_name(argv[2]);
    if (avr == NULL) {
        fprintf(stderr, "simavr_serial: simavr has no %s\n", argv[2]);
        return 2;
    }
    avr_init(avr);
    avr_load_firmware(avr, &firmware);
    avr->frequency = (uint32_t)strtoul(argv[3], NULL, 10);
    avr_ioctl(avr, AVR_IOCTL_UART_GET_FLAGS('0'), &flags);
    flags &= ~(uint32_t)(AVR_UART_FLAG_STDIO | AVR_UART_FLAG_POLL_SLEEP);
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
    avr_irq_t *input = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), wrote,
                            NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUT_XON),
                            set_ready, &ready);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUT_XOFF),
                            set_ready, NULL);
    fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    for (;;) {
        for (int i = 0; i < STEPS; i++) {
            const int state = avr_run(avr);
            if (state == cpu_Done || state == cpu_Crashed) return state == cpu_Crashed;
        }
        if (at == filled) {
            at = 0;
            filled = read(STDIN_FILENO, waiting, sizeof waiting);
            if (filled == 0) return 0;
            if (filled < 0) filled = 0;
        }
        while (ready && at < filled)
            avr_raise_irq(input, waiting[at++]);
    }
}
