#ifndef AGENT_FRONTENDS_REQUEST_FILES_IPC_DIRECTORY_H
#define AGENT_FRONTENDS_REQUEST_FILES_IPC_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * The directory that containers of a pod share, and `tools` in it, where requests and results are.
 * Everybody may give any name in it to anything else at any moment. A name is therefore looked up
 * once, and what was found is worked on by its descriptor. No link is followed, and nothing is
 * opened that is not a regular file or a directory.
 *
 *   ipc_directory_open(&ipc, "/ipc", &error)
 *   ipc_directory_find_tools(&ipc, &error)     at the start, and again now and then
 *   ipc_directory_read / _has / _write
 *   ipc_directory_close(&ipc)
 */
#define IPC_TOOLS "tools"
#define IPC_DONE "done"

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

/* Opens `tools` unless it is open, and makes it with the mode of the upper directory where there is
   none, so that whoever may write there may write in it. False: it is the one of before. True: it
   is another one, or -1, as it can be neither opened nor made, and the error says why. */
bool ipc_directory_find_tools(struct ipc_directory *self, struct error *error);

/* Whether the agent in the other container has said that it is done: a regular file `done`, or a
   link to one. */
bool ipc_directory_is_done(const struct ipc_directory *self);

/* Adds a file's bytes. Returns 0, or -1 with errno: ENOENT where there is no such file, ENXIO where
   it is no regular file, EFBIG where it has more than `max`; `*file` is valid for the latter
   two. */
int ipc_directory_read(const struct ipc_directory *self, const char *name, size_t max,
                       struct buffer *out, struct stat *file);

/* Whether there is anything of this name, which what the system does not show counts as; whether it
   is a regular file. */
bool ipc_directory_has(const struct ipc_directory *self, const char *name);
bool ipc_directory_has_file(const struct ipc_directory *self, const char *name);

/* Writes a file that appears whole: under `hidden` first. Everybody may read it. Returns 0, or -1
   with errno, and leaves nothing then. */
int ipc_directory_write(const struct ipc_directory *self, const char *hidden, const char *name,
                        const struct buffer *bytes);

/* A file's name, of what stands in front of an id and behind it. */
struct ipc_name {
  char text[NAME_MAX + 1];
};

struct ipc_name ipc_name(const char *prefix, const char *id, const char *suffix);

/* Opens a regular file for reading. What it is is known before it is opened: to open a FIFO would
   wake its writer, to open a device may start it. Returns a descriptor that does not block and is
   close-on-exec, or -1 with errno: ENXIO where it is no regular file, and `*file` says what. */
int ipc_directory_open_file(int directory, const char *name, struct stat *file);

/* Makes a directory with this mode whatever the umask, so that nothing need be changed afterwards
   that may have become another one. Returns 0, or -1 with errno. */
int ipc_directory_make(int directory, const char *name, mode_t mode);

/* Makes a file that everybody may read. Returns 0, or -1 with errno, and leaves none then. */
int ipc_directory_make_file(int directory, const char *name, const char *bytes, size_t length);

/* unlinkat(2); errno stays. */
void ipc_directory_remove(int directory, const char *name, int flags);

/* Closes what was opened, unless it is -1; errno stays. */
void ipc_directory_close_entry(int fd);

#endif
