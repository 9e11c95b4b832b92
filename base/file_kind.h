#ifndef BASE_FILE_KIND_H
#define BASE_FILE_KIND_H

#include <sys/types.h>

/* What a mode of stat(2) stands for, for people: "a directory", "a FIFO", … */
const char *file_kind_name(mode_t mode);

#endif
