#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/policy.h"
#include "wire/step.h"
#include "wire/step_report.h"

/*
 * Decides how a step is confined: what the kernel can enforce, what of the agent's own policy
 * (--fence, --limits) and of the step's counts, and what is to be refused. The engine asks for a
 * plan of each step, and packs it into the message to the supervisor, where confine.h applies it.
 * The hard part is that a step may only narrow the agent's policy. For files and ports the kernel
 * itself ensures that: it applies both rule sets.
 */

/* What a kernel can enforce, and the words for it in events. */
enum confinement_part {
  CONFINEMENT_WRITE,
  CONFINEMENT_READ,
  CONFINEMENT_NETWORK, /* the families of sockets */
  CONFINEMENT_CONNECT, /* the ports of TCP */
  CONFINEMENT_BIND,
  CONFINEMENT_LOOPBACK,
  CONFINEMENT_UDP,              /* with CONFINEMENT_LOOPBACK */
  CONFINEMENT_TRACE,            /* processes outside the step */
  CONFINEMENT_SIGNALS,          /* to processes outside the step */
  CONFINEMENT_ABSTRACT_SOCKETS, /* of processes outside the step */
  CONFINEMENT_AGENT,            /* its resource limits and its scheduling */
  CONFINEMENT_PARTS
};

struct confinement_options {
  struct policy_fence *fence;   /* of every step; NULL: none */
  struct policy_limits *limits; /* the same */
  /* Base names of commands, separated by commas; NULL: no such rule. Advisory, because a command
     that is allowed may execute another one. */
  const char *allowed_commands, *denied_commands;
  bool agent_is_protected; /* by its own filter, which steps inherit: see filter.h */
};

struct confinement;

/* Examines the kernel, and makes the rule set of the agent's own policy. The options must outlive
   it. Returns NULL with the reason if the kernel cannot enforce that policy. */
struct confinement *confinement_new(const struct confinement_options *options, struct error *error);
void confinement_free(struct confinement *self);

/* Returns the descriptor of the agent's rule set, for supervisors; 0: none. */
int confinement_rules(const struct confinement *self);

/* Returns the agent's own policy; NULL: none. */
const struct policy_fence *confinement_fence(const struct confinement *self);

/* Returns the ABI of Landlock; 0: none. Writes the words for what can be enforced, and a NULL. */
int confinement_describe(const struct confinement *self, const char *words[CONFINEMENT_PARTS + 1]);

/* How one step is confined. Points into the step. */
struct confinement_plan {
  bool is_needed;                   /* else the step is not confined */
  const struct policy_fence *fence; /* the step's; NULL: none, or none that counts */
  bool has_limits;
  struct policy_limits limits;
  enum policy_network network;
  bool lets_udp_through;
  bool has_fence; /* of the step or of the agent: the report is valid */
  struct step_fence report;
  const char *enforced[CONFINEMENT_PARTS + 1], *missing[CONFINEMENT_PARTS + 1];
};

/* Makes the plan, at its place, to which its report points. Returns 0, or -1 with the reason why
   the step is refused. */
int confinement_plan(const struct confinement *self, const struct step *step,
                     struct confinement_plan *plan, struct error *error);

/* Checks the command of a step against the two lists. Returns 0, or -1 with the reason. */
int confinement_check_command(const struct confinement *self, const char *command,
                              struct error *error);

/* Appends the record of a plan that is needed, aligned for it, and returns its offset. Relative
   paths begin at `directory`, the step's, or at the agent's own if that may be missing and is.
   `is_work`: for a file kind. */
size_t confinement_pack(const struct confinement *self, const struct confinement_plan *plan,
                        bool is_work, const char *directory, bool directory_may_be_missing,
                        struct buffer *body);
