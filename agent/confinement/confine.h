#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/confinement/filter.h"
#include "agent/confinement/landlock.h"
#include "base/error.h"

/*
 * Confines the calling process, and all that it starts, by the record that confinement.h has made.
 * The child of a supervisor calls it before it executes a command, and the supervisor itself before
 * it works on files. The hard part is that child, which shares the memory of its supervisor: here
 * nothing is allocated, locked or logged, and errno is not read.
 */

/* A path below which something is allowed. */
struct confine_path {
  uint64_t access; /* below a directory; of a file only the actions that files have */
  uint32_t text;   /* the offset in the record */
  uint16_t index;  /* in its field, for the reason of a refusal */
  uint8_t field;   /* enum confine_field */
};

enum confine_field {
  CONFINE_WRITE_PATHS, /* must exist, without a symbolic link on the path */
  CONFINE_READ_PATHS,  /* may be missing */
  CONFINE_OWN          /* of the agent; may be missing */
};

struct confine_limit {
  int32_t resource; /* RLIMIT_… */
  uint64_t soft, hard;
};

#define CONFINE_LIMITS_MAX 4

/* Behind it are the paths, the ports, the instructions of the filter, and the texts. Offsets count
   from the record, which is aligned for a uint64_t. */
struct confine_record {
  struct landlock_attr attr; /* of the step's rule set; zeros: it has none */
  struct confine_limit limits[CONFINE_LIMITS_MAX];
  uint32_t limit_count, path_count, port_count, instruction_count;
  uint32_t
      directory; /* the text of the directory at which relative paths begin; 0: there are none */
  bool directory_may_be_missing; /* then they begin at the base */
  bool has_agent_rules;          /* the rule set of the agent counts, too */
  bool has_listener;             /* see filter_asks */
  bool lets_udp_through;
};

/* Whether the record has a rule set of its own. */
bool confine_has_rules(const struct confine_record *self);

/* Why a process could not be confined. */
struct confine_failure {
  struct error reason;
  char *whole; /* space of the caller for the reason uncut, to find secrets in it; or NULL */
  size_t whole_size;
};

/* Opens the directory at which the record's relative paths begin; a relative one begins at `base`.
   Returns a close-on-exec descriptor; `base` if there are no such paths, or the directory is
   missing and may be; -1 with the reason. */
int confine_open_directory(const struct confine_record *self, int base,
                           struct confine_failure *failure);

/* Makes the record's rule set. `directory` is where relative paths begin. Returns a close-on-exec
   descriptor, or -1 with the reason. */
int confine_make_rules(const struct confine_record *self, int directory,
                       struct confine_failure *failure);

/* Confining takes two calls. If one fails, it returns -1 with the reason; then this process may be
   confined in part, and must not execute anything. */

/* Installs the filter, if the record has one. If that has a listener, `*listener` becomes its
   close-on-exec descriptor. Another process with which this one shares its descriptors keeps the
   listener: this process gets copies of its own. Returns 0 or -1. */
int confine_install_filter(const struct confine_record *self, int *listener,
                           struct confine_failure *failure);

/* Restricts files, ports and resources. `directory` is that of confine_make_rules; `agent_rules` is
   the rule set of the agent's own policy, if the record has_agent_rules. Returns 0 or -1. */
int confine_restrict(const struct confine_record *self, int directory, int agent_rules,
                     struct confine_failure *failure);
