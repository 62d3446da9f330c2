/* blob.c: the constants at the tail of a library file.
 *
 * library file:  ELF | zeros to a 64 KiB boundary | constants | metadata (JSON) | footer
 * With a sidecar file (constants over 2 GB) the constants stand at the start of FILE.weights,
 * which ends with a footer of the same id. All numbers are little-endian.
 *
 * The code knows the id of its export and how many constants it reads. A file that says other
 * numbers, or that ends before them, is refused: what is mapped is what the code expects. The file
 * must not be made shorter afterwards (replace it by another one of its name instead).
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOOTER_MAGIC "SMELTLIB"
#define FLAG_SIDECAR 1u

typedef struct footer {
    char magic[8];
    uint32_t abi_version;
    uint32_t flags;
    uint64_t weights_offset, weights_bytes;
    uint64_t metadata_offset, metadata_bytes;
    uint64_t id; /* of this export: library and sidecar must agree */
    uint64_t file_bytes;
} footer;

/* Without waiting for somebody at the other end of a pipe. */
static int open_file(const char *path) { return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

static int32_t read_footer(int file, const char *path, footer *f) {
    struct stat info;
    if (fstat(file, &info) != 0)
        return smelt_fail(SMELT_BAD_FILE, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return smelt_fail(SMELT_BAD_FILE, "%s: no regular file", path);
    off_t at = info.st_size - (off_t)sizeof *f;
    if (at < 0 || pread(file, f, sizeof *f, at) != (ssize_t)sizeof *f ||
        memcmp(f->magic, FOOTER_MAGIC, sizeof f->magic) != 0)
        return smelt_fail(SMELT_BAD_FILE,
                          "%s: the model's constants are missing at the end of the file "
                          "(truncated or stripped?)",
                          path);
    if (f->abi_version != SMELT_ABI_VERSION)
        return smelt_fail(SMELT_BAD_ABI, "%s: ABI version %u, this runtime has %d", path,
                          (unsigned)f->abi_version, SMELT_ABI_VERSION);
    if (f->file_bytes != (uint64_t)info.st_size)
        return smelt_fail(SMELT_BAD_FILE, "%s: %lld bytes, %llu expected (truncated?)", path,
                          (long long)info.st_size, (unsigned long long)f->file_bytes);
    return SMELT_OK;
}

/* Of a library for several CPUs only the constants of the one that was picked are mapped. */
static int32_t map_file(int file, const char *path, const footer *f, const smelt_model_info *info,
                        const void **weights, void **mapping, size_t *length) {
    /* Differences, since a sum of such numbers may wrap; file_bytes is the size of the file. */
    uint64_t most = f->file_bytes - sizeof *f, bytes = (uint64_t)info->weights_bytes;
    uint64_t offset = (uint64_t)info->weights_offset;
    int ends = info->lesser == NULL && f->weights_bytes - offset != bytes;
    if (f->weights_bytes < offset || f->weights_bytes - offset < bytes || ends)
        return smelt_fail(SMELT_BAD_FILE, "%s: %llu bytes of constants, the model has %llu", path,
                          (unsigned long long)f->weights_bytes, (unsigned long long)(offset + bytes));
    if (f->weights_bytes > most || f->weights_offset > most - f->weights_bytes ||
        (size_t)f->weights_bytes != f->weights_bytes)
        return smelt_fail(SMELT_BAD_FILE, "%s: damaged footer", path);
    void *base = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, file,
                      (off_t)(f->weights_offset + offset));
    if (base == MAP_FAILED)
        return smelt_fail(SMELT_BAD_FILE, "%s: cannot map %llu bytes: %s", path,
                          (unsigned long long)bytes, strerror(errno));
    *weights = base;
    *mapping = base;
    *length = (size_t)bytes;
    return SMELT_OK;
}

void smelt_unmap_weights(void *mapping, size_t length) { munmap(mapping, length); }

static int32_t map_sidecar(const char *library, const smelt_model_info *info, const void **weights,
                           void **mapping, size_t *length) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s.weights", library) >= (int)sizeof path)
        return smelt_fail(SMELT_BAD_FILE, "%s: the path is too long", library);
    int file = open_file(path);
    if (file < 0)
        return smelt_fail(SMELT_BAD_FILE, "%s: %s (it must lie beside the library)", path,
                          strerror(errno));
    footer f;
    int32_t status = read_footer(file, path, &f);
    if (status == SMELT_OK && (f.id != info->id || f.flags != 0))
        status = smelt_fail(SMELT_BAD_FILE, "%s belongs to another export of %s", path, library);
    if (status == SMELT_OK)
        status = map_file(file, path, &f, info, weights, mapping, length);
    close(file);
    return status;
}

/* The file that the system's loader has the model's code from; NULL: it cannot tell. */
static const char *file_of(const smelt_model_info *info) {
#ifdef SMELT_ALONE
    (void)info;
    return NULL;
#else
    Dl_info here;
    /* Not `info` itself: a program linked with the library may hold a copy of that. */
    void *code;
    memcpy(&code, info->entry != NULL ? (const void *)&info->entry : (const void *)&info->program->main,
           sizeof code);
    return dladdr(code, &here) ? here.dli_fname : NULL;
#endif
}

int32_t smelt_map_weights(const smelt_model_info *info, const char *path, const void **weights,
                          void **mapping, size_t *length) {
    if (path == NULL && (path = file_of(info)) == NULL)
        return smelt_fail(SMELT_BAD_FILE, "cannot tell which file the model's code is from");
    int file = open_file(path);
    if (file < 0)
        return smelt_fail(SMELT_BAD_FILE, "%s: %s", path, strerror(errno));
    footer f;
    int32_t status = read_footer(file, path, &f);
    if (status == SMELT_OK && f.id != info->id)
        status = smelt_fail(SMELT_BAD_FILE, "%s: the file was replaced after it was loaded", path);
    else if (status == SMELT_OK && f.flags & ~FLAG_SIDECAR)
        status = smelt_fail(SMELT_BAD_FILE, "%s: damaged footer", path);
    if (status == SMELT_OK)
        status = f.flags & FLAG_SIDECAR
                     ? map_sidecar(path, info, weights, mapping, length)
                     : map_file(file, path, &f, info, weights, mapping, length);
    close(file);
    return status;
}
