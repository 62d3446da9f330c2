/* library.c: loads the library of a model without the system's loader, which static programs lack.
 *
 * Of a library only the model's own code is used: it asks nothing of its surroundings but a few
 * functions of the C library, and smelt_host. The runtime inside of it stays unused, as this program
 * has its own; what that would need is bound to a function that ends the program.
 *
 * Source of the formats: the System V ABI (gABI, chapters 4 and 5) and its supplements for the
 * processors below; the table of names is GNU's (DT_GNU_HASH).
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "library.h"

#include "../internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES ((uint64_t)1 << 31)

typedef ElfW(Addr) address;
typedef ElfW(Phdr) segment;

/* Numbers of relocations: a symbol's address, with an addend in its place or beside it; the library's
 * own address. Those of thread-local storage are the runtime's, and stay as they are. */
enum {
#if defined(__x86_64__)
    MACHINE = EM_X86_64, SYMBOL = 1, SLOT = 6, CALL = 7, RELATIVE = 8,
#elif defined(__aarch64__)
    MACHINE = EM_AARCH64, SYMBOL = 257, SLOT = 1025, CALL = 1026, RELATIVE = 1027,
#elif defined(__arm__)
    MACHINE = EM_ARM, SYMBOL = 2, SLOT = 21, CALL = 22, RELATIVE = 23,
#elif defined(__riscv) && __riscv_xlen == 64
    MACHINE = EM_RISCV, SYMBOL = 2, SLOT = 2, CALL = 5, RELATIVE = 3,
#else
#error "no relocations of this processor are known here"
#endif
};

/* What generated code may call. */
#define FLOATS(do) do(acosf) do(acoshf) do(asinf) do(asinhf) do(atan2f) do(atanf) do(atanhf) do(cosf) \
    do(coshf) do(erff) do(expf) do(exp2f) do(expm1f) do(floorf) do(ceilf) do(truncf) do(rintf)        \
    do(nearbyintf) do(roundf) do(fmaf) do(fmodf) do(fminf) do(fmaxf) do(log10f) do(log1pf) do(log2f)  \
    do(logf) do(powf) do(sinf) do(sinhf) do(sqrtf) do(tanf) do(tanhf)
#define DOUBLES(do) do(acos) do(acosh) do(asin) do(asinh) do(atan2) do(atan) do(atanh) do(cos) do(cosh) \
    do(erf) do(exp) do(exp2) do(expm1) do(floor) do(ceil) do(trunc) do(rint) do(nearbyint) do(round)  \
    do(fma) do(fmod) do(fmin) do(fmax) do(log10) do(log1p) do(log2) do(log) do(pow) do(sin) do(sinh)  \
    do(sqrt) do(tan) do(tanh)
#define MEMORY(do) do(memcpy) do(memmove) do(memset) do(memcmp)
#ifdef __arm__ /* the names that compilers use there */
void __aeabi_memcpy(void *, const void *, size_t), __aeabi_memmove(void *, const void *, size_t);
void __aeabi_memset(void *, size_t, int), __aeabi_memclr(void *, size_t);
#define OTHERS(do) do(__aeabi_memcpy) do(__aeabi_memmove) do(__aeabi_memset) do(__aeabi_memclr)
#else
#define OTHERS(do)
#endif
#define ROW(name) {#name, (void (*)(void))name},

static const struct {
    const char *name;
    void (*function)(void);
} known[] = {FLOATS(ROW) DOUBLES(ROW) MEMORY(ROW) OTHERS(ROW)};

static _Noreturn void missing(void) {
    fputs("a model's code calls a function that it should not need; its library is damaged\n", stderr);
    abort();
}

/* A library in memory. base + an address of the file is the address here. */
typedef struct image {
    const char *path;
    char *base;
    address size;
    const segment *segments;
    int count;
    /* from its dynamic section, as addresses of the file */
    address symbols, strings, hashes, relocations, relocation_bytes, calls, call_bytes;
    int has_addends;
} image;

static int fail(const image *m, const char *what) {
    return smelt_fail(SMELT_BAD_FILE, "%s: %s", m->path, what);
}

/* The address here of so many bytes; NULL: they are outside. */
static void *at(const image *m, address place, uint64_t bytes) {
    return place > m->size || bytes > m->size - place ? NULL : m->base + place;
}

/* ---- reading ----------------------------------------------------------------------------------- */

