/* description.c: what the file of a library says of itself: JSON in front of its last 64 bytes. */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SMELTLIB"
#define MOST_DESCRIPTION ((uint64_t)256 << 20)

/* As native/blob.c has it. */
typedef struct footer {
    char magic[8];
    uint32_t abi_version, flags;
    uint64_t weights_offset, weights_bytes, metadata_offset, metadata_bytes, id, file_bytes;
} footer;

static bool refused(const char *path, const char *why) {
    return fail("LoadError", "cannot load %s: %s", path, why);
}

static bool read_footer(int file, const char *path, footer *f) {
    struct stat about;
    char start[4] = "";
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        return refused(path, "it is no regular file");
    off_t at = about.st_size - (off_t)sizeof *f;
    if (at >= 0 && pread(file, f, sizeof *f, at) == (ssize_t)sizeof *f &&
        memcmp(f->magic, MAGIC, sizeof f->magic) == 0) {
        if (f->abi_version != SMELT_ABI_VERSION)
            return fail("LoadError", "cannot load %s: it has ABI version %u, this runtime has %d; "
                        "export the model again", path, (unsigned)f->abi_version, SMELT_ABI_VERSION);
        return (f->file_bytes == (uint64_t)about.st_size && f->metadata_offset <= (uint64_t)at &&
                f->metadata_bytes <= (uint64_t)at - f->metadata_offset &&
                f->metadata_bytes <= MOST_DESCRIPTION) ||
               refused(path, "its size is not the one that it was written with; it is damaged");
    }
    if (pread(file, start, sizeof start, 0) == (ssize_t)sizeof start &&
        memcmp(start, "\x7f" "ELF", sizeof start) == 0)
        return refused(path, "it is a shared library, but the model at its end is missing\n  it was "
                       "not written by smelt's export_library, or was truncated or stripped");
    return refused(path, "it is not a library written by smelt's export_library");
}

/* Whether this CPU can run code with such a description. */
static bool fits(const char *description) {
    const char *features = json_get(description, "features"), *none;
    char name[64];
    for (const char *m = NULL; features != NULL && (m = json_member(features, m, &none)) != NULL;)
        if (!json_text(m, name, sizeof name) || !smelt_cpu_has(name))
            return false;
    return true;
}

/* Leaves of a description for several CPUs that of the code which smelt_model_fitting picks. */
static void choose_level(char *text) {
    const char *levels = json_get(text, "levels"), *chosen = NULL, *none;
    for (const char *m = NULL; levels != NULL && (m = json_member(levels, m, &none)) != NULL;) {
        chosen = m;
        if (fits(m))
            break;
    }
    if (chosen != NULL) {
        size_t size = (size_t)(json_end(chosen) - chosen);
        memmove(text, chosen, size);
        text[size] = '\0';
    }
}

char *read_description(const char *path, uint64_t *id) {
    footer f;
    char *text = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        refused(path, strerror(errno));
        return NULL;
    }
    if (read_footer(file, path, &f)) {
        size_t size = (size_t)f.metadata_bytes;
        if ((text = malloc(size + 1)) == NULL) {
            no_memory("a description", size);
        } else if (text[size] = '\0', pread(file, text, size, (off_t)f.metadata_offset) !=
                                          (ssize_t)size || !json_check(text, size)) {
            free(text);
            text = NULL;
            refused(path, "its metadata is damaged");
        } else {
            choose_level(text);
        }
        *id = f.id;
    }
    close(file);
    return text;
}

void add_infos(text *t, const char *description, const char *role) {
    const char *infos = json_get(description, role), *none, *between = "";
    text_add(t, "{\"$\": \"tuple\", \"items\": [");
    for (const char *m = NULL; infos != NULL && (m = json_member(infos, m, &none)) != NULL;) {
        static const char *const keys[] = {"name", "dtype", "shape", "kind"};
        static const char *const usual[] = {"\"\"", "\"\"", "[]", "\"tensor\""};
        text_add(t, "%s{\"$\": \"record\", \"name\": \"TensorInfo\", \"fields\": {", between);
        between = ", ";
        for (int k = 0; k < 4; k++) {
            const char *found = json_get(m, keys[k]);
            text_add(t, "%s\"%s\": %s", k > 0 ? ", " : "", keys[k],
                     k == 2 ? "{\"$\": \"tuple\", \"items\": " : "");
            text_json(t, found == NULL ? usual[k] : found);
            text_add(t, k == 2 ? "}" : "");
        }
        text_add(t, "}}");
    }
    text_add(t, "]}");
}

void add_listing(text *t, const smelt_model_info *info, const smelt_tensor_info *tensors,
                 int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        text_add(t, "%s%s %s[", i > 0 ? "; " : "", tensors[i].name,
                 smelt_dtype_name(tensors[i].dtype));
        for (int32_t d = 0; d < tensors[i].rank; d++) {
            int64_t dim = tensors[i].shape[d];
            if (dim >= 0)
                text_add(t, "%s%" PRId64, d > 0 ? ", " : "", dim);
            else
                text_add(t, "%s%s", d > 0 ? ", " : "",
                         dim == SMELT_COMPUTED_DIM ? "?" : info->symbols[~dim]);
        }
        text_add(t, "]");
    }
}
