#pragma once

#include <stdint.h>

/* Locks an open file as flock(2) does, with LOCK_SH or LOCK_EX, and waits at most `wait_ms`,
   because any program that can open a file can lock it forever. Returns 0, or -1 with errno:
   EWOULDBLOCK after the wait, another error if the file system has no locks. */
int file_lock(int fd, int how, int64_t wait_ms);
