/* directoryTree: wire/PROTOCOL.md. */

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/events.h"
#include "tests/support/kind_rows.h"
#include "tests/test.h"

#define TREE "'kind':'directoryTree','path':"

static void run(struct job *job, const struct kind_row *rows, size_t count) {
  job_start_agent(job, NULL);
  kind_rows_run(job, rows, count);
}

JOB_TEST_NO_AGENT(a_tree_is_as_in_the_contract) {
  static const char *const files[] = {"Makefile",          "src/main.c",      "src/a/b/c/d",
                                      "src/a/b/c/e/f",     "z/.hidden",       "node_modules/x/y",
                                      "src/a/bin/program", ".git/config",     "src/bin2",
                                      "src/a/b/README",    "docs/index.html", "a.c"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    kind_rows_file(job, files[i], "");
  assert_int_equal(symlink("src", kind_rows_path(job, "link")), 0);
  assert_int_equal(symlink("nowhere", kind_rows_path(job, "dangling")), 0);
  static const struct kind_row rows[] = {
      {TREE "'.','maxDepth':1", 0,
       "files/\n├── docs/\n├── link/\n├── src/\n├── z/\n├── Makefile\n├── a.c\n└── dangling\n",
       NULL},
      {TREE "'src'", 0,
       "src/\n├── a/\n│   └── b/\n│       ├── c/\n│       │   ├── e/\n│       │   └── d\n"
       "│       └── README\n├── bin2\n└── main.c\n",
       NULL},
      {TREE "'$D/src/a/','maxDepth':2", 0, "a/\n└── b/\n    ├── c/\n    └── README\n", NULL},
      {TREE "'src','excludeGlobs':['*.c','[ab]']", 0, "src/\n└── bin2\n", NULL},
      {TREE "'node_modules'", 0, "node_modules/\n└── x/\n    └── y\n", NULL},
      {TREE "'z','excludeGlobs':[]", 0, "z/\n└── .hidden\n", NULL},
      {TREE "'link','maxDepth':1", 0, "link/\n├── a/\n├── bin2\n└── main.c\n", NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(what_cannot_be_done_is_said) {
  kind_rows_file(job, "file", "");
  static const struct kind_row rows[] = {
      {TREE "'none'", 1, NULL, "directory not found: none"},
      {TREE "'file'", 1, NULL, "is a regular file, not a directory: file"},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(what_is_missing_is_told) {
  kind_rows_deep_file(job);
  job_start_agent(job, NULL);
  const cJSON *step = kind_rows_step(job, TREE "'.','maxDepth':1000");
  const cJSON *result = job_run(job, step);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  assert_string_equal(events_lines(job, step, "stderr"),
                      "1 directories could not be looked into\n");
}
