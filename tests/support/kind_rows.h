#pragma once

#include <stddef.h>

#include "tests/support/job.h"

/* Steps of the file kinds as a table of fields and answers. In all texts $D is the test's
   directory, below that of the Redis server, and the workingDirectory of each step; $$ is a dollar.
   Quotes are as in quoted.h. */
struct kind_row {
  const char *fields;  /* of the step, without stepId and workingDirectory */
  int exit_code;       /* 0 or 1 */
  const char *content; /* outputContent; NULL: null */
  const char *words;   /* the lines on standard error; NULL: none. With 1 also the errorMessage */
};

/* Runs each row, and checks its result and its events: `started`, `words`, `completed`. */
void kind_rows_run(struct job *job, const struct kind_row *rows, size_t count);

/* The test's directory, made at the first call; the path of a file in it. */
const char *kind_rows_directory(struct job *job);
const char *kind_rows_path(struct job *job, const char *name);

/* Makes a file in it with the directories above; returns the content of a file. */
void kind_rows_file(struct job *job, const char *name, const char *content);
void kind_rows_bytes(struct job *job, const char *name, const char *bytes, size_t length);
const char *kind_rows_content(struct job *job, const char *name);

/* Makes a file deeper than a walk of directories goes; root can read all others. */
void kind_rows_deep_file(struct job *job);

/* A step with these fields; $D as above. */
cJSON *kind_rows_step(struct job *job, const char *fields);
