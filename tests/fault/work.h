#ifndef TESTS_FAULT_WORK_H
#define TESTS_FAULT_WORK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/support/job.h"

/*
 * What an agent is given to do, and what must have come of it. A step prints its lines as numbers,
 * 1, 2, 3 …, so that each can be missed, and writes down that it ran, so that its runs can be
 * counted. A chunk that is appended to a file is so many lines, each with the step's place.
 */
#define WORK_STEPS_MAX 24

struct work_step {
  char id[64];
  int exit_code;
  long lines;          /* on one of the two streams */
  const char *stream;  /* "stdout" or "stderr" */
  const char *content; /* of one that reads a file, which may run more than once; else NULL */
  const char *filler;  /* behind each number */
  long chunk_lines;    /* of one that appends to the file of chunks; else 0 */
  long gap_until;      /* the server was brought back without what it had: lines may be missing in
                          one place, which ends before this line. 0: none may be */
  bool may_vanish;     /* and so may its result */
  bool may_be_cancelled;
  bool went_back; /* the server did so several times: events may be missing anywhere, and a
                          result may say that it was lost, also beside the one that the server had
                          kept, where it had kept a copy of the step as well */
};

struct work {
  struct job *job;
  struct work_step steps[WORK_STEPS_MAX];
  size_t count;
  bool may_be_interrupted; /* the agent is killed on purpose */
  bool may_be_killed;      /* supervisors are */
  bool redis_may_be_away;  /* when the agent leaves */
  char runs[PATH_MAX];     /* one line for each run of a step: its place in `steps` */
  char file[PATH_MAX];     /* what a step reads */
  char chunks[PATH_MAX];   /* what steps append to */
};

/* What is in the file of chunks of one step. */
struct work_chunk {
  long lines;
  long pieces;  /* they stand in so many places, where one is right */
  bool is_late; /* behind the chunk of a later step */
};

/* `directory` is where the runs are written down. */
void work_init(struct work *self, struct job *job, const char *directory);

/* Pushes a step that prints 1 … lines on stdout, and exits with this code. */
struct work_step *work_push_lines(struct work *self, long lines, int exit_code);

/* The same for a script of the caller's that prints these lines, each with the filler behind it, on
   stdout or, when it begins with `exec >&2;`, on stderr. */
struct work_step *work_push_script(struct work *self, long lines, const char *filler, int exit_code,
                                   const char *script);

/* Pushes a step that is cancelled at once, twice. */
void work_push_cancelled(struct work *self);

/* Pushes a readFile, which does not wait for its `started`. */
struct work_step *work_push_read(struct work *self);

/* Pushes a writeBytes that appends a chunk of so many lines. */
struct work_step *work_push_chunk(struct work *self, long lines);

/* What has been appended by each step; returns how many bytes are no step's. */
long work_find_chunks(const struct work *self, struct work_chunk chunks[WORK_STEPS_MAX]);

/* How often each step has run, of those that write it down. */
void work_count_runs(const struct work *self, long runs[WORK_STEPS_MAX]);

/* Waits until the stream has this many entries; fails the test when it never does. */
void work_wait_events(const struct work *self, long long entries);

#endif
