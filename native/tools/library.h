/* library.h: loading the library of a model into a program that is linked with the runtime. */
#ifndef SMELT_TOOLS_LIBRARY_H
#define SMELT_TOOLS_LIBRARY_H

#include "../smelt.h"

/* The model of a library, open; NULL: smelt_last_error() says why. info: its description, which lives
 * as long as the program. */
smelt_model *library_open(const char *path, const smelt_model_info **info);

#endif
