#include "agent/kinds/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/path.h"
#include "agent/process/exec_command.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "base/write_all.h"

#define ADDRESS(kind) &(kind),
#define KIND_ADDRESS(name) ADDRESS(name##_kind.wire)

const struct step_kind *const kinds[] = {KINDS(KIND_ADDRESS) ADDRESS(step_shutdown)
                                             ADDRESS(step_cancel) NULL};

const struct kind *kind_of(const struct step *step) {
  CHECK(step_is_work(step));
  return (const struct kind *)step->kind;
}

char *kind_title(const struct step *step, struct masker *masker) {
  char *target = memory_copy(step->target, strlen(step->target));
  const char *name = kind_of(step)->work == NULL ? "" : step->kind->name;
  mask_string(masker, target, false);
  const size_t length = strlen(target);
  const size_t shown = length > KIND_TITLE_MAX ? utf8_cut(target, KIND_TITLE_MAX) : length;
  char *title = memory_format("%s%s%.*s", name, *name == '\0' ? "" : " ", (int)shown, target);
  free(target);
  for (char *at = title; (at = strpbrk(at, "\r\n")) != NULL;)
    *at = ' ';
  return title;
}

void kind_describe(const struct step *step, struct masker *masker, char *out, size_t size) {
  if (kind_of(step)->work == NULL) {
    run_kind_describe(step, masker, out, size);
    return;
  }
  char *title = kind_title(step, masker);
  (void)snprintf(out, size, "%s", title);
  free(title);
}

static char **other_path(const struct step *step) {
  static char *none = NULL;
  size_t offset = kind_of(step)->other_path;
  return offset > 0 ? (char **)(void *)((char *)step->fields + offset) : &none;
}

static bool is_relative(const char *path) {
  return path != NULL && path[0] != '/';
}

static void make_absolute(const char *directory, char **path) {
  if (is_relative(*path))
    *path = memory_format("%s/%s", directory, *path);
}

/* Enters the step's directory if one of its paths is relative. If that directory is missing, makes
   the paths absolute: the kind then reports that there is no such file, or creates it. */
static int enter_directory(struct step *step, struct error *error) {
  char **other = other_path(step);
  if (!is_relative(step->target) && !is_relative(*other))
    return 0;
  const char *own = step->working_directory;
  const char *directory = own != NULL ? own : KIND_DIRECTORY;
  if (chdir(directory) == 0 || (own == NULL && exec_command_is_missing(errno)))
    return 0;
  if (!exec_command_is_missing(errno))
    return error_set(error, "working directory %s: %s", directory, strerror(errno));
  make_absolute(own, &step->target);
  make_absolute(own, other);
  return 0;
}

/* Replaces the "~" of a tool's path by the home directory, unless there is a file of that name. */
static int expand_home(struct step *step, struct error *error) {
  const char *own = step->working_directory, *home = getenv("HOME");
  struct stat entry;
  if (!step->for_model || !path_is_home(step->target))
    return 0;
  char *path = memory_format("%s/~", own != NULL ? own : KIND_DIRECTORY);
  bool is_there = lstat(path, &entry) == 0;
  free(path);
  if (is_there)
    return 0;
  if (home == NULL || home[0] == '\0')
    return error_set(error, "%s: HOME is not set, so ~ stands for no directory", step->target);
  path = step->target;
  step->target = memory_format("%s%s", home, path + 1);
  if (!step->borrows_texts)
    free(path);
  return 0;
}

/* Reads the mount table, because even lstat(2) of a mount point may wait for a dead server. */
static bool is_mount_point(const char *path) {
  enum { LINES_MAX = 10000 };
  char *line = NULL, *point;
  size_t size = 0;
  bool is_found = false;
  FILE *table = fopen("/proc/self/mountinfo", "re");
  for (int i = 0; table != NULL && i < LINES_MAX && getline(&line, &size, table) > 0; i++) {
    point = line; /* the fifth field */
    for (int field = 1; field < 5 && point != NULL; field++)
      point = strchr(point + (field > 1), ' ');
    is_found |= point != NULL && strncmp(point + 1, path, strlen(path)) == 0 &&
                point[1 + strlen(path)] == ' ';
  }
  if (table != NULL)
    (void)fclose(table);
  free(line);
  return is_found;
}

