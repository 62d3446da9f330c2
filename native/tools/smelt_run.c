/* smelt_run.c: the command smelt-run, which runs an exported model on a machine without Python.
 *
 *     smelt-run MODEL.so [INPUT.npy | NAME=INPUT.npy ...] [-o FOLDER] [-n RUNS] [-t THREADS]
 *               [-s NAME=SIZE ...] [-l]
 *
 * It is linked with the runtime, and may be a static program: it needs no libraries of the machine.
 */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_RANK 16
#define MOST_GIVEN 256
#define MOST_RUNS 1000000

static _Noreturn void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("smelt-run: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *checked(void *memory) {
    if (memory == NULL)
        fail("out of memory");
    return memory;
}

/* ---- tensors ----------------------------------------------------------------------------------- */

static int64_t bytes_of(int32_t dtype) {
    int bits = dtype & 255;
    return bits < 8 ? 1 : bits / 8;
}

/* The bytes of a tensor; ends the program where its sizes mean nothing. */
static int64_t size_of(const char *name, const smelt_tensor *t) {
    int64_t bytes = bytes_of(t->dtype);
    for (int64_t d = 0; d < t->rank; d++)
        if (t->shape[d] < 0 || __builtin_mul_overflow(bytes, t->shape[d], &bytes))
            fail("%s: an extent of %" PRId64, name, t->shape[d]);
    return bytes;
}

static const char *size_name(const smelt_model_info *info, int64_t dim, char *text) {
    if (dim >= 0)
        sprintf(text, "%" PRId64, dim);
    else
        snprintf(text, 64, "%s", dim == SMELT_COMPUTED_DIM ? "?" : info->symbols[~dim]);
    return text;
}

static void list(const smelt_model_info *info, const char *role, const smelt_tensor_info *tensors,
                 int64_t count) {
    char text[64];
    for (int64_t i = 0; i < count; i++) {
        printf("%s %s %s[", role, tensors[i].name, smelt_dtype_name(tensors[i].dtype));
        for (int32_t d = 0; d < tensors[i].rank; d++)
            printf("%s%s", d ? ", " : "", size_name(info, tensors[i].shape[d], text));
        puts("]");
    }
}

/* ---- .npy files -------------------------------------------------------------------------------- */

/* Format: numpy.lib.format, versions 1 to 3. */
#define MAGIC "\x93NUMPY"

/* How numpy calls an element type; those that it does not have are bytes. */
static const char *numpy_name(int32_t dtype, char *text) {
    static const char kinds[] = {[0] = 'i', [1] = 'u', [2] = 'f', [5] = 'c', [6] = 'b'};
    int code = dtype >> 8, bits = dtype & 255;
    char kind = code < (int)sizeof kinds && kinds[code] && bits >= 8 ? kinds[code] : 'V';
    sprintf(text, "%c%c%d", bytes_of(dtype) > 1 ? '<' : '|', kind, (int)bytes_of(dtype));
    return text;
}

/* What stands behind a key of the header. */
static const char *field(const char *path, const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (at == NULL)
        fail("%s: the header of this .npy file has no %s", path, key);
    at += strlen(key);
    return at + strspn(at, ": ");
}

static void read_shape(const char *path, const char *at, smelt_tensor *t) {
    t->rank = 0;
    at += strspn(at, "( ");
    while (*at >= '0' && *at <= '9') {
        char *end;
        if (t->rank == MOST_RANK)
            fail("%s: more than %d dimensions", path, MOST_RANK);
        errno = 0;
        t->shape[t->rank++] = strtoll(at, &end, 10);
        if (errno != 0)
            fail("%s: an extent that is too large", path);
        at = end + strspn(end, ", ");
    }
    if (*at != ')')
        fail("%s: the header of this .npy file has no shape", path);
}

