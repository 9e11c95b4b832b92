#include "agent/kinds/kind.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/lexical_path.h"
#include "agent/process/launch.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/printable.h"
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

static char **other_path(const struct step *step) {
  static char *none = NULL;
  size_t offset = kind_of(step)->other_path;
  return offset > 0 ? (char **)(void *)((char *)step->fields + offset) : &none;
}

static bool is_relative(const char *path) {
  return path != NULL && path[0] != '/';
}

static void begin_at(const char *directory, char **path) {
  if (is_relative(*path) && asprintf(path, "%s/%s", directory, *path) < 0)
    memory_exhausted("a buffer");
}

/* Where the step's own directory is missing, its paths are made absolute and the kind goes on: it
   reports that there is no such file, or creates it. */
static int enter_directory(struct step *step, struct error *error) {
  char **other = other_path(step);
  if (!is_relative(step->target) && !is_relative(*other))
    return 0;
  const char *own = step->working_directory;
  const char *directory = own != NULL ? own : KIND_DIRECTORY;
  if (chdir(directory) == 0 || (own == NULL && launch_is_missing(errno)))
    return 0;
  if (!launch_is_missing(errno))
    return error_set(error, "working directory %s: %s", directory, strerror(errno));
  begin_at(own, &step->target);
  begin_at(own, other);
  return 0;
}

/* What is relative to it begins at the agent's own directory, unless `enter_directory` has entered it.
 */
char *kind_repository(const struct step *step) {
  const char *own = step->working_directory;
  struct stat file;
  if (own == NULL && stat(KIND_DIRECTORY, &file) == 0 && S_ISDIR(file.st_mode))
    own = KIND_DIRECTORY;
  char current[PATH_MAX] = "/";
  if ((own == NULL || own[0] != '/') && getcwd(current, sizeof current) == NULL)
    return NULL;
  bool is_entered = own != NULL && own[0] != '/' && step->target[0] != '/';
  return lexical_path_new(current, own == NULL || is_entered ? "." : own);
}

/* A name in it must not look like a line of its own. */
static void add_line(struct buffer *lines, const char *text) {
  struct buffer printable = {0};
  struct error line;
  printable_add(&printable, text);
  (void)error_set(&line, "%.*s", (int)printable.length, printable.bytes);
  buffer_release(&printable);
  buffer_add_string(lines, line.text);
  buffer_add_string(lines, "\n");
}

void kind_warn(struct output *output, const char *format, ...) {
  char *text;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0)
    memory_exhausted("a buffer");
  va_end(arguments);
  add_line(&output->warnings, text);
  free(text);
}

void kind_warn_unread(struct output *output, size_t directories) {
  if (directories > 0)
    kind_warn(output, "%zu directories could not be looked into", directories);
}

static bool put(int fd, const struct buffer *text) {
  return write_all(fd, text->bytes, text->length) == 0;
}

int kind_work(const void *context) {
  struct step step = *(const struct step *)context;
  (void)prctl(PR_SET_NAME, step.kind->name); /* for ps */
  struct output output = {0};
  struct error error;
  if (enter_directory(&step, &error) != 0 || kind_of(&step)->work(&step, &output, &error) != 0) {
    struct buffer reason = {0};
    add_line(&reason, error.text);
    (void)put(STDERR_FILENO, &reason);
    return 1;
  }
  return put(STDERR_FILENO, &output.warnings) && put(STDOUT_FILENO, &output.content) ? 0 : 1;
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