/* A symbolic link counts as a directory, because following it might block. */
char *kind_default_directory(void) {
  struct stat file;
  char current[PATH_MAX];
  if (is_mount_point(KIND_DIRECTORY) ||
      (lstat(KIND_DIRECTORY, &file) == 0 && (S_ISDIR(file.st_mode) || S_ISLNK(file.st_mode))))
    return memory_copy(KIND_DIRECTORY, strlen(KIND_DIRECTORY));
  return getcwd(current, sizeof current) != NULL ? memory_copy(current, strlen(current)) : NULL;
}

/* A relative directory begins at the agent's own, unless enter_directory has entered it. */
static char *directory_of(const struct step *step, bool is_entered) {
  const char *own = step->working_directory;
  char current[PATH_MAX] = "/";
  if (own == NULL)
    return kind_default_directory();
  if (own[0] != '/' && getcwd(current, sizeof current) == NULL)
    return NULL;
  return path_lexical(current, own[0] != '/' && is_entered ? "." : own);
}

char *kind_repository(const struct step *step) {
  return directory_of(step, step->target[0] != '/');
}

char *kind_command_directory(const struct step *step) {
  return directory_of(step, false);
}

/* Makes the text printable. It is truncated in the same place with and without the subject. */
static void add_line(struct buffer *lines, const char *subject, bool shows_subject,
                     const char *text) {
  struct buffer printable = {0};
  struct error line;
  printable_add(&printable, text, strlen(text));
  (void)error_set(&line, "%s%.*s", subject, (int)printable.length, printable.bytes);
  buffer_release(&printable);
  buffer_add_string(lines, line.text + (shows_subject ? 0 : strlen(subject)));
  buffer_add_string(lines, "\n");
}

void kind_warn(struct output *output, const char *subject, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = memory_format_list(format, arguments);
  va_end(arguments);
  add_line(&output->warnings, subject, !output->for_model, text);
  free(text);
}

void kind_warn_cut(struct output *output, const char *subject, size_t limit, const char *what) {
  CHECK(output->warnings.length == 0);
  kind_warn(output, subject, "truncated at %zu %s", limit, what);
  output->of_cut = output->warnings.length;
}

void kind_warn_unread(struct output *output, size_t directories) {
  if (directories > 0)
    kind_warn(output, "", "%zu directories could not be looked into", directories);
}

/* --- for a model ----------------------------------------------------------------------------- */

static void add_note(struct buffer *text, const char *note, size_t length) {
  if (text->length > 0 && text->bytes[text->length - 1] != '\n')
    buffer_add(text, "\n", 1);
  buffer_add_string(text, "... (");
  buffer_add(text, note, length);
  buffer_add_string(text, ")");
}

/* Truncates the content and adds the warnings to it. If it is truncated here, the first warning,
   that it was truncated before, is omitted. */
static void finish_for_model(struct output *self) {
  static const char note[] = "truncated at 100 KB";
  struct buffer *text = &self->content;
  size_t at = 0;
  if (text->length > KIND_MODEL_MAX) {
    const char *newline = memrchr(text->bytes, '\n', KIND_MODEL_MAX + 1);
    text->length =
        newline != NULL ? (size_t)(newline - text->bytes) : utf8_cut(text->bytes, KIND_MODEL_MAX);
    add_note(text, note, sizeof note - 1);
    at = self->of_cut;
  }
  while (at < self->warnings.length) {
    const char *line = self->warnings.bytes + at;
    size_t length = (size_t)((const char *)memchr(line, '\n', self->warnings.length - at) - line);
    add_note(text, line, length);
    at += length + 1;
  }
  buffer_release(&self->warnings);
}

int kind_execute(struct step *step, struct output *output, struct error *error) {
  output->for_model = step->for_model;
  if (expand_home(step, error) != 0 || enter_directory(step, error) != 0 ||
      kind_of(step)->work(step, output, error) != 0)
    return -1;
  if (step->for_model && !output->is_bounded)
    finish_for_model(output);
  return 0;
}

/* --- the child's side ------------------------------------------------------------------------ */