/* The data of a file for an input; its shape goes into t->shape. */
static void read_npy(const char *path, const smelt_tensor_info *input, smelt_tensor *t) {
    FILE *file = fopen(path, "rb");
    unsigned char start[12];
    char name[16], *header;
    if (file == NULL)
        fail("cannot read %s: %s", path, strerror(errno));
    if (fread(start, 1, 10, file) != 10 || memcmp(start, MAGIC, 6) != 0)
        fail("%s is no .npy file", path);
    size_t length = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        if (fread(start + 10, 1, 2, file) != 2)
            fail("%s is cut off", path);
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length > 1 << 20)
        fail("%s: a header of %zu bytes", path, length);
    header = checked(calloc(1, length + 1));
    if (fread(header, 1, length, file) != length)
        fail("%s is cut off", path);
    const char *descr = field(path, header, "'descr'");
    numpy_name(input->dtype, name);
    size_t same = strcspn(descr + 1, "'");
    int raw = descr[0] == '\'' && descr[2] == 'V' && atoi(descr + 3) == bytes_of(input->dtype);
    if (!raw && (descr[0] != '\'' || same != strlen(name) || strncmp(descr + 1, name, same) != 0))
        fail("%s holds %.*s, and input %s is %s (%s)", path, (int)same + 2, descr, input->name,
             smelt_dtype_name(input->dtype), name);
    if (strncmp(field(path, header, "'fortran_order'"), "False", 5) != 0)
        fail("%s is in Fortran's order; write numpy.ascontiguousarray(x)", path);
    read_shape(path, field(path, header, "'shape'"), t);
    free(header);
    size_t bytes = (size_t)size_of(path, t);
    t->data = checked(aligned_alloc(64, (bytes + 64) / 64 * 64));
    if (fread(t->data, 1, bytes, file) != bytes)
        fail("%s is cut off: %zu bytes of data are needed", path, bytes);
    fclose(file);
}

static void write_npy(const char *folder, const char *output, int64_t number,
                      const smelt_tensor *t) {
    char name[16], header[512], path[4096];
    int used = 0;
    /* a name may hold anything, the path of a file too */
    size_t plain = strspn(output, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (plain == strlen(output) && plain > 0 && plain < 200)
        used = snprintf(path, sizeof path, "%s/%s.npy", folder, output);
    else
        used = snprintf(path, sizeof path, "%s/output%" PRId64 ".npy", folder, number);
    if (used < 0 || (size_t)used >= sizeof path)
        fail("the path of %s is too long", output);
    used = sprintf(header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                   numpy_name(t->dtype, name));
    for (int64_t d = 0; d < t->rank; d++)
        used += sprintf(header + used, "%" PRId64 ", ", t->shape[d]);
    used += sprintf(header + used, "), }");
    while ((used + 11) % 64 != 0)
        header[used++] = ' ';
    header[used++] = '\n';
    FILE *file = fopen(path, "wb");
    size_t bytes = (size_t)size_of(output, t);
    unsigned char start[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(used & 255),
                             (unsigned char)(used >> 8)};
    if (file == NULL || fwrite(start, 1, sizeof start, file) != sizeof start ||
        fwrite(header, 1, (size_t)used, file) != (size_t)used ||
        fwrite(t->data, 1, bytes, file) != bytes || fclose(file) != 0)
        fail("cannot write %s: %s", path, strerror(errno));
    printf("written to %s\n", path);
}

/* ---- arguments --------------------------------------------------------------------------------- */

typedef struct options {
    const char *model, *folder;
    const char *files[MOST_GIVEN], *sizes[MOST_GIVEN];
    int file_count, size_count;
    long runs, threads;
    int list;
} options;

static const char usage[] =
    "usage: smelt-run MODEL.so [INPUT.npy | NAME=INPUT.npy ...] [options]\n"
    "\n"
    "Runs a model that smelt exported. Inputs without a file are numbers at random, integers 0.\n"
    "\n"
    "  -o FOLDER      write the results there, as .npy files\n"
    "  -n RUNS        run so often, and say how long a run takes\n"
    "  -t THREADS     use at most so many threads (all)\n"
    "  -s NAME=SIZE   a symbolic size of inputs without a file\n"
    "  -l             list inputs, outputs and what the code needs of a CPU, and end\n"
    "  -h             print this\n";

static long number(const char *flag, const char *text, long most) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < 1 || value > most)
        fail("%s %s: a number from 1 to %ld is needed", flag, text, most);
    return value;
}

