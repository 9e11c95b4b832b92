#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/program.h"
#include "client/steps/event.h"

/* Searches the events that exist already, the newest first. */

/* The longest step id plus one: others may write longer ones, which are ignored. */
#define HISTORY_ID_SIZE 64

/* Which events to show. */
struct history_query {
  const char *id; /* the step's id or a prefix of it; NULL: any step */
  bool one_step;  /* without an id: only the step that printed last */
  bool has_lines; /* only the last `lines` lines */
  uint64_t lines;
  bool has_age;
  int64_t age_ms; /* only the events that are not older, by access->read_clock */
};

struct history {
  char after[ENTRY_ID_SIZE];  /* the events to show follow this entry */
  uint64_t skip;              /* lines at the beginning of the first one, which is raw */
  bool is_cut;                /* events of the first step are left out, because nobody wants them */
  char newest[ENTRY_ID_SIZE]; /* "0-0" if the stream is empty */
  char id[HISTORY_ID_SIZE];   /* the step of the query, or else of the newest event */
  uint64_t seq;               /* of the newest event */
  int64_t unix_ms;            /* its time; 0: unknown */
};

/* Returns 0, or -1 with the error, also if no step or more than one has an id with this prefix. */
int history_find(struct program *program, const struct history_query *query,
                 struct history *history, struct error *error);

/* The event `started` of a step. */
struct started {
  char timestamp[48]; /* "": the event is not in the stream, or not anymore */
  int64_t unix_ms;
  char line[200]; /* the command, perhaps cut; it may have control characters */
};
