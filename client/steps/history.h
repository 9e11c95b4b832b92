#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/program.h"
#include "client/steps/event.h"

/* Searches the events that are in the stream already. It is read backwards, page by page, and
   nothing of a page stays in memory. Functions return 0, or -1 with the error. */

/* The longest step id plus one: others may write longer ones, which are ignored. */
#define HISTORY_ID_SIZE 64

/* Which events to show. */
struct history_query {
  const char *id; /* the step's id or a prefix of it; NULL: any step */
  bool one_step;  /* without an id: only the step that printed last */
  bool has_lines; /* only the last `lines` lines */
  uint64_t lines;
  bool has_age; /* only the events that are not older than `age_ms` by the clock of Redis */
  int64_t age_ms;
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

/* Fails also if no step, or more than one, has an id with this prefix. */
int history_find(struct program *program, const struct history_query *query,
                 struct history *history, struct error *error);

/* Sets the id of the newest entry, or "0-0" if there is none. */
int history_newest(struct program *program, char entry[ENTRY_ID_SIZE], struct error *error);

/* The event `started` of a step. */
struct started {
  char timestamp[48]; /* "": the event is not in the stream, or not anymore */
  int64_t unix_ms;
  char line[200]; /* the command, perhaps cut; it may have control characters */
};
int history_find_started(struct program *program, const char *events_key, const char *id,
                         struct started *started, struct error *error);
