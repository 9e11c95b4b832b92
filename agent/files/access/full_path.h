#ifndef AGENT_FILES_ACCESS_FULL_PATH_H
#define AGENT_FILES_ACCESS_FULL_PATH_H

#include "base/error.h"

/*
 * A path as it is shown: with the current directory in front when it is relative, and without "."
 * components, doubled slashes and slashes at the end. ".." stays, because behind a symbolic link
 * it does not lead back. Nothing is looked up. What is returned is the caller's; NULL with an error
 * when there is no current directory any more.
 */
char *full_path_new(const char *path, struct error *error);

/* The last component of a full path, within it; "" when it is "/". */
const char *full_path_name(const char *full_path);

#endif
