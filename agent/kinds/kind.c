#include "agent/kinds/kind.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/process/launch.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/write_all.h"

const struct kind *kind_of(const struct step *step) {
  CHECK(step_is_work(step));
  return (const struct kind *)step->kind;
}

char *kind_title(const struct step *step) {
  char *title;
  const char *name = kind_of(step)->work == NULL ? "" : step->kind->name;
  if (asprintf(&title, "%s%s%.*s", name, *name == '\0' ? "" : " ", (int)KIND_TITLE_MAX,
               step->target) < 0)
    memory_exhausted("a buffer");
  for (char *at = title; (at = strpbrk(at, "\r\n")) != NULL;)
    *at = ' ';
  return title;
}

void kind_describe(const struct step *step, char *out, size_t size) {
  const struct kind *kind = kind_of(step);
  if (kind->describe != NULL)
    kind->describe(step, out, size);
  else
    (void)snprintf(out, size, "%s %s", step->kind->name, step->target);
}

/* Where the step's own directory is missing, the path is made absolute and the kind goes on: it
   reports that there is no such file, or creates it. */
static int enter_directory(struct step *step, struct error *error) {
  if (step->target[0] == '/')
    return 0;
  const char *own = step->working_directory;
  const char *directory = own != NULL ? own : KIND_DIRECTORY;
  if (chdir(directory) == 0 || (own == NULL && launch_is_missing(errno)))
    return 0;
  if (!launch_is_missing(errno))
    return error_set(error, "working directory %s: %s", directory, strerror(errno));
  if (asprintf(&step->target, "%s/%s", own, step->target) < 0)
    memory_exhausted("a buffer");
  return 0;
}

void kind_warn(struct output *output, const char *format, ...) {
  const struct error before = output->warning;
  struct error more;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(more.text, sizeof more.text, format, arguments);
  va_end(arguments);
  (void)error_set(&output->warning, "%s%s%s", before.text, before.text[0] != '\0' ? "; " : "",
                  more.text);
}

void kind_warn_unread(struct output *output, size_t directories) {
  if (directories > 0)
    kind_warn(output, "%zu directories could not be looked into", directories);
}

static bool put_line(const struct error *line) {
  char text[sizeof line->text + 1];
  return write_all(STDERR_FILENO, text, (size_t)snprintf(text, sizeof text, "%s\n", line->text)) ==
         0;
}

int kind_work(const void *context) {
  struct step step = *(const struct step *)context;
  (void)prctl(PR_SET_NAME, step.kind->name); /* for ps */
  struct output output = {0};
  struct error error;
  if (enter_directory(&step, &error) != 0 || kind_of(&step)->work(&step, &output, &error) != 0) {
    (void)put_line(&error);
    return 1;
  }
  bool written = (output.warning.text[0] == '\0' || put_line(&output.warning)) &&
                 write_all(STDOUT_FILENO, output.content.bytes, output.content.length) == 0;
  return written ? 0 : 1;
}

struct process_spec kind_process_spec(const struct kind_context *context, const struct step *step,
                                      const char *tag) {
  const struct kind *kind = kind_of(step);
  struct process_spec spec = {.tag = tag, .timeout_seconds = step->timeout_seconds};
  if (kind->prepare_spec != NULL) {
    kind->prepare_spec(context, step, tag, &spec);
  } else {
    spec.work = kind_work;
    spec.work_context = step;
  }
  return spec;
}

void kind_release_input(struct step *step) {
  const struct kind *kind = kind_of(step);
  if (kind->release_input != NULL)
    kind->release_input(step);
}
