#include "tests/support/marks.h"
#include "tests/test.h"

cJSON *marks_step(struct job *job, const char *script) {
  return job_script(job, job_format(job,
                                    "ran() { echo $1 >>%s; }; "
                                    "gate() { until [ -e %s$1 ]; do sleep 0.01; done; }; %s",
                                    job_path(job, "ran"), job_path(job, "gate"), script));
}

const char *marks_read(struct job *job) {
  char text[256] = "";
  FILE *file = fopen(job_path(job, "ran"), "re");
  if (file == NULL)
    return "";
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return job_format(job, "%s", text);
}

int marks_count(struct job *job) {
  int lines = 0;
  for (const char *at = marks_read(job); (at = strchr(at, '\n')) != NULL; at++)
    lines++;
  return lines;
}

void marks_open_gate(struct job *job, const char *name) {
  FILE *file = fopen(job_format(job, "%s%s", job_path(job, "gate"), name), "we");
  assert_non_null(file);
  fclose(file);
}