static options read_options(int argc, char **argv) {
    options o = {.runs = 1};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = NULL;
        if (strcmp(a, "-h") == 0 || strcmp(a, "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        if (a[0] == '-' && a[1] != '\0' && a[2] == '\0' && strchr("onts", a[1]) != NULL) {
            if (++i == argc)
                fail("%s needs a value; -h says which", a);
            value = argv[i];
        }
        if (strcmp(a, "-l") == 0)
            o.list = 1;
        else if (value == NULL && a[0] == '-')
            fail("there is no option %s; -h lists them", a);
        else if (value == NULL && o.model == NULL)
            o.model = a;
        else if ((value == NULL || a[1] == 's') &&
                 (value == NULL ? o.file_count : o.size_count) == MOST_GIVEN)
            fail("more than %d files or sizes", MOST_GIVEN);
        else if (value == NULL)
            o.files[o.file_count++] = a;
        else if (a[1] == 'o')
            o.folder = value;
        else if (a[1] == 'n')
            o.runs = number(a, value, MOST_RUNS);
        else if (a[1] == 't')
            o.threads = number(a, value, 65535);
        else
            o.sizes[o.size_count++] = value;
    }
    if (o.model == NULL) {
        fputs(usage, stderr);
        exit(2);
    }
    return o;
}

/* What stands behind NAME= in an argument; NULL where it is another name's, or has none. */
static const char *value_of(const char *argument, const char *name) {
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                            : NULL;
}

/* ---- running ----------------------------------------------------------------------------------- */

/* The file of an input: the one with its name, else the next without a name; NULL: none. */
static const char *file_of(const options *o, const smelt_model_info *info, int64_t input) {
    int64_t unnamed = 0, rank = 0;
    for (int64_t k = 0; k <= input; k++) {
        const char *found = NULL;
        for (int i = 0; i < o->file_count && found == NULL; i++)
            found = value_of(o->files[i], info->inputs[k].name);
        if (k == input && found != NULL)
            return found;
        rank += found == NULL; /* of the inputs that no file is named for */
    }
    for (int i = 0; i < o->file_count; i++) {
        int named = 0;
        for (int64_t k = 0; k < info->input_count && !named; k++)
            named = value_of(o->files[i], info->inputs[k].name) != NULL;
        unnamed += !named;
        if (!named && unnamed == rank)
            return o->files[i];
    }
    return NULL;
}

static void make_random(const options *o, const smelt_model_info *info,
                        const smelt_tensor_info *input, smelt_tensor *t) {
    static uint64_t state = 1;
    t->rank = input->rank;
    for (int32_t d = 0; d < input->rank; d++) {
        int64_t dim = input->shape[d];
        const char *given = NULL;
        if (dim == SMELT_COMPUTED_DIM)
            fail("input %s needs a file: its sizes are computed from others", input->name);
        for (int i = 0; dim < 0 && i < o->size_count && given == NULL; i++)
            given = value_of(o->sizes[i], info->symbols[~dim]);
        if (dim < 0 && given == NULL)
            fail("input %s needs a file, or its size %s: -s %s=4", input->name,
                 info->symbols[~dim], info->symbols[~dim]);
        t->shape[d] = dim < 0 ? number("-s", given, INT32_MAX) : dim;
    }
    int64_t bytes = size_of(input->name, t);
    t->data = checked(aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64));
    memset(t->data, 0, (size_t)bytes);
    for (int64_t i = 0; i < bytes / bytes_of(t->dtype); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's */
        double value = (double)(state >> 40) / (1 << 23) - 1.0;
        if (t->dtype == SMELT_FLOAT32)
            ((float *)t->data)[i] = (float)value;
        else if (t->dtype == SMELT_FLOAT64)
            ((double *)t->data)[i] = value;
    }
}

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Memory for outputs of shapes that are known before; the others get theirs from the run. */
static void make_outputs(const smelt_model_info *info, smelt_model *model,
                         const smelt_tensor *inputs, smelt_tensor *outputs) {
    int64_t count = 0, *extents;
    for (int64_t i = 0; i < info->output_count; i++)
        count += info->outputs[i].rank;
    extents = checked(calloc((size_t)count + 1, sizeof *extents));
    if (info->program == NULL && smelt_model_output_shapes(model, inputs, extents) != SMELT_OK)
        fail("%s", smelt_last_error());
    for (int64_t i = 0; i < info->output_count; i++) {
        smelt_tensor *t = &outputs[i];
        *t = (smelt_tensor){NULL, info->outputs[i].rank, extents, info->outputs[i].dtype};
        extents += t->rank;
        if (info->program == NULL) {
            size_t bytes = (size_t)size_of(info->outputs[i].name, t);
            t->data = checked(aligned_alloc(64, (bytes + 64) / 64 * 64));
        }
    }
}

