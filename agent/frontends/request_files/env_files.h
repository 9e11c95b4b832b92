#ifndef AGENT_FRONTENDS_REQUEST_FILES_ENV_FILES_H
#define AGENT_FRONTENDS_REQUEST_FILES_ENV_FILES_H

#include "base/log.h"

/*
 * Variables of commands that come out of files, such as a token in a mounted secret:
 * `NAME=PATH[:NAME=PATH]…`. They are read for each command, so that a secret that is rotated is
 * followed. A value is the file's text without trailing line endings.
 */
struct env_files;

/* The longest value; Linux takes no longer string. */
#define ENV_FILES_VALUE_MAX ((size_t)128 * 1024)

/* `text` may be NULL. What is no NAME=PATH in it is logged and left out. */
struct env_files *env_files_new(const char *text, const struct log *log);
void env_files_free(struct env_files *self);

/* The variables as NAME=value, ended by NULL; all of it to be freed. A file that cannot be read, or
   whose text no variable can have, is left out, and logged once until it can be read again. */
char **env_files_read(struct env_files *self);

#endif