static int read_all(int file, void *to, uint64_t bytes, uint64_t from) {
    while (bytes > 0) {
        ssize_t got = pread(file, to, bytes, (off_t)from);
        if (got <= 0)
            return 0;
        to = (char *)to + got;
        from += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return 1;
}

static int check_header(const image *m, const ElfW(Ehdr) *h) {
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return fail(m, "it is no library of a model: smelt.export_library writes them");
    int wide = sizeof(address) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (h->e_machine != MACHINE || h->e_ident[EI_CLASS] != wide || h->e_ident[EI_DATA] != ELFDATA2LSB)
        return smelt_fail(SMELT_BAD_FILE, "%s: it is for another processor (ELF machine %d, here %d)",
                          m->path, h->e_machine, MACHINE);
    if (h->e_type != ET_DYN || h->e_phentsize != sizeof(segment))
        return fail(m, "it is no shared library");
    return SMELT_OK;
}

/* Memory for all segments, and what the file has of them. */
static int read_segments(image *m, int file) {
    for (int i = 0; i < m->count; i++) {
        const segment *s = &m->segments[i];
        if (s->p_type != PT_LOAD)
            continue;
        if (s->p_filesz > s->p_memsz || s->p_memsz > MOST_BYTES || s->p_vaddr > MOST_BYTES)
            return fail(m, "it is damaged: sizes of its segments");
        if (s->p_vaddr + s->p_memsz > m->size)
            m->size = s->p_vaddr + s->p_memsz;
    }
    m->base = m->size == 0 ? MAP_FAILED
                           : mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->base == MAP_FAILED) {
        m->base = NULL;
        return smelt_fail(SMELT_NO_MEMORY, "%s: no memory for its code", m->path);
    }
    for (int i = 0; i < m->count; i++) {
        const segment *s = &m->segments[i];
        if (s->p_type == PT_LOAD && !read_all(file, m->base + s->p_vaddr, s->p_filesz, s->p_offset))
            return fail(m, "it is cut off");
    }
    return SMELT_OK;
}

/* ---- binding ----------------------------------------------------------------------------------- */

static int read_dynamic(image *m) {
    for (int i = 0; i < m->count; i++) {
        const segment *s = &m->segments[i];
        const ElfW(Dyn) *d = at(m, s->p_vaddr, s->p_memsz);
        if (s->p_type != PT_DYNAMIC || d == NULL)
            continue;
        for (const ElfW(Dyn) *end = d + s->p_memsz / sizeof *d; d < end && d->d_tag != DT_NULL; d++)
            switch (d->d_tag) {
            case DT_SYMTAB: m->symbols = d->d_un.d_ptr; break;
            case DT_STRTAB: m->strings = d->d_un.d_ptr; break;
            case DT_GNU_HASH: m->hashes = d->d_un.d_ptr; break;
            case DT_RELA: m->has_addends = 1; m->relocations = d->d_un.d_ptr; break;
            case DT_REL: m->relocations = d->d_un.d_ptr; break;
            case DT_RELASZ:
            case DT_RELSZ: m->relocation_bytes = d->d_un.d_val; break;
            case DT_JMPREL: m->calls = d->d_un.d_ptr; break;
            case DT_PLTRELSZ: m->call_bytes = d->d_un.d_val; break;
            case DT_PLTREL: m->has_addends |= d->d_un.d_val == DT_RELA; break;
            }
    }
    int whole = m->symbols && m->strings && m->hashes;
    return whole ? SMELT_OK : fail(m, "it has no table of names");
}

static const ElfW(Sym) *symbol_at(const image *m, uint64_t number) {
    return number > MOST_BYTES / sizeof(ElfW(Sym))
               ? NULL
               : at(m, m->symbols + (address)number * sizeof(ElfW(Sym)), sizeof(ElfW(Sym)));
}

/* The name of a symbol, or "". */
static const char *name_of(const image *m, const ElfW(Sym) *s) {
    const char *name = at(m, m->strings + s->st_name, 1);
    size_t most = name == NULL ? 0 : (size_t)(m->base + m->size - name);
    return most > 0 && memchr(name, '\0', most) != NULL ? name : "";
}

/* What a symbol is bound to; 0 for one that may be missing. */
static address bound(const image *m, const ElfW(Sym) *s) {
    if (s->st_shndx != SHN_UNDEF)
        return (address)(m->base + s->st_value);
    const char *name = name_of(m, s);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return (address)known[i].function;
    return ELF64_ST_BIND(s->st_info) == STB_WEAK ? 0 : (address)missing;
}

static int relocate(image *m, address table, address bytes) {
    size_t size = m->has_addends ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
    const char *rows = at(m, table, bytes);
    if (rows == NULL && bytes > 0)
        return fail(m, "it is damaged: a table is outside of it");
    for (size_t i = 0; i < bytes / size; i++) {
        const ElfW(Rela) *r = (const void *)(rows + i * size); /* Rel is its beginning */
        address *place = at(m, r->r_offset, sizeof *place);
        unsigned type = sizeof(address) == 8 ? (unsigned)r->r_info : (unsigned)r->r_info & 255;
        const ElfW(Sym) *s = symbol_at(m, sizeof(address) == 8 ? (uint64_t)r->r_info >> 32
                                                              : (uint64_t)r->r_info >> 8);
        if (place == NULL || s == NULL)
            return fail(m, "it is damaged: an address outside of it");
        address addend = m->has_addends ? (address)r->r_addend : *place;
        if (type == RELATIVE)
            *place = (address)m->base + addend;
        else if (type == SYMBOL)
            *place = bound(m, s) + addend;
        else if (type == SLOT || type == CALL)
            *place = bound(m, s);
    }
    return SMELT_OK;
}

