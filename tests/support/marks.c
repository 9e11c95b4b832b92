#include "tests/support/marks.h"

#include "tests/support/gate.h"
#include "tests/test.h"

cJSON *marks_step(struct job *job, const char *script) {
  const char *gate = job_path(job, "gate");
  return job_script(job, job_format(job, "ran() { echo $1 >>%s; }; gate() { " GATE("%s$1") "}; %s",
                                    job_path(job, "ran"), gate, gate, script));
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
  gate_open(job_format(job, "%s%s", job_path(job, "gate"), name));
}
