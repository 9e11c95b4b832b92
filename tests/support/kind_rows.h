#ifndef TESTS_SUPPORT_KIND_ROWS_H
#define TESTS_SUPPORT_KIND_ROWS_H

#include <stddef.h>

#include "tests/support/job.h"

/*
 * Steps of the file kinds as a table: what is sent, and what is answered. In all texts $D is the
 * directory of the test, below the Redis server's, which is also the workingDirectory of every
 * step; $$ is a dollar. Quotes are as in quoted.h.
 */
struct kind_row {
  const char *fields;  /* of the step, without stepId and workingDirectory */
  int exit_code;       /* 0 or 1 */
  const char *content; /* outputContent; NULL: null */
  const char *words;   /* the lines on standard error; NULL: none. With 1 also errorMessage */
};

/* Runs each row, and checks its result and its events: `started`, `words`, `completed`. */
void kind_rows_run(struct job *job, const struct kind_row *rows, size_t count);

/* The test's directory, made when it is first asked for; a name in it. */
const char *kind_rows_directory(struct job *job);
const char *kind_rows_path(struct job *job, const char *name);

/* Makes a file in it, and the directories above; and what it then holds. */
void kind_rows_file(struct job *job, const char *name, const char *content);
void kind_rows_bytes(struct job *job, const char *name, const char *bytes, size_t length);
const char *kind_rows_content(struct job *job, const char *name);

/* Makes one deeper than a walk goes: to root, nothing else is closed. */
void kind_rows_deep_file(struct job *job);

/* A step with these fields, to be pushed; $D as above. */
cJSON *kind_rows_step(struct job *job, const char *fields);

#endif
