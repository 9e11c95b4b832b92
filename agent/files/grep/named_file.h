#ifndef AGENT_FILES_GREP_NAMED_FILE_H
#define AGENT_FILES_GREP_NAMED_FILE_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * The text of a file that a search names, whatever its size: agent/files/grep/search.h says what that
 * takes.
 *
 *   if (named_file_read(&file, fd, path, &error) == 0)
 *     … file.text, file.length, named_file_release(&file)
 */
struct named_file {
  const char *text; /* followed by MEMSCAN_SLACK readable bytes */
  size_t length;
  void *mapping; /* NULL: it is a copy */
  size_t mapped;
  struct buffer copy;
};

/* The descriptor stays the caller's; the path is for the error. After an error nothing is to be
   released. */
int named_file_read(struct named_file *self, int fd, const char *path, struct error *error);

void named_file_release(struct named_file *self);

#endif
