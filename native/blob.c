/* blob.c: the constants at the tail of a library file.
 *
 * library file:  ELF, Mach-O or PE | zeros to a 64 KiB boundary | constants | metadata (JSON) | footer
 * With a sidecar file (constants over 2 GB) the constants stand at the start of FILE.weights,
 * which ends with a footer of the same id. All numbers are little-endian.
 *
 * The code knows the id of its export and how many constants it reads. A file that says other
 * numbers, or that ends before them, is refused: what is mapped is what the code expects. The file
 * must not be made shorter afterwards (replace it by another one of its name instead).
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

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

static int32_t read_footer(smelt_file file, const char *path, footer *f) {
    int64_t bytes, length = (int64_t)sizeof *f;
    const char *wrong = smelt_file_size(file, &bytes);
    if (wrong != NULL)
        return smelt_fail(SMELT_BAD_FILE, "%s: %s", path, wrong);
    if (bytes < length || !smelt_file_read(file, bytes - length, f, sizeof *f) ||
        memcmp(f->magic, FOOTER_MAGIC, sizeof f->magic) != 0)
        return smelt_fail(SMELT_BAD_FILE,
                          "%s: the model's constants are missing at the end of the file "
                          "(truncated or stripped?)",
                          path);
    if (f->abi_version != SMELT_ABI_VERSION)
        return smelt_fail(SMELT_BAD_ABI, "%s: ABI version %u, this runtime has %d", path,
                          (unsigned)f->abi_version, SMELT_ABI_VERSION);
    if (f->file_bytes != (uint64_t)bytes)
        return smelt_fail(SMELT_BAD_FILE, "%s: %lld bytes, %llu expected (truncated?)", path,
                          (long long)bytes, (unsigned long long)f->file_bytes);
    return SMELT_OK;
}

/* Of a library for several CPUs only the constants of the one that was picked are mapped. */
static int32_t map_file(smelt_file file, const char *path, const footer *f,
                        const smelt_model_info *info, const void **weights, void **mapping,
                        size_t *length) {
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
    const char *wrong =
        smelt_file_map(file, (int64_t)(f->weights_offset + offset), (size_t)bytes, mapping);
    if (wrong != NULL)
        return smelt_fail(SMELT_BAD_FILE, "%s: cannot map %llu bytes: %s", path,
                          (unsigned long long)bytes, wrong);
    *weights = *mapping;
    *length = (size_t)bytes;
    return SMELT_OK;
}

void smelt_unmap_weights(void *mapping, size_t length) { smelt_file_unmap(mapping, length); }

static int32_t map_sidecar(const char *library, const smelt_model_info *info, const void **weights,
                           void **mapping, size_t *length) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s.weights", library) >= (int)sizeof path)
        return smelt_fail(SMELT_BAD_FILE, "%s: the path is too long", library);
    smelt_file file;
    const char *wrong = smelt_file_open(path, &file);
    if (wrong != NULL)
        return smelt_fail(SMELT_BAD_FILE, "%s: %s (it must lie beside the library)", path, wrong);
    footer f;
    int32_t status = read_footer(file, path, &f);
    if (status == SMELT_OK && (f.id != info->id || f.flags != 0))
        status = smelt_fail(SMELT_BAD_FILE, "%s belongs to another export of %s", path, library);
    if (status == SMELT_OK)
        status = map_file(file, path, &f, info, weights, mapping, length);
    smelt_file_close(file);
    return status;
}

/* The file that the system's loader has the model's code from; NULL: it cannot tell. */
static const char *file_of(const smelt_model_info *info, char *room, size_t size) {
#ifdef SMELT_ALONE
    (void)info, (void)room, (void)size;
    return NULL;
#else
    /* Not `info` itself: a program linked with the library may hold a copy of that. */
    void *code;
    memcpy(&code, info->entry != NULL ? (const void *)&info->entry : (const void *)&info->program->main,
           sizeof code);
    return smelt_library_of(code, room, size);
#endif
}

int32_t smelt_map_weights(const smelt_model_info *info, const char *path, const void **weights,
                          void **mapping, size_t *length) {
    char room[4096];
    if (path == NULL && (path = file_of(info, room, sizeof room)) == NULL)
        return smelt_fail(SMELT_BAD_FILE, "cannot tell which file the model's code is from");
    smelt_file file;
    const char *wrong = smelt_file_open(path, &file);
    if (wrong != NULL)
        return smelt_fail(SMELT_BAD_FILE, "%s: %s", path, wrong);
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
    smelt_file_close(file);
    return status;
}