/* Whether this process may write the file, or make it, by the rights of the file system. */
static bool has_write_rights(const char *path) {
  char *parent = memory_copy(path, strlen(path));
  bool has_rights = access(path, W_OK) == 0, is_missing = !has_rights && errno == ENOENT;
  while (is_missing && !has_rights) {
    char *slash = strrchr(parent, '/');
    const char *directory = slash == NULL ? "." : slash == parent ? "/" : parent;
    if (slash != NULL)
      *slash = '\0';
    has_rights = access(directory, W_OK) == 0;
    is_missing = !has_rights && errno == ENOENT && slash != NULL && slash != parent;
  }
  free(parent);
  return has_rights;
}

/* Whether the kernel lets this process open the regular file, with O_RDONLY or O_WRONLY. */
static bool may_open_file(const char *path, int how) {
  struct stat file;
  if (stat(path, &file) != 0 || !S_ISREG(file.st_mode))
    return false;
  const int fd = open(path, how | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

/* Landlock does not restrict access(2): if that allows what the kernel has denied, the sandbox
   policy has denied it. */
static bool is_outside_fence(const struct step *step, const struct error *error) {
  if (!step->is_fenced || strstr(error->text, strerror(EACCES)) == NULL)
    return false;
  const bool has_read_rights = access(step->target, R_OK) == 0;
  if (kind_of(step)->read_only)
    return has_read_rights;
  return (kind_of(step)->reads_first && has_read_rights &&
          !may_open_file(step->target, O_RDONLY)) ||
         (has_write_rights(step->target) && !may_open_file(step->target, O_WRONLY));
}

static void explain_fence(const struct step *step, struct error *error) {
  struct error ignored;
  char *full = path_full(step->target, &ignored);
  (void)error_set(error, KIND_OUTSIDE_FENCE "%s", full != NULL ? full : step->target);
  free(full);
}

static int work_and_write(struct step *step) {
  struct output output = {0};
  struct error error;
  bool done = kind_execute(step, &output, &error) == 0;
  if (!done && is_outside_fence(step, &error))
    explain_fence(step, &error);
  if (!done) {
    buffer_release(&output.warnings);
    buffer_release(&output.content);
    add_line(&output.warnings, "", true, error.text);
  }
  if (write_all(STDERR_FILENO, output.warnings.bytes, output.warnings.length) != 0 ||
      write_all(STDOUT_FILENO, output.content.bytes, output.content.length) != 0)
    done = false;
  buffer_release(&output.warnings);
  buffer_release(&output.content);
  return done ? 0 : 1;
}

int kind_work_packed(const struct step_kind *const *known, char *packed, size_t length) {
  struct step step;
  int exit_code = 1;
  if (step_unpack(&step, known, packed, length) == 0 && step_is_work(&step) &&
      kind_of(&step)->work != NULL) {
    const char *target = step.target, *other = *other_path(&step);
    (void)prctl(PR_SET_NAME, step.kind->name); /* for ps */
    exit_code = work_and_write(&step);
    if (step.target != target)
      free(step.target);
    if (*other_path(&step) != other)
      free(*other_path(&step));
  }
  step_release(&step);
  return exit_code;
}

int kinds_work(char *packed, size_t length) {
  return kind_work_packed(kinds, packed, length);
}

struct process_spec kind_process_spec(const struct kind_context *context, const struct step *step,
                                      const struct confinement_plan *plan, const char *tag) {
  struct process_spec spec = {.timeout_seconds = step->timeout_seconds};
  const bool is_work = kind_of(step)->work != NULL;
  const char *directory = step->working_directory;
  if (is_work) {
    spec.message.is_work = true;
    (void)buffer_space(&spec.body, step->memory);
    step_pack(step, context->known, &spec.body);
  } else {
    run_kind_prepare_spec(context, step, tag, &spec);
  }
  if (!plan->is_needed)
    return spec;
  spec.message.task_length = spec.body.length;
  spec.message.record_at = confinement_pack(context->confinement, plan, is_work,
                                            directory != NULL ? directory : KIND_DIRECTORY,
                                            directory == NULL, &spec.body);
  return spec;
}
