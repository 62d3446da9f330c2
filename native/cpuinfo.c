/* cpuinfo.c: the features of this CPU under their LLVM names.
 *
 * A feature counts only if the operating system saves its registers (XGETBV).
 */
#define _GNU_SOURCE
#include "internal.h"

#include <string.h>

#if defined(__x86_64__) || defined(__i386__)

#include <cpuid.h>

/* Sources: Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E. */
enum reg { EAX, EBX, ECX, EDX };
/* Register state that must be enabled in XCR0: AVX needs bits 1-2, AVX-512 5-7, AMX 17-18. */
enum state { NONE = 0, YMM = 0x6, ZMM = 0xe6, TILE = 0x60000, APX = 0x80000 };

typedef struct feature {
    const char *name;
    uint32_t leaf, subleaf;
    int reg, bit;
    uint32_t state;
} feature;

static const feature features[] = {
    {"64bit", 0x80000001, 0, EDX, 29, NONE},
    {"cx8", 1, 0, EDX, 8, NONE},
    {"cmov", 1, 0, EDX, 15, NONE},
    {"mmx", 1, 0, EDX, 23, NONE},
    {"fxsr", 1, 0, EDX, 24, NONE},
    {"sse", 1, 0, EDX, 25, NONE},
    {"sse2", 1, 0, EDX, 26, NONE},
    {"sse3", 1, 0, ECX, 0, NONE},
    {"pclmul", 1, 0, ECX, 1, NONE},
    {"ssse3", 1, 0, ECX, 9, NONE},
    {"fma", 1, 0, ECX, 12, YMM},
    {"cx16", 1, 0, ECX, 13, NONE},
    {"sse4.1", 1, 0, ECX, 19, NONE},
    {"sse4.2", 1, 0, ECX, 20, NONE},
    {"crc32", 1, 0, ECX, 20, NONE},
    {"movbe", 1, 0, ECX, 22, NONE},
    {"popcnt", 1, 0, ECX, 23, NONE},
    {"aes", 1, 0, ECX, 25, NONE},
    {"xsave", 1, 0, ECX, 27, NONE},
    {"avx", 1, 0, ECX, 28, YMM},
    {"f16c", 1, 0, ECX, 29, YMM},
    {"rdrnd", 1, 0, ECX, 30, NONE},
    {"fsgsbase", 7, 0, EBX, 0, NONE},
    {"bmi", 7, 0, EBX, 3, NONE},
    {"avx2", 7, 0, EBX, 5, YMM},
    {"bmi2", 7, 0, EBX, 8, NONE},
    {"invpcid", 7, 0, EBX, 10, NONE},
    {"rtm", 7, 0, EBX, 11, NONE},
    {"avx512f", 7, 0, EBX, 16, ZMM},
    {"avx512dq", 7, 0, EBX, 17, ZMM},
    {"rdseed", 7, 0, EBX, 18, NONE},
    {"adx", 7, 0, EBX, 19, NONE},
    {"avx512ifma", 7, 0, EBX, 21, ZMM},
    {"clflushopt", 7, 0, EBX, 23, NONE},
    {"clwb", 7, 0, EBX, 24, NONE},
    {"avx512cd", 7, 0, EBX, 28, ZMM},
    {"sha", 7, 0, EBX, 29, NONE},
    {"avx512bw", 7, 0, EBX, 30, ZMM},
    {"avx512vl", 7, 0, EBX, 31, ZMM},
    {"avx512vbmi", 7, 0, ECX, 1, ZMM},
    {"pku", 7, 0, ECX, 4, NONE},
    {"waitpkg", 7, 0, ECX, 5, NONE},
    {"avx512vbmi2", 7, 0, ECX, 6, ZMM},
    {"shstk", 7, 0, ECX, 7, NONE},
    {"gfni", 7, 0, ECX, 8, NONE},
    {"vaes", 7, 0, ECX, 9, YMM},
    {"vpclmulqdq", 7, 0, ECX, 10, YMM},
    {"avx512vnni", 7, 0, ECX, 11, ZMM},
    {"avx512bitalg", 7, 0, ECX, 12, ZMM},
    {"avx512vpopcntdq", 7, 0, ECX, 14, ZMM},
    {"rdpid", 7, 0, ECX, 22, NONE},
    {"cldemote", 7, 0, ECX, 25, NONE},
    {"movdiri", 7, 0, ECX, 27, NONE},
    {"movdir64b", 7, 0, ECX, 28, NONE},
    {"enqcmd", 7, 0, ECX, 29, NONE},
    {"avx512vp2intersect", 7, 0, EDX, 8, ZMM},
    {"serialize", 7, 0, EDX, 14, NONE},
    {"tsxldtrk", 7, 0, EDX, 16, NONE},
    {"amx-bf16", 7, 0, EDX, 22, TILE},
    {"avx512fp16", 7, 0, EDX, 23, ZMM},
    {"amx-tile", 7, 0, EDX, 24, TILE},
    {"amx-int8", 7, 0, EDX, 25, TILE},
    {"sha512", 7, 1, EAX, 0, YMM},
    {"sm3", 7, 1, EAX, 1, YMM},
    {"sm4", 7, 1, EAX, 2, YMM},
    {"avxvnni", 7, 1, EAX, 4, YMM},
    {"avx512bf16", 7, 1, EAX, 5, ZMM},
    {"cmpccxadd", 7, 1, EAX, 7, NONE},
    {"amx-fp16", 7, 1, EAX, 21, TILE},
    {"hreset", 7, 1, EAX, 22, NONE},
    {"avxifma", 7, 1, EAX, 23, YMM},
    {"avxvnniint8", 7, 1, EDX, 4, YMM},
    {"avxneconvert", 7, 1, EDX, 5, YMM},
    {"amx-complex", 7, 1, EDX, 8, TILE},
    {"avxvnniint16", 7, 1, EDX, 10, YMM},
    {"prefetchi", 7, 1, EDX, 14, NONE},
    {"avx10.1", 7, 1, EDX, 19, ZMM},
    {"egpr", 7, 1, EDX, 21, APX},
    {"xsaveopt", 13, 1, EAX, 0, NONE},
    {"xsavec", 13, 1, EAX, 1, NONE},
    {"xsaves", 13, 1, EAX, 3, NONE},
    {"sahf", 0x80000001, 0, ECX, 0, NONE},
    {"lzcnt", 0x80000001, 0, ECX, 5, NONE},
    {"sse4a", 0x80000001, 0, ECX, 6, NONE},
    {"prfchw", 0x80000001, 0, ECX, 8, NONE},
    {"xop", 0x80000001, 0, ECX, 11, YMM},
    {"fma4", 0x80000001, 0, ECX, 16, YMM},
    {"tbm", 0x80000001, 0, ECX, 21, NONE},
    {"mwaitx", 0x80000001, 0, ECX, 29, NONE},
    {"clzero", 0x80000008, 0, EBX, 0, NONE},
    {"rdpru", 0x80000008, 0, EBX, 4, NONE},
    {"wbnoinvd", 0x80000008, 0, EBX, 9, NONE},
};

