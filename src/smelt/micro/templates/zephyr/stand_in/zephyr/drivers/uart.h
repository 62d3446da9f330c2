/* Stands in for Zephyr's uart.h: see kernel.h beside this folder. */
#ifndef STAND_IN_UART_H
#define STAND_IN_UART_H
struct device;
int uart_poll_in(const struct device *dev, unsigned char *byte);
void uart_poll_out(const struct device *dev, unsigned char byte);
#endif
