#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * A step of the server of October, and the bytes that the server sends for it: those of
 * System.Text.Json with camelCase names, without nulls, and with its default encoder. Three
 * examples in tests/integration/test_october_steps.c and every code point were compared with
 * .NET 10.
 *
 * A member that is NULL or 0 has the server's default, or is omitted.
 */
struct october_step {
  const char *id;   /* NULL: a new one, by october_server_push */
  const char *kind; /* NULL: "run" */
  const char *command;
  const char *const *args; /* to NULL */
  const char *working_directory;
  const char *const *env; /* name, value, name, value … NULL */
  const char *path;
  const char *content; /* a text; of writeBytes: base64 */
  const char *pattern;
  const char *glob;
  int schema_version;  /* 0: OCTOBER_SCHEMA_VERSION */
  int timeout_seconds; /* 0: OCTOBER_TIMEOUT_SECONDS */
  int max_depth;
  int head_limit;
  int start_line;
  int line_count;
  int context_before;
  int context_after;
  const char *output_mode; /* NULL: "content" */
  const char *sort_by;     /* NULL: "name" */
  const char *const *exclude_globs;
  bool with_line_numbers;
  bool with_sizes;
  bool search_hidden;
  bool append;
  const char *rename_to;

  /* JSON in place of the three names, as a server of another version might send. */
  const char *kind_json;
  const char *output_mode_json;
  const char *sort_by_json;
};

enum { OCTOBER_SCHEMA_VERSION = 2, OCTOBER_TIMEOUT_SECONDS = 600 };

/* The JSON of a step that has an id; to be freed. */
char *october_step_json(const struct october_step *step);