static uint32_t enabled_state(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) /* OSXSAVE */
        return 0;
    uint32_t low, high;
    __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

static int has(const feature *f) {
    uint32_t r[4];
    if (!__get_cpuid_count(f->leaf, f->subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX]))
        return 0;
    if (f->leaf == 7 && f->subleaf == 1) {
        uint32_t last = 0, b, c, d;
        __get_cpuid_count(7, 0, &last, &b, &c, &d);
        if (last < 1)
            return 0;
    }
    uint32_t state = f->state;
#ifdef __APPLE__
    /* macOS switches AVX-512 state on at first use: only AVX shows before. */
    if (state == ZMM)
        state = YMM;
#endif
    return (r[f->reg] >> f->bit & 1) && (enabled_state() & state) == state;
}

#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))

#include <sys/auxv.h>
#if defined(__riscv)
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/prctl.h>
#endif

/* Where a feature's bit stands: AT_HWCAP, AT_HWCAP2, or what the system call riscv_hwprobe says.
 * LENGTH: its number is not that of a bit, but of the bits in a vector register: at least, and of
 * Arm's SVE exactly. */
enum word { LENGTH, CAP = 16, CAP2 = 26, PROBE = 258 };

typedef struct feature {
    const char *name;
    enum word word;
    int bit;
} feature;

/* Sources: arch/{arm64,arm,riscv}/include/uapi/asm/{hwcap,hwprobe}.h of Linux. */
static const feature features[] = {
#if defined(__aarch64__)
    {"fp-armv8", CAP, 0},  {"neon", CAP, 1},      {"aes", CAP, 3},       {"sha2", CAP, 6},
    {"crc", CAP, 7},       {"lse", CAP, 8},       {"fullfp16", CAP, 10}, {"rdm", CAP, 12},
    {"jsconv", CAP, 13},   {"complxnum", CAP, 14}, {"rcpc", CAP, 15},    {"ccpp", CAP, 16},
    {"sha3", CAP, 17},     {"sm4", CAP, 19},      {"dotprod", CAP, 20},  {"sve", CAP, 22},
    {"fp16fml", CAP, 23},  {"sve2", CAP2, 1},     {"sve2-aes", CAP2, 2}, {"i8mm", CAP2, 13},
    {"bf16", CAP2, 14},    {"sme", CAP2, 23},     {"cssc", CAP2, 34},    {"mops", CAP2, 43},
    {"sve256b", LENGTH, 256}, {"sve512b", LENGTH, 512},
#elif defined(__arm__)
    /* Linux tells of neither half-precision conversions, which VFPv4 has, nor the instructions of
     * ARMv8, whose processors are those with CRC32. */
    {"neon", CAP, 12},     {"vfp3", CAP, 13},     {"vfp4", CAP, 16},     {"fp16", CAP, 16},
    {"hwdiv-arm", CAP, 17}, {"hwdiv", CAP, 18},   {"fullfp16", CAP, 23}, {"dotprod", CAP, 24},
    {"bf16", CAP, 26},     {"i8mm", CAP, 27},     {"aes", CAP2, 0},      {"crc", CAP2, 4},
    {"fp-armv8", CAP2, 4},
#else
    {"a", CAP, 0},         {"c", CAP, 2},         {"d", CAP, 3},         {"f", CAP, 5},
    {"m", CAP, 12},        {"v", CAP, 21},        {"zba", PROBE, 3},     {"zbb", PROBE, 4},
    {"zbs", PROBE, 5},     {"zfh", PROBE, 27},    {"zfhmin", PROBE, 28}, {"zvfh", PROBE, 30},
    {"zvl256b", LENGTH, 256}, {"zvl512b", LENGTH, 512}, {"zvl1024b", LENGTH, 1024},
#endif
};

