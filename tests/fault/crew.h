#pragma once

#include <limits.h>
#include <stdbool.h>

#include "tests/fault/family.h"

/*
 * Runs the trials of a family, several at a time and each in its own process, and prints one line
 * with their results. A trial that exceeds its time is killed.
 *
 *   crew_init(&crew, places, seed)      also blocks SIGCHLD and the signals that end the program
 *   crew_run(&crew, &families[0], false, true), …
 *   crew_release(&crew)
 */
#define CREW_PLACES_MAX 64

struct crew_place {
  pid_t pid; /* 0: free */
  int64_t begin_ms;
  struct trial trial;
  struct redis_server *servers[2]; /* shared by trials: plain, with TLS; NULL before the first */
};

struct crew {
  int count;
  long seed;
  char directory[PATH_MAX];          /* has the evidence of trials that found something */
  struct certificates *certificates; /* NULL until the first trial over TLS */
  struct tally *tallies;             /* one for each place, in memory shared with the trials */
  struct crew_place places[CREW_PLACES_MAX];
  bool told_to_end;
};

void crew_init(struct crew *self, int places, long seed);

/* Removes the directory if it is empty. */
void crew_release(struct crew *self);

/* Runs all trials of a family, or the short selection, plain or over TLS. Does nothing if the
   family has no such trials. Returns true if nothing was found. */
bool crew_run(struct crew *self, const struct family *family, bool over_tls, bool in_short);

/* Runs one trial of a family. */
bool crew_run_one(struct crew *self, const struct family *family, bool over_tls,
                  enum relay_role role, long number);
