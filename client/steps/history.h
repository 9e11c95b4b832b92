#ifndef CLIENT_STEPS_HISTORY_H
#define CLIENT_STEPS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/program.h"

/*
 * Where in the stream of a job's events somebody begins who wants to see what is there already. It
 * is read backwards, in pages, of which nothing is kept.
 */

/* The id of a stream's entry, "1700000000000-0". */
#define ENTRY_SIZE 48
int entry_compare(const char *entry, const char *other);

/* Of an event's stepId, which others may have written. */
#define HISTORY_ID_SIZE 64

struct history_query {
  const char *id; /* of a step, or its beginning; NULL: any */
  bool one_step;  /* without an id: of the step that printed last */
  bool has_lines; /* no more than the last `lines` */
  uint64_t lines;
  int64_t since_ms; /* nothing older than this (since 1970); 0: anything */
};

struct history {
  char after[ENTRY_SIZE];   /* what is wanted comes behind this entry */
  char newest[ENTRY_SIZE];  /* "0-0": the stream is empty */
  char id[HISTORY_ID_SIZE]; /* of the step that was asked for, else of the newest event */
  uint64_t seq;             /* of the newest event */
  bool is_waiting;          /* the step is in the queue */
};

/* Returns 0, or -1 with the error: also where no step, or more than one, has an id that begins
   so. */
int history_find(struct program *program, const struct history_query *wish, struct history *past,
                 struct error *error);

/* The newest entry, "0-0" where there is none. */
int history_newest(struct program *program, char entry[ENTRY_SIZE], struct error *error);

#endif
