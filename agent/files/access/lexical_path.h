#ifndef AGENT_FILES_ACCESS_LEXICAL_PATH_H
#define AGENT_FILES_ACCESS_LEXICAL_PATH_H

/*
 * Makes a path absolute by its text alone, without asking the file system: a relative one begins at
 * `directory`, which is absolute, "." and repeated slashes go, ".." takes away what is in front of it, and
 * no slash is at the end. For comparing names that a sender wrote; what is opened is the path itself
 * (see agent/files/access/full_path.h), since ".." behind a symbolic link leads elsewhere. To be
 * freed.
 */
char *lexical_path_new(const char *directory, const char *path);

/* What follows the directory and its "/" in a path, a pointer into it; "" where they are the same, NULL
   where the path is not below. Both are lexical paths. */
const char *lexical_path_below(const char *path, const char *directory);

#endif
