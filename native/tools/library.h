/* library.h: loading the library of a model into a program that is linked with the runtime. */
#ifndef SMELT_TOOLS_LIBRARY_H
#define SMELT_TOOLS_LIBRARY_H

#include "../smelt.h"

/* The model of a library, open; NULL: smelt_last_error() says why. info: its description, which lives
 * as long as the program. */
smelt_model *library_open(const char *path, const smelt_model_info **info);

/* One kernel as a library by itself, which shows smelt_entry. The file is read, and stays open; name:
 * for messages. NULL: smelt_last_error() says why. */
typedef struct smelt_kernel smelt_kernel;
smelt_kernel *kernel_open(const char *name, int file);
smelt_entry_function kernel_entry(const smelt_kernel *kernel);
void kernel_close(smelt_kernel *kernel);

#endif
