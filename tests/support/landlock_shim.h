#pragma once

#include <stdbool.h>

/*
 * Answers for the kernel: an older Landlock, none, or a container engine that forbids it. A program
 * that calls landlock_shim_install before exec, and all its descendants, get these answers. The
 * caller needs CAP_SYS_ADMIN.
 *
 *   static const struct landlock_shim shim = {.abi = 3};
 *   … .prepare = landlock_shim_install, .prepare_context = &shim
 *
 * With an `abi`, a separate process answers, by user notification. It checks rule sets as that
 * kernel does, and ends with the last process that it answers. Because a process has at most one
 * such listener, steps cannot have one of their own (EBUSY).
 */
struct landlock_shim {
  int abi;   /* 0: as it is, or `error` */
  int error; /* of all three calls: ENOSYS, EOPNOTSUPP (not in `lsm=`), EPERM (a profile); or 0 */
  bool has_no_listener; /* seccomp(2) without user notification: EINVAL */
};

void landlock_shim_install(const void *self);
