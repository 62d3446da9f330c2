/* instructions.c: a plugin of QEMU that counts the instructions which an emulated program executes,
 * and prints their number when it ends. `-plugin FILE -d plugin -D OUT`.
 *
 * Source: QEMU's documentation of TCG plugins, version 1 of their interface, which QEMU 4.2 to 8.2
 * offer; packages of QEMU come without its header, so what is used of it is declared here.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SHOWN __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct block; /* instructions that are translated together */

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                                  void (*translated)(plugin_id, struct block *));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct block *block, int add_u64, void *to,
                                                     uint64_t number);
extern size_t qemu_plugin_tb_n_insns(const struct block *block);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void *), void *);
extern void qemu_plugin_outs(const char *text);

SHOWN int qemu_plugin_version = 1;
static uint64_t executed;

static void count(plugin_id id, struct block *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &executed, qemu_plugin_tb_n_insns(block));
}

static void print(plugin_id id, void *unused) {
    char text[32];
    (void)id, (void)unused;
    snprintf(text, sizeof text, "%" PRIu64 "\n", executed);
    qemu_plugin_outs(text);
}

SHOWN int qemu_plugin_install(plugin_id id, const void *info, int count_of, char **arguments) {
    (void)info, (void)count_of, (void)arguments;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count);
    qemu_plugin_register_atexit_cb(id, print, NULL);
    return 0;
}
