#pragma once

#include <stdint.h>

/*
 * The kernel's interface to Landlock, which musl does not have and older headers know in part. The
 * values are those of linux/landlock.h. ABI is the version that the kernel reports.
 */

/* Actions on files, struct landlock_attr.fs. */
#define LANDLOCK_EXECUTE (UINT64_C(1) << 0)
#define LANDLOCK_WRITE_FILE (UINT64_C(1) << 1)
#define LANDLOCK_READ_FILE (UINT64_C(1) << 2)
#define LANDLOCK_READ_DIR (UINT64_C(1) << 3)
#define LANDLOCK_REMOVE (UINT64_C(3) << 4)     /* directories and files */
#define LANDLOCK_MAKE (UINT64_C(0x7f) << 6)    /* each type of file */
#define LANDLOCK_REFER (UINT64_C(1) << 13)     /* link or move to another directory; ABI 2 */
#define LANDLOCK_TRUNCATE (UINT64_C(1) << 14)  /* ABI 3 */
#define LANDLOCK_IOCTL_DEV (UINT64_C(1) << 15) /* ABI 5 */

/* struct landlock_attr.net; ABI 4. */
#define LANDLOCK_BIND_TCP (UINT64_C(1) << 0)
#define LANDLOCK_CONNECT_TCP (UINT64_C(1) << 1)

/* struct landlock_attr.scoped; ABI 6. */
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0)
#define LANDLOCK_SCOPE_SIGNAL (UINT64_C(1) << 1)

enum {
  LANDLOCK_ABI_REFER = 2,
  LANDLOCK_ABI_FILES = 3,
  LANDLOCK_ABI_TCP = 4,
  LANDLOCK_ABI_IOCTL = 5,
  LANDLOCK_ABI_SCOPES = 6
};

/* struct landlock_ruleset_attr. Older kernels accept a larger one whose rest is zeros. */
struct landlock_attr {
  uint64_t fs, net, scoped;
};

enum landlock_rule_type { LANDLOCK_PATH_BENEATH = 1, LANDLOCK_NET_PORT = 2 };

struct landlock_path_rule { /* struct landlock_path_beneath_attr */
  uint64_t access;
  int32_t parent;
} __attribute__((packed));

struct landlock_port_rule { /* struct landlock_net_port_attr */
  uint64_t access, port;
};

/* Of landlock_create_ruleset(2): returns the ABI. */
#define LANDLOCK_CREATE_VERSION 1