/* The address of a symbol that the library shows; NULL: it has none of that name. */
static const void *find(const image *m, const char *name) {
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    const uint32_t *head = at(m, m->hashes, 16);
    if (head == NULL || head[0] == 0)
        return NULL;
    address buckets = m->hashes + 16 + head[2] * sizeof(address), chains = buckets + 4 * head[0];
    const uint32_t *bucket = at(m, buckets + 4 * (hash % head[0]), 4);
    for (uint32_t i = bucket == NULL ? 0 : *bucket; i >= head[1] && i != 0; i++) {
        const uint32_t *chain = at(m, chains + 4 * (i - head[1]), 4);
        const ElfW(Sym) *s = symbol_at(m, i);
        if (chain == NULL || s == NULL)
            return NULL;
        if ((*chain | 1) == (hash | 1) && strcmp(name_of(m, s), name) == 0)
            return at(m, s->st_value, 1);
        if (*chain & 1)
            return NULL;
    }
    return NULL;
}

/* Code becomes executable, and nothing both executable and writable. */
static int protect(const image *m) {
    address page = (address)sysconf(_SC_PAGESIZE), written = 0;
    for (int i = 0; i < m->count; i++) {
        const segment *s = &m->segments[i];
        if (s->p_type != PT_LOAD)
            continue;
        address start = s->p_vaddr / page * page, end = s->p_vaddr + s->p_memsz;
        if (start < written)
            return fail(m, "it was linked for smaller pages than this system has");
        written = (end + page - 1) / page * page;
        int how = (s->p_flags & PF_R ? PROT_READ : 0) | (s->p_flags & PF_W ? PROT_WRITE : 0) |
                  (s->p_flags & PF_X ? PROT_EXEC : 0);
        if (how & PROT_EXEC && how & PROT_WRITE)
            return fail(m, "a segment of it is both code and data");
        if (mprotect(m->base + start, end - start, how) != 0)
            return smelt_fail(SMELT_BAD_FILE, "%s: its code cannot be used: %s", m->path, strerror(errno));
        if (how & PROT_EXEC)
            __builtin___clear_cache(m->base + start, m->base + end);
    }
    return SMELT_OK;
}

/* ---- loading ----------------------------------------------------------------------------------- */

/* Loads a library, and finds a symbol of it; NULL: the last error says why. */
static const void *load(image *m, int file, const char *wanted) {
    const void *found = NULL;
    int status = read_segments(m, file);
    if (status == SMELT_OK)
        status = read_dynamic(m);
    if (status == SMELT_OK)
        status = relocate(m, m->relocations, m->relocation_bytes);
    if (status == SMELT_OK)
        status = relocate(m, m->calls, m->call_bytes);
    if (status == SMELT_OK && (found = find(m, wanted)) == NULL)
        status = smelt_fail(SMELT_BAD_FILE, "%s: it is no library of a model: it has no %s", m->path,
                            wanted);
    if (status == SMELT_OK)
        status = protect(m);
    if (status == SMELT_OK)
        return found;
    if (m->base != NULL)
        munmap(m->base, m->size);
    m->base = NULL;
    return NULL;
}

/* The same of a file, of whatever it is; m: the path. */
static const void *load_file(image *m, int file, const char *wanted) {
    ElfW(Ehdr) head = {0};
    segment segments[32];
    if (!read_all(file, &head, sizeof head, 0))
        memset(&head, 0, sizeof head); /* shorter than any library */
    if (check_header(m, &head) != SMELT_OK)
        return NULL;
    m->segments = segments;
    m->count = head.e_phnum;
    if (m->count <= 32 && read_all(file, segments, (size_t)m->count * sizeof *segments, head.e_phoff))
        return load(m, file, wanted);
    fail(m, "it is cut off");
    return NULL;
}

struct smelt_kernel {
    smelt_entry_function entry;
    char *base;
    address size;
};

smelt_kernel *kernel_open(const char *name, int file) {
    image m = {.path = name};
    const void *entry = load_file(&m, file, "smelt_entry");
    smelt_kernel *made = entry == NULL ? NULL : malloc(sizeof *made);
    if (made != NULL) {
        made->base = m.base;
        made->size = m.size;
        memcpy(&made->entry, &entry, sizeof entry);
    } else if (entry != NULL) {
        munmap(m.base, m.size);
        smelt_fail(SMELT_NO_MEMORY, "%s: no memory for it", name);
    }
    return made;
}

smelt_entry_function kernel_entry(const smelt_kernel *kernel) { return kernel->entry; }

void kernel_close(smelt_kernel *kernel) {
    if (kernel != NULL)
        munmap(kernel->base, kernel->size);
    free(kernel);
}

smelt_model *library_open(const char *path, const smelt_model_info **info) {
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* not to wait at a pipe */
    if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        smelt_fail(SMELT_BAD_FILE, "%s: %s", path, file < 0 ? strerror(errno) : "no regular file");
        if (file >= 0)
            close(file);
        return NULL;
    }
    image m = {.path = path};
    const smelt_model_info *found = load_file(&m, file, "smelt_model_descriptor");
    close(file);
    *info = smelt_model_fitting(found);
    return found == NULL ? NULL : smelt_model_open_file(found, path);
}
