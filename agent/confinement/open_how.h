#pragma once

#include <stdint.h>

/* The argument of openat2(2), of linux/openat2.h, which musl does not have. */
struct open_how {
  uint64_t flags, mode, resolve;
};

#define RESOLVE_NO_SYMLINKS 0x04
#define RESOLVE_CACHED 0x20 /* EAGAIN if the path is not in memory; Linux 5.12 */
