#ifndef TESTS_FAULT_CREW_H
#define TESTS_FAULT_CREW_H

#include <limits.h>
#include <stdbool.h>

#include "tests/fault/family.h"

/*
 * Runs the trials of a family, many at a time, each in a process of its own, and says in one line
 * what came of them. A trial that does not end by itself is ended.
 *
 *   crew_init(&crew, places, seed)      also begins to watch for children and for being told to end
 *   crew_run(&crew, &families[0], false, true), …
 *   crew_release(&crew)
 */
#define CREW_PLACES_MAX 64

struct crew_place {
  pid_t pid; /* 0: free */
  int64_t begin_ms;
  struct trial trial;
  struct redis_server *servers[2]; /* for trials that share one: plain, with TLS; NULL until the
                                      first */
};

struct crew {
  int count;
  long seed;
  char directory[PATH_MAX];          /* what trials leave behind that found something */
  struct certificates *certificates; /* NULL until the first trial over TLS */
  struct tally *tallies;             /* one for each place, seen by the trials */
  struct crew_place places[CREW_PLACES_MAX];
  bool told_to_end;
};

void crew_init(struct crew *self, int places, long seed);

/* Removes the directory when nothing was left in it. */
void crew_release(struct crew *self);

/* The whole or the short cut of a family, plain or over TLS; nothing where the family has none of
   that. Returns whether all was well. */
bool crew_run(struct crew *self, const struct family *family, bool over_tls, bool in_short);

/* One trial of it. */
bool crew_run_one(struct crew *self, const struct family *family, bool over_tls,
                  enum relay_role role, long number);

#endif