static void run(const options *o, const smelt_model_info *info, smelt_model *model,
                const smelt_tensor *inputs, smelt_tensor *outputs) {
    double *times = checked(malloc(sizeof *times * (size_t)o->runs));
    for (long n = 0; n < o->runs; n++) {
        for (int64_t i = 0; info->program != NULL && i < info->output_count; i++) {
            smelt_free(outputs[i].data);
            outputs[i].data = NULL;
        }
        double start = milliseconds();
        if (smelt_model_run(model, inputs, outputs) != SMELT_OK)
            fail("%s", smelt_last_error());
        times[n] = milliseconds() - start;
    }
    if (o->runs > 1) {
        qsort(times, (size_t)o->runs, sizeof *times, by_value);
        printf("%ld runs: median %.3f ms, best %.3f ms, worst %.3f ms\n", o->runs,
               times[o->runs / 2], times[0], times[o->runs - 1]);
    }
    free(times);
}

int main(int argc, char **argv) {
    options o = read_options(argc, argv);
    const smelt_model_info *info = NULL;
    smelt_model *model = library_open(o.model, &info);
    if (model == NULL || (o.threads && smelt_model_set_threads(model, (int32_t)o.threads)))
        fail("%s", smelt_last_error());
    if (o.list) {
        list(info, "input", info->inputs, info->input_count);
        list(info, "output", info->outputs, info->output_count);
        for (const char *const *f = info->features; f != NULL && *f != NULL; f++)
            printf("%s%s", f == info->features ? "for a CPU with " : ", ", *f);
        puts(info->features != NULL && *info->features != NULL ? "" : "for any CPU");
        return 0;
    }
    if (o.file_count > info->input_count)
        fail("%d files, and %s has %" PRId64 " inputs", o.file_count, info->name,
             info->input_count);
    smelt_tensor *inputs = checked(calloc((size_t)info->input_count + 1, sizeof *inputs));
    smelt_tensor *outputs = checked(calloc((size_t)info->output_count + 1, sizeof *outputs));
    for (int64_t i = 0; i < info->input_count; i++) {
        const char *file = file_of(&o, info, i);
        inputs[i].dtype = info->inputs[i].dtype;
        inputs[i].shape = checked(calloc(MOST_RANK, sizeof(int64_t)));
        if (file != NULL)
            read_npy(file, &info->inputs[i], &inputs[i]);
        else
            make_random(&o, info, &info->inputs[i], &inputs[i]);
    }
    make_outputs(info, model, inputs, outputs);
    run(&o, info, model, inputs, outputs);
    for (int64_t i = 0; i < info->output_count; i++) {
        if (o.folder != NULL) {
            write_npy(o.folder, info->outputs[i].name, i, &outputs[i]);
            continue;
        }
        printf("%s %s[", info->outputs[i].name, smelt_dtype_name(outputs[i].dtype));
        for (int64_t d = 0; d < outputs[i].rank; d++)
            printf("%s%" PRId64, d ? ", " : "", outputs[i].shape[d]);
        puts("]");
    }
    smelt_model_close(model);
    return 0;
}
