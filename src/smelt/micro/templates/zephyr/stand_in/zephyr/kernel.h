/* Stands in for Zephyr's kernel.h where there is no Zephyr: what smelt's sources use of it, so that
 * they can be compiled. Nothing here is Zephyr's, and nothing runs. */
#ifndef STAND_IN_KERNEL_H
#define STAND_IN_KERNEL_H
#include <stdint.h>
int64_t k_uptime_get(void);
int32_t k_msleep(int32_t ms);
uint32_t k_cycle_get_32(void);
int sys_clock_hw_cycles_per_sec(void);
#endif
