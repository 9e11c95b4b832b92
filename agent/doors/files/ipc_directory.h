#ifndef AGENT_DOORS_FILES_IPC_DIRECTORY_H
#define AGENT_DOORS_FILES_IPC_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * The directory that containers of a pod share, and `tools` in it, where requests and results are.
 * Everybody may put anything there: no link is followed, nothing is opened that is not a regular
 * file, and names are relative to a descriptor.
 *
 *   ipc_directory_open(&ipc, "/ipc", &error)
 *   ipc_directory_find_tools(&ipc, &error)     at the start, and again now and then
 *   ipc_directory_read / _has / _write
 *   ipc_directory_close(&ipc)
 */
struct ipc_directory {
  int top;
  int tools; /* -1: there is none */
};

#define IPC_DIRECTORY_NONE                                                                         \
  (struct ipc_directory) {                                                                         \
    .top = -1, .tools = -1                                                                         \
  }

/* Returns 0 or -1. */
int ipc_directory_open(struct ipc_directory *self, const char *path, struct error *error);
void ipc_directory_close(struct ipc_directory *self);

enum ipc_tools {
  IPC_TOOLS_SAME,   /* as the time before */
  IPC_TOOLS_OTHER,  /* another directory, which is open now */
  IPC_TOOLS_MISSING /* it can be neither opened nor made */
};

/* Opens `tools` unless it is open, and makes it with the mode of the upper directory where there is
   none, so that whoever may write there may write in it. */
enum ipc_tools ipc_directory_find_tools(struct ipc_directory *self, struct error *error);

/* Whether the agent in the other container has said that it is done: a regular file `done`, or a
   link to one. */
bool ipc_directory_is_done(const struct ipc_directory *self);

enum ipc_read {
  IPC_READ,
  IPC_READ_NOTHING,  /* there is no such file */
  IPC_READ_NO_FILE,  /* it is no regular file; `*file` is valid */
  IPC_READ_TOO_LONG, /* `*file` is valid */
  IPC_READ_ERROR     /* errno */
};

/* Adds a file's bytes, at most `max`. */
enum ipc_read ipc_directory_read(const struct ipc_directory *self, const char *name, size_t max,
                                 struct buffer *out, struct stat *file);

/* Whether there is anything of this name, which what the system does not show counts as; whether it
   is a regular file. */
bool ipc_directory_has(const struct ipc_directory *self, const char *name);
bool ipc_directory_has_file(const struct ipc_directory *self, const char *name);

/* Writes a file that appears whole: under `hidden` first. Everybody may read it. Returns 0, or -1
   with errno, and leaves nothing then. */
int ipc_directory_write(const struct ipc_directory *self, const char *hidden, const char *name,
                        const struct buffer *bytes);

#endif
