#pragma once

#include "bench/rig.h"
#include "tests/support/agent_process.h"

/*
 * An agent whose steps print lines (bench/programs/lines.c).
 *
 *   printer_init(&printer, &rig);
 *   double seconds = printer_print(&printer, 1000000);
 *   printer_release(&printer);
 */
#define PRINTER_EVENTS "sandbox:printer:events"

struct printer {
  const struct rig *rig;
  struct agent_process *agent;
  char program[PATH_MAX];
  unsigned long steps; /* pushed so far */
};

/* Starts the agent and waits until it waits for a step. */
void printer_init(struct printer *self, const struct rig *rig);
void printer_release(struct printer *self);

/* Runs a step that prints this many lines. Returns the seconds until the result is here; by then
   all events are in the stream. Fails if the server was given more events than lines, or fewer; it
   is asked before and after that time. */
double printer_print(struct printer *self, long lines);
