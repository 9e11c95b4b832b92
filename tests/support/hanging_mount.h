#pragma once

#include <sys/types.h>

/*
 * A file system whose server does not answer, like a network mount behind a broken cable (FUSE,
 * without the library). A process that uses it waits in the kernel, where not even SIGKILL ends it,
 * until the file system is unmounted. Needs root and a separate mount namespace
 * (injection_begin_group). An error fails the test.
 */
struct hanging_mount {
  char path[128];
  pid_t server;
};

/* Mounts it at an existing directory. */
void hanging_mount_init(struct hanging_mount *self, const char *path);

/* Unmounts it; processes that wait get an error. Does nothing if all of it is zero. */
void hanging_mount_release(struct hanging_mount *self);
