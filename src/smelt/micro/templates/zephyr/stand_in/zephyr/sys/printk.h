/* Stands in for Zephyr's printk.h: see kernel.h beside this folder. */
#ifndef STAND_IN_PRINTK_H
#define STAND_IN_PRINTK_H
void printk(const char *format, ...);
#endif
