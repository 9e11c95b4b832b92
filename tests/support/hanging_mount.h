#ifndef TESTS_SUPPORT_HANGING_MOUNT_H
#define TESTS_SUPPORT_HANGING_MOUNT_H

#include <sys/types.h>

/*
 * A file system whose server answers nothing any more, like a network mount behind a broken cable
 * (FUSE, without the library): whoever looks into it waits in the kernel, where not even SIGKILL
 * ends it, until the mount is taken away. Needs root, and a mount namespace of the test's own
 * (injection_begin_group). Whatever fails fails the test.
 */
struct hanging_mount {
  char path[128];
  pid_t server;
};

/* At a directory that exists. */
void hanging_mount_init(struct hanging_mount *self, const char *path);

/* Those who wait get an error. Of one that is all zeros: nothing. */
void hanging_mount_release(struct hanging_mount *self);

#endif
