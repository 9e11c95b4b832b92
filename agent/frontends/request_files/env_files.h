#pragma once

#include "base/log.h"

/*
 * Variables of commands whose values are in files, such as a token in a mounted secret:
 * `NAME=PATH[:NAME=PATH]…`. The files are read for each command, so a rotated secret is used at
 * once. A value is the file's text without trailing line endings.
 */
struct env_files;

/* The longest value: Linux takes no longer string. */
#define ENV_FILES_VALUE_MAX ((size_t)128 * 1024)

/* `text` may be NULL. Parts of it that are not NAME=PATH are logged and ignored. */
struct env_files *env_files_new(const char *text, const struct log *log);
void env_files_free(struct env_files *self);

/* Returns the variables as NAME=value, ended by NULL; the caller frees all of it. A file that
   cannot be read, or whose text cannot be a variable, is left out and logged once until it is
   readable. */
char **env_files_read(struct env_files *self);
