#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/support/job.h"

/*
 * The steps that an agent gets, and their expected results. A step prints numbered lines, so that a
 * missing one is noticed, and records each run in a file, so that its runs can be counted. Some
 * steps append a chunk to a file: a number of lines with the step's place in `steps`.
 */
#define WORK_STEPS_MAX 24

struct work_step {
  char id[64];
  int exit_code;
  long lines;          /* the number of lines, on one of the two streams */
  const char *stream;  /* "stdout" or "stderr" */
  const char *content; /* of the file, if the step reads one and so may run twice; else NULL */
  const char *filler;  /* after each number */
  long chunk_lines;    /* if the step appends to the file of chunks; else 0 */
  long gap_until;      /* the server has lost data: one range of lines may be missing, which ends
                          before this line. 0: no line may be missing */
  bool may_vanish;     /* the result may be missing, too */
  bool may_be_cancelled;
  bool went_back; /* the server has lost data several times: events may be missing anywhere, and the
                     result may say that it was lost, also in addition to the right one if the
                     server had kept a copy of the step */
};

struct work {
  struct job *job;
  struct work_step steps[WORK_STEPS_MAX];
  size_t count;
  bool may_be_interrupted; /* the agent is killed on purpose */
  bool may_be_killed;      /* supervisors are killed on purpose */
  bool redis_may_be_away;  /* Redis may be unreachable when the agent leaves */
  char runs[PATH_MAX];     /* a file with one line for each run of a step: its place in `steps` */
  char file[PATH_MAX];     /* the file that a step reads */
  char chunks[PATH_MAX];   /* the file that steps append to */
};

/* The lines of one step in the file of chunks. */
struct work_chunk {
  long lines;
  long pieces;  /* the number of places with such lines; 1 is right */
  bool is_late; /* the lines are after those of a later step */
};

/* `directory` gets the three files. */
void work_init(struct work *self, struct job *job, const char *directory);

/* Pushes a step that prints the lines 1 to `lines` on stdout, and exits with this code. */
struct work_step *work_push_lines(struct work *self, long lines, int exit_code);

/* The same for a script that prints these lines, each followed by the filler, on stdout or, if it
   begins with `exec >&2;`, on stderr. */
struct work_step *work_push_script(struct work *self, long lines, const char *filler, int exit_code,
                                   const char *script);

/* Pushes a step and, right after it, two cancels. */
void work_push_cancelled(struct work *self);

/* Pushes a readFile, which does not wait for its `started`. */
struct work_step *work_push_read(struct work *self);

/* Pushes a writeBytes that appends a chunk of this many lines. */
struct work_step *work_push_chunk(struct work *self, long lines);

/* Finds the chunk of each step. Returns the number of bytes that belong to no step. */
long work_find_chunks(const struct work *self, struct work_chunk chunks[WORK_STEPS_MAX]);

/* Counts the runs of each step that records them. */
void work_count_runs(const struct work *self, long runs[WORK_STEPS_MAX]);

/* Waits until the stream has this many entries. A timeout fails the test. */
void work_wait_events(const struct work *self, long long entries);
