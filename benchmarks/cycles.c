/* cycles.c: a plugin of QEMU that estimates the cycles of a Cortex-M4 from the instructions that an
 * emulated program executes in some of its functions.
 * `-plugin FILE,ranges=TEXT -d plugin -D OUT`; TEXT has a line of two hexadecimal addresses for each
 * function. Prints instructions and cycles when the program ends.
 *
 * Sources: Cortex-M4 Technical Reference Manual (DDI 0439), instruction set summary; encodings:
 * Armv7-M Architecture Reference Manual (DDI 0403); QEMU's documentation of TCG plugins, version 1 of
 * their interface, whose header packages do not bring. Memory has no wait states here; a branch that
 * is taken refills the pipeline in 2 cycles (the manual says 1 to 3), a division takes 7 (2 to 12).
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
#define REFILL 2

typedef uint64_t plugin_id;
struct block;
struct insn;

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                                  void (*translated)(plugin_id, struct block *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct block *block,
                                                 void (*run)(unsigned, void *), int flags,
                                                 void *data);
extern size_t qemu_plugin_tb_n_insns(const struct block *block);
extern struct insn *qemu_plugin_tb_get_insn(const struct block *block, size_t n);
extern const void *qemu_plugin_insn_data(const struct insn *insn);
extern size_t qemu_plugin_insn_size(const struct insn *insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct insn *insn);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void *), void *);
extern void qemu_plugin_outs(const char *text);

SHOWN int qemu_plugin_version = 1;

struct run {
    uint64_t begin, end;
    uint32_t instructions, cycles;
};
static struct {
    uint64_t begin, end;
} ranges[1024];
static size_t range_count;
static uint64_t instructions, cycles, last_end;

static unsigned ones(unsigned bits) {
    unsigned n = 0;
    for (; bits; bits &= bits - 1)
        n++;
    return n;
}

/* Cycles of an instruction; *memory: whether it is a load or store of one register, which follows
 * the one before it in the pipeline. */
static unsigned cost(const uint8_t *code, size_t size, int *memory) {
    const unsigned a = code[0] | (unsigned)code[1] << 8;
    *memory = 0;
    if (size == 2) {
        const unsigned top = a >> 12;
        if (a >> 11 == 9 || top == 5 || top == 6 || top == 7 || top == 8 || top == 9) {
            *memory = 1;
            return 2;
        }
        if (top == 12) return 1 + ones(a & 255);                /* LDM, STM */
        if ((a & 0xF600) == 0xB400) return 1 + ones(a & 0x1FF); /* PUSH, POP */
        return 1;
    }
    const unsigned b = code[2] | (unsigned)code[3] << 8;
    if ((a & 0xFE40) == 0xE800) return 1 + ones(b);                   /* LDM, STM */
    if ((a & 0xFE40) == 0xE840) return a & 0x120 ? 3 : 2;             /* LDRD, STRD; TBB, LDREX */
    if ((a & 0xFE00) == 0xF800) {
        *memory = 1;
        return 2;
    }
    if ((a & 0xFFB0) == 0xFB90) return 7;                             /* SDIV, UDIV */
    if ((a & 0xEE00) == 0xEC00) {                                     /* VLDR, VSTR, VLDM, VSTM */
        const unsigned words = b & 255;
        *memory = (a & 0x0F00) == 0x0D00;
        return *memory ? 1 + ((b & 0x100) != 0) + 1 : 1 + words;
    }
    if ((a & 0xEF00) == 0xEE00 && !(b & 0x10)) {                      /* arithmetic of floats */
        const unsigned op = a & 0xB0;
        if (op == 0x80) return 14;                                    /* VDIV */
        if ((a & 0xBF) == 0xB1 && (b & 0xC0) == 0xC0) return 14;      /* VSQRT */
        if (op == 0x00 || op == 0x10 || op == 0xA0 || op == 0x90) return 3; /* VMLA, VFMA */
    }
    return 1;
}

static void executed(unsigned cpu, void *data) {
    const struct run *r = data;
    (void)cpu;
    instructions += r->instructions;
    cycles += r->cycles + (last_end != r->begin ? REFILL : 0);
    last_end = r->end;
}

static void translated(plugin_id id, struct block *block) {
    const size_t n = qemu_plugin_tb_n_insns(block);
    const uint64_t begin = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0));
    int wanted = 0, before = 0;
    (void)id;
    for (size_t i = 0; i < range_count; i++)
        wanted |= begin >= ranges[i].begin && begin < ranges[i].end;
    if (!wanted) return;
    struct run *r = calloc(1, sizeof *r); /* kept: blocks are translated once */
    if (r == NULL) abort();
    r->begin = r->end = begin;
    for (size_t i = 0; i < n; i++) {
        const struct insn *insn = qemu_plugin_tb_get_insn(block, i);
        int memory;
        unsigned own = cost(qemu_plugin_insn_data(insn), qemu_plugin_insn_size(insn), &memory);
        if (memory && before && own > 1) own--;
        before = memory;
        r->cycles += own;
        r->instructions++;
        r->end = qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, r);
}

static void print(plugin_id id, void *unused) {
    char text[64];
    (void)id, (void)unused;
    snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 "\n", instructions, cycles);
    qemu_plugin_outs(text);
}

SHOWN int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
    (void)info;
    for (int i = 0; i < count; i++) {
        FILE *file = strncmp(arguments[i], "ranges=", 7) ? NULL : fopen(arguments[i] + 7, "r");
        if (file == NULL) return 1;
        while (range_count < 1024 && fscanf(file, "%" SCNx64 " %" SCNx64, &ranges[range_count].begin,
                                            &ranges[range_count].end) == 2)
            range_count++;
        fclose(file);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, print, NULL);
    return 0;
}