static int has(const feature *f) {
#if defined(__aarch64__)
    if (f->word == LENGTH) {
        const int bytes = prctl(51, 0, 0, 0, 0); /* PR_SVE_GET_VL: and flags above 16 bits */
        return bytes > 0 && (bytes & 0xffff) * 8 == f->bit;
    }
#elif defined(__riscv)
    if (f->word == LENGTH) {
        unsigned long bytes = 0;
#ifdef __riscv_xlen /* tests compile this for other processors, too */
        if (getauxval(CAP) >> 21 & 1) /* else there is no such register */
            __asm__("csrr %0, 0xc22" : "=r"(bytes)); /* vlenb */
#endif
        return bytes * 8 >= (unsigned long)f->bit;
    }
    if (f->word == PROBE) {
        struct {
            int64_t key;
            uint64_t value;
        } extensions = {4, 0}; /* RISCV_HWPROBE_KEY_IMA_EXT_0 */
        return syscall(PROBE, &extensions, (size_t)1, (size_t)0, NULL, 0U) == 0 &&
               extensions.key == 4 && (extensions.value >> f->bit & 1);
    }
#endif
    return (int)(getauxval((unsigned long)f->word) >> f->bit & 1);
}

#elif defined(__APPLE__) && defined(__aarch64__)

#include <sys/sysctl.h>

typedef struct feature {
    const char *name;
    const char *key; /* NULL: every Apple CPU has it */
} feature;

static const feature features[] = {
    {"fp-armv8", NULL},
    {"neon", NULL},
    {"aes", NULL},
    {"sha2", NULL},
    {"crc", NULL},
    {"lse", "hw.optional.arm.FEAT_LSE"},
    {"rdm", "hw.optional.arm.FEAT_RDM"},
    {"fullfp16", "hw.optional.arm.FEAT_FP16"},
    {"fp16fml", "hw.optional.arm.FEAT_FHM"},
    {"dotprod", "hw.optional.arm.FEAT_DotProd"},
    {"i8mm", "hw.optional.arm.FEAT_I8MM"},
    {"bf16", "hw.optional.arm.FEAT_BF16"},
    {"sha3", "hw.optional.arm.FEAT_SHA3"},
};

static int has(const feature *f) {
    int value = 0;
    size_t size = sizeof value;
    return f->key == NULL || (sysctlbyname(f->key, &value, &size, NULL, 0) == 0 && value != 0);
}

#elif defined(_WIN32) && defined(__aarch64__)

#include <windows.h>

typedef struct feature {
    const char *name;
    DWORD number; /* of IsProcessorFeaturePresent; 0: every ARM CPU of Windows has it */
} feature;

/* Source: winnt.h, PF_ARM_..., whose newer names not every one has. */
static const feature features[] = {
    {"fp-armv8", 0}, {"neon", 0}, {"aes", 30}, {"sha2", 30}, {"crc", 31}, {"lse", 34}, {"dotprod", 43},
};

static int has(const feature *f) {
    return f->number == 0 || IsProcessorFeaturePresent(f->number) != 0;
}

#else

typedef struct feature {
    const char *name;
} feature;

static const feature features[] = {{NULL}};

static int has(const feature *f) {
    (void)f;
    return 0;
}

#endif

#define FEATURE_COUNT ((int64_t)(sizeof features / sizeof *features))

int32_t smelt_cpu_has(const char *name) {
    for (int64_t i = 0; i < FEATURE_COUNT; i++)
        if (features[i].name != NULL && strcmp(features[i].name, name) == 0)
            return has(&features[i]);
    return 0;
}

const char *smelt_cpu_feature(int64_t index) {
    return index >= 0 && index < FEATURE_COUNT ? features[index].name : NULL;
}
