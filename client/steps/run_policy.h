#pragma once

#include <stdbool.h>

#include "client/access.h"
#include "client/program.h"

/*
 * The sandbox policy and the limits of a step of `run`: from the options to the step, and what the
 * agent says about them. The hard part is that nothing may be lost silently: an agent ignores a
 * field that it does not know, and the step would run without its policy.
 *
 *   run_policy_read(&policy, &error);             after the options, before anything is pushed
 *   run_policy_check(&policy, &agent, &error);    with the agent that gets the step
 *   run_policy_add(&policy, &json);               between step_text_begin and step_text_end
 *   run_policy_see(&policy, &view);               for each event of the step
 *   run_policy_report(&policy, program, result);  at its end
 *   run_policy_release(&policy);
 */
struct run_policy {
  /* The values of --fence and --limits: an object as JSON, or @FILE. NULL: not given. */
  const char *fence_option, *limits_option;
  bool read_only, no_network;
  struct buffer fence, limits; /* the objects as JSON; empty: none */
  bool is_ignored;             /* the step has started, and the agent names no policy */
};

/* Reads and checks the options. Returns 0, or -1 with an error that names the option or the
   field. */
int run_policy_read(struct run_policy *self, struct error *error);

/* Whether the step has a policy or limits. */
bool run_policy_is_set(const struct run_policy *self);

/* Returns 0 if the agent announces what the step needs, or -1 with the error. */
int run_policy_check(const struct run_policy *self, const struct job_agent *agent,
                     struct error *error);

/* Adds the fields to a step. */
void run_policy_add(const struct run_policy *self, struct buffer *json);

/* Notes what the event `started` says. */
void run_policy_see(struct run_policy *self, const struct event_view *view);

/* Says what was not enforced and what was denied. Returns false, after an error message, if the
   agent has executed the step without its policy. `result` may be NULL. */
bool run_policy_report(const struct run_policy *self, struct program *program, const char *result);

void run_policy_release(struct run_policy *self);
