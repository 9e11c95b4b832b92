#pragma once

/* The kernel's interface to seccomp filters that several files use, of linux/seccomp.h, which musl
   does not have; and of linux/close_range.h the flag with which a process gets its own copies of
   the descriptors that it shares. */

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

#define SECCOMP_SET_MODE_FILTER 1
#define SECCOMP_GET_ACTION_AVAIL 2

/* Before Linux 5.16 processes would be slower without it. */
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1U << 2)
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1U << 3)

#define SECCOMP_RET_ERRNO 0x00050000U
#define SECCOMP_RET_USER_NOTIF 0x7fc00000U
#define SECCOMP_RET_ALLOW 0x7fff0000U
