#ifndef CLIENT_REDIS_CONTROL_H
#define CLIENT_REDIS_CONTROL_H

#include "client/program.h"

/*
 * Tells the agent of the program's job to cancel steps, or to shut down. A message that arrives
 * twice does nothing the second time. Functions return 0, or -1 with the error.
 *
 *   control_begin(&control, program, &error)
 *   control_cancel(&control, id, &error)        for each step
 *
 * A cancel is pushed to the list `control`, which an agent reads out of band. An agent without the
 * feature `control` (0.2 or older) gets it in the list `in`. If no agent is alive, `control` has a
 * day to live, and the next agent reads it.
 */
struct control {
  struct program *program;
  bool is_alive;   /* there is an agent */
  bool is_in_band; /* it has no feature `control` */
};

int control_begin(struct control *self, struct program *program, struct error *error);
int control_cancel(struct control *self, const char *id, struct error *error);

/* Pushes a shutdown to the list `in`: its turn comes after the waiting steps. */
int control_shutdown(struct program *program, const char *id, struct error *error);

#endif
