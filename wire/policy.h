#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/step_field.h"

/*
 * What a step may do: the objects `fence`, its sandbox policy, and `limits`. A step has them, and
 * the agent has its own, which count for each of its steps. The hard part is that nothing may be
 * ignored: an unknown field or word may restrict the step, so it is rejected.
 */

/* Each value allows less than the one before it. */
enum policy_network {
  POLICY_NETWORK_ALL,
  POLICY_NETWORK_PORTS,    /* TCP to and from ports of the two lists, and UDP */
  POLICY_NETWORK_LOOPBACK, /* TCP over the loopback interface */
  POLICY_NETWORK_NONE      /* no sockets except UNIX and netlink sockets */
};

#define POLICY_PATHS_MAX 64
#define POLICY_PORTS_MAX 1024

struct policy_fence {
  char **write_paths; /* below which files may be changed; NULL: everywhere */
  char **read_paths;  /* below which files may be read and executed; NULL: everywhere */
  unsigned network;   /* enum policy_network */
  /* Of uint16_t, of POLICY_NETWORK_PORTS; without texts: none. Port 0 of bind is any free one. */
  struct step_bytes tcp_connect, tcp_bind;
  bool best_effort; /* leave out what the kernel cannot do, instead of refusing the step */
};

/* A process that has used cpu_seconds gets SIGXCPU, and SIGKILL this many seconds later. */
#define POLICY_CPU_GRACE_SECONDS 5

/* 0: no limit. The first two are of all processes of a step, the others of each one. An object
   without `coreBytes` allows no core files. */
struct policy_limits {
  uint64_t memory_bytes;
  uint64_t processes;
  uint64_t open_files;
  uint64_t file_size_bytes;
  uint64_t cpu_seconds;
  uint64_t core_bytes; /* 0 is a limit here; POLICY_CORE_UNLIMITED: no limit */
};

/* Only policy_limits_merge returns it, because no JSON number can be so large. */
#define POLICY_CORE_UNLIMITED UINT64_MAX

extern const struct step_table policy_fence_table, policy_limits_table;

/* Read the JSON of the agent's --fence, in which paths must be absolute, of a step's, and of
   --limits. Return NULL with the reason, which names the field, such as `fence.network`. The caller
   calls policy_free with the same table. */
struct policy_fence *policy_parse_fence(const char *json, struct error *error);
struct policy_fence *policy_parse_step_fence(const char *json, struct error *error);
struct policy_limits *policy_parse_limits(const char *json, struct error *error);
void policy_free(const struct step_table *table, void *policy);

/* Returns the limits that count for a step: the smaller one of each pair. Either may be NULL, which
   has no limits. */
struct policy_limits policy_limits_merge(const struct policy_limits *agent,
                                         const struct policy_limits *step);

/* Whether there is any limit. */
bool policy_limits_exist(const struct policy_limits *self);

/* Returns the word of a network: "none". */
const char *policy_network_name(enum policy_network network);
