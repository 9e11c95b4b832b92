#ifndef CLIENT_STEPS_STARTED_H
#define CLIENT_STEPS_STARTED_H

#include <stddef.h>
#include <stdint.h>

#include "client/program.h"

/* The `started` event of a step, which is searched from the end of the stream. */
struct started {
  char timestamp[48]; /* "": it is not there, or not any more */
  int64_t unix_ms;    /* of that */
  char line[200];     /* what is executed, as far as it fits; not printable yet */
};

/* Returns 0, or -1 with the error. */
int started_find(struct program *program, const char *events_key, const char *id,
                 struct started *self, struct error *error);

#endif
