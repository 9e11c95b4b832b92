#include "tests/support/marks.h"
#include "tests/test.h"

cJSON *marks_step(struct job *job, const char *script) {
  return job_script(job, job_format(job,
                                    "ran() { echo >>%s; }; "
                                    "gate() { until [ -e %s$1 ]; do sleep 0.01; done; }; %s",
                                    job_path(job, "ran"), job_path(job, "gate"), script));
}

int marks_count(struct job *job) {
  FILE *file = fopen(job_path(job, "ran"), "re");
  int lines = 0;
  for (int c; file != NULL && (c = fgetc(file)) != EOF;)
    lines += c == '\n';
  if (file != NULL)
    fclose(file);
  return lines;
}

void marks_open_gate(struct job *job, const char *name) {
  FILE *file = fopen(job_format(job, "%s%s", job_path(job, "gate"), name), "we");
  assert_non_null(file);
  fclose(file);
}
