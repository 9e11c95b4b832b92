#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * The directory that containers of a pod share, and `tools` in it, which has the requests and
 * results. Every container may rename or replace any file at any moment. So each name is looked up
 * once, and the rest is done with the descriptor. No link is followed, and only regular files and
 * directories are opened.
 *
 *   ipc_directory_open(&ipc, "/ipc", &error)
 *   ipc_directory_find_tools(&ipc, &error)     at the start, and with each scan
 *   ipc_directory_read / _has / _write
 *   ipc_directory_close(&ipc)
 */
#define IPC_TOOLS "tools"
#define IPC_DONE "done"

struct ipc_directory {
  int top;
  int tools;        /* -1: there is none */
  bool plain_mkdir; /* the file system cannot rename without replacing: claims are made in place */
};

#define IPC_DIRECTORY_NONE                                                                         \
  (struct ipc_directory) {                                                                         \
    .top = -1, .tools = -1                                                                         \
  }

/* Returns 0 or -1. */
int ipc_directory_open(struct ipc_directory *self, const char *path, struct error *error);
void ipc_directory_close(struct ipc_directory *self);

/* Opens `tools`, or makes it with the mode of the shared directory, so that the same users may
   write in it. Returns false if the open directory still has that name. Otherwise returns true:
   `tools` is a new descriptor, or -1 with the error. */
bool ipc_directory_find_tools(struct ipc_directory *self, struct error *error);

/* Whether there is a regular file `done`, or a link to one: the requester has finished. */
bool ipc_directory_is_done(const struct ipc_directory *self);

/* Appends a file's bytes to `out`. Returns 0, or -1 with errno: ENOENT if there is no such file,
   ENXIO if it is not a regular file, EFBIG if it has more than `max` bytes; `*file` is valid for
   the latter two. */
int ipc_directory_read(const struct ipc_directory *self, const char *name, size_t max,
                       struct buffer *out, struct stat *file);

/* Whether anything has this name; also true if the system does not tell. */
bool ipc_directory_has(const struct ipc_directory *self, const char *name);
/* Whether a regular file has this name. */
bool ipc_directory_has_file(const struct ipc_directory *self, const char *name);

/* Writes a file that every user may read. It is written under a hidden name and then renamed, so it
   appears whole. Returns 0, or -1 with errno, and leaves no file then. */
int ipc_directory_write(const struct ipc_directory *self, const char *name,
                        const struct buffer *bytes);

/* A file name that is made of a prefix, an id and a suffix. */
struct ipc_name {
  char text[NAME_MAX + 1];
};

struct ipc_name ipc_name(const char *prefix, const char *id, const char *suffix);

/* Returns a new name for an entry that gets its own name when it is complete. No other program
   looks at such names. An agent that is killed at this moment leaves the entry. */
struct ipc_name ipc_hidden_name(void);

/* Opens a regular file for reading. Its type is checked before that, because opening a FIFO wakes
   its writer, and opening a device may start it. Returns a descriptor that does not block and is
   close-on-exec, or -1 with errno: ENXIO if it is not a regular file; `*file` tells its type. */
int ipc_directory_open_file(int directory, const char *name, struct stat *file);

/* Makes a directory with this mode, whatever the umask is, because a later chmod(2) might change
   another one. Returns 0, or -1 with errno. */
int ipc_directory_make(int directory, const char *name, mode_t mode);

/* Makes a file that every user may read. Returns its descriptor, for writing, or -1 with errno, and
   leaves no file then. */
int ipc_directory_make_file(int directory, const char *name, const char *bytes, size_t length);

/* Calls unlinkat(2) and keeps errno. */
void ipc_directory_remove(int directory, const char *name, int flags);
