/* The functions of the Ethos-U driver that models made by smelt call.
 *
 * This is not Arm's header, and holds none of its text: it declares the same names, so that such
 * sources can be compiled without the driver. For a device, compile against Arm's core driver. */
#ifndef ETHOSU_DRIVER_H
#define ETHOSU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ethosu_driver;

struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *driver);
int ethosu_invoke_v3(struct ethosu_driver *driver, const void *commands, const int size,
                     uint64_t *const bases, const size_t *base_sizes, const int count,
                     void *user_arg);

#ifdef __cplusplus
}
#endif

#endif
