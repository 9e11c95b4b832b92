/*
 * cp: copies a file with readBytes or writeBytes. A directory is packed into an archive, which is
 * copied like a file and unpacked on the other side: by the sandbox's tar there, and by tar.h here.
 * Without tar in the sandbox, copy_tree.h copies it.
 *
 * The hard part is to leave nothing incomplete. Until a copy is complete, it has a hidden name on
 * either side, which is removed at the end in any case.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/write_all.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/options.h"
#include "client/steps/copy_tree.h"
#include "client/steps/remote_archive.h"
#include "client/tar/tar.h"
#include "client/tar/tar_format.h"

struct copy {
  struct file_steps steps;
  const char *from; /* without the colon */
  char *to;         /* the path of the copy; NULL: unknown yet */
  char hidden[32];  /* ".sandbox-7f3a91bc", on either side */
  uint64_t moved;
  uint64_t packed_size; /* an estimate of the bytes of the archive that is sent */
  bool has_left_out;
  bool has_status; /* the mode and the time of `from` in the sandbox are known */
  struct tree_report report;
  struct transfer_in in;
  struct transfer_out out;
  size_t in_at; /* bytes of in.bytes that were unpacked */
  struct copy_tree tree;
  bool reads_tree; /* `tree` provides these bytes; otherwise `in` does */
};

/* Returns the exit code. */
static int fail(struct copy *self, int code, const char *what, const char *path, const char *why) {
  file_steps_error(&self->steps, "%s %s: %s", what, path, why);
  return code;
}

static int fail_locally(struct copy *self, const char *what, const char *path) {
  return fail(self, EXIT_FOUND, what, path, strerror(errno));
}

/* Returns what tar_pack or tar_unpack has returned, as an exit code. */
static int fail_tar(struct copy *self, int code, const struct error *error) {
  if (code < 0)
    file_steps_error(&self->steps, "%s", error->text);
  return code < 0 ? EXIT_FOUND : code;
}

static void show_progress(struct copy *self, uint64_t bytes, uint64_t size) {
  char text[160];
  const double mib = 1024.0 * 1024.0;
  self->moved += bytes;
  if (size > 0)
    (void)snprintf(text, sizeof text, "%.1f of %.1f MiB", (double)self->moved / mib,
                   (double)size / mib);
  else
    (void)snprintf(text, sizeof text, "%.1f MiB", (double)self->moved / mib);
  terminal_status(&self->steps.program->terminal, text);
}

static void on_left_out(void *owner, const char *name, const char *why) {
  struct copy *self = owner;
  self->has_left_out = true;
  file_steps_error(&self->steps, "left out %s: %s", name, why);
}

static void on_warning(void *owner, const char *name, const char *why) {
  struct copy *self = owner;
  file_steps_error(&self->steps, "warning: %s: %s", name, why);
}

static void on_moved(void *owner, size_t length) {
  show_progress(owner, length, 0);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Copies a path without the slashes at its end. */
static char *trim_path(const char *path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  return memory_copy(path, length);
}

/* Returns the last part of a trimmed path, or NULL if it is no name, like "..". */
static const char *last_name(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash != NULL ? slash + 1 : path;
  return name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ? NULL : name;
}

/* Returns the path of the copy in an existing directory. "." and ".." are copied into it. */
static char *name_in(const char *directory, const char *from) {
  char *trimmed = trim_path(from), *path = trim_path(directory);
  const char *name = last_name(trimmed);
  struct buffer joined = {0};
  buffer_add_string(&joined, path);
  if (name != NULL && strcmp(path, "/") != 0)
    buffer_add_string(&joined, "/");
  buffer_add_string(&joined, name != NULL ? name : "");
  buffer_add(&joined, "", 1);
  free(trimmed);
  free(path);
  return joined.bytes;
}

/* A slash at the end stands for a directory. Returns 0, or the exit code if there is none. */
static int check_slash(struct copy *self, const char *to, enum transfer_type type) {
  if (to[strlen(to) - 1] != '/' || type == TRANSFER_DIRECTORY)
    return 0;
  return fail(self, EXIT_FOUND, "cannot copy to", to,
              type == TRANSFER_ABSENT ? "there is no such directory" : "it is not a directory");
}

/* --- into the sandbox ------------------------------------------------------------------------- */

/* Sets self->to and its type. */
static int choose_remote(struct copy *self, const char *to, enum transfer_type *type) {
  self->to = trim_path(to);
  int code = transfer_find_type(&self->steps, self->to, type);
  code = code == 0 ? check_slash(self, to, *type) : code;
  if (code != 0 || *type != TRANSFER_DIRECTORY)
    return code;
  free(self->to);
  self->to = name_in(to, self->from);
  return transfer_find_type(&self->steps, self->to, type);
}

static int send_content(struct copy *self, int fd, uint64_t size) {
  char *bytes = memory_allocate(TRANSFER_PIECE);
  ssize_t length;
  int code = 0;
  while (code == 0 && (length = read(fd, bytes, TRANSFER_PIECE)) != 0) {
    if (length < 0 && errno != EINTR)
      code = fail_locally(self, "cannot read", self->from);
    if (length > 0) {
      code = transfer_put(&self->out, bytes, (size_t)length);
      show_progress(self, (uint64_t)length, size);
    }
  }
  free(bytes);
  return code == 0 ? transfer_commit(&self->out) : code;
}

static int send_file(struct copy *self, const char *to) {
  struct stat status;
  enum transfer_type type;
  int fd = open(self->from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fail_locally(self, "cannot read", self->from);
  int code = fstat(fd, &status) == 0 ? choose_remote(self, to, &type)
                                     : fail_locally(self, "cannot read", self->from);
  if (code == 0 && type == TRANSFER_DIRECTORY)
    code = fail(self, 1, "cannot replace", self->to, "it is a directory");
  if (code == 0) {
    transfer_out_begin(&self->out, &self->steps, self->to);
    self->out.has_mode = true;
    self->out.mode = status.st_mode & 0777;
    self->out.replaces = type == TRANSFER_FILE;
    code = send_content(self, fd, (uint64_t)status.st_size);
    transfer_out_release(&self->out);
    if (code == 0 && tree_has_changed(fd, &status))
      on_warning(self, self->from, "it changed while it was read");
    if (code == 0)
      code = transfer_keep(&self->steps, TRANSFER_MTIME, status.st_mtime, self->to, self->to);
  }
  (void)close(fd);
  return code;
}

static int put_packed(void *owner, const char *bytes, size_t length) {
  struct copy *self = owner;
  int code = transfer_put(&self->out, bytes, length);
  show_progress(self, length, 0);
  return code;
}

static int send_archive(struct copy *self, const char *archive) {
  const struct tar_sink sink = {put_packed, self};
  struct error error;
  transfer_out_begin(&self->out, &self->steps, archive);
  self->out.has_mode = true;
  self->out.mode = 0600;
  int code = fail_tar(self, tar_pack(self->from, &sink, &self->report, &error), &error);
  code = code == 0 ? transfer_commit(&self->out) : code;
  transfer_out_release(&self->out);
  return code;
}

static int add_size(void *owner, const struct tree_entry *entry) {
  struct copy *self = owner;
  self->packed_size += 2 * (uint64_t)TAR_BLOCK + entry->size;
  return exchange_check_signals(&self->steps.exchange);
}

/* Sets packed_size. The sandbox needs twice this space, for the archive and for its content. */
static int measure(struct copy *self) {
  struct error error;
  const struct tree_reader reader = {.begin = add_size, .owner = self};
  return fail_tar(self, tree_read(self->from, &reader, &error), &error);
}

static struct copy_tree make_tree(struct copy *self, const char *remote, bool replaces) {
  return (struct copy_tree){&self->steps, remote, replaces, .report = &self->report,
                            .moved = on_moved};
}

static int send_directory(struct copy *self, const char *to) {
  enum transfer_type type;
  struct remote_archive archive;
  int code = choose_remote(self, to, &type);
  if (code != 0)
    return code;
  if (type == TRANSFER_FILE)
    return fail(self, EXIT_FOUND, "cannot copy a directory to", self->to, "it is not a directory");
  if ((code = measure(self)) != 0)
    return code;
  char *directory = transfer_beside(self->to, "");
  code = remote_archive_begin(&archive, &self->steps, self->hidden, directory,
                              self->packed_size * 2 / 1024, "");
  free(directory);
  if (code == 0 && archive.path == NULL) {
    struct copy_tree tree = make_tree(self, self->to, type == TRANSFER_DIRECTORY);
    return copy_tree_send(&tree, self->from);
  }
  code = code == 0 ? send_archive(self, archive.path) : code;
  code = code == 0 ? remote_archive_unpack(&archive, self->to) : code;
  remote_archive_end(&archive);
  return code;
}

/* --- out of the sandbox ----------------------------------------------------------------------- */

/* Makes the directories above a path. */
static int make_parents(struct copy *self, const char *path) {
  char *text = memory_copy(path, strlen(path));
  int code = 0;
  for (char *slash = text; code == 0 && (slash = strchr(slash + 1, '/')) != NULL;) {
    *slash = '\0';
    if (mkdir(text, 0777) != 0 && errno != EEXIST)
      code = fail_locally(self, "cannot make", text);
    *slash = '/';
  }
  free(text);
  return code;
}

/* Sets self->to and its type. A link to a file is followed. */
static int choose_local(struct copy *self, const char *to, enum transfer_type *type) {
  struct stat status;
  bool is_there = stat(to, &status) == 0;
  const bool is_directory = is_there && S_ISDIR(status.st_mode);
  self->to = is_directory ? name_in(to, self->from) : trim_path(to);
  is_there = stat(self->to, &status) == 0 || lstat(self->to, &status) == 0;
  *type = !is_there                 ? TRANSFER_ABSENT
          : S_ISDIR(status.st_mode) ? TRANSFER_DIRECTORY
          : S_ISREG(status.st_mode) ? TRANSFER_FILE
                                    : TRANSFER_STREAM;
  char *real = *type == TRANSFER_FILE ? realpath(self->to, NULL) : NULL;
  if (real != NULL) {
    free(self->to);
    self->to = real;
  }
  return check_slash(self, to, is_directory ? TRANSFER_DIRECTORY : *type);
}

/* Sets the mode and the time, or has_status to false, with a warning, if they are unknown. */
static int read_status(struct copy *self, struct stat *status) {
  const struct file_answer *answer = &self->steps.answer;
  int code = transfer_run(&self->steps, WORDS("stat", "-L", "-c", "%a %Y", "--", self->from));
  char *end = answer->content;
  *status = (struct stat){0};
  if (code == 0 && end != NULL) {
    status->st_mode = (mode_t)strtoul(answer->content, &end, 8) & 0777;
    status->st_mtime = (time_t)strtoll(end, NULL, 10);
  }
  self->has_status = end != answer->content;
  const bool is_over = self->steps.is_lost || self->steps.exchange.first_signal != 0;
  if (!self->has_status && !is_over)
    file_steps_error(&self->steps, "the mode and the time of %s are not kept: %s", self->from,
                     answer->message != NULL ? answer->message : "unknown");
  return is_over ? code : 0;
}

/* Returns the descriptor if the path is a name of standard output or standard error, else -1. */
static int find_standard(const char *path) {
  struct stat status, ours;
  for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
    if (stat(path, &status) == 0 && fstat(fd, &ours) == 0 && status.st_dev == ours.st_dev &&
        status.st_ino == ours.st_ino)
      return fd;
  return -1;
}

static bool is_fifo(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
}

/* Waits until a FIFO has a reader, as cp(1) does. Returns 0, or the exit code. */
static int open_stream(struct copy *self, int *fd) {
  int code;
  while ((*fd = open(self->to, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) < 0) {
    if (errno != ENXIO || !is_fifo(self->to))
      return fail_locally(self, "cannot write", self->to);
    program_turn(self->steps.program);
    if ((code = exchange_check_signals(&self->steps.exchange)) != 0)
      return code;
  }
  return 0;
}

/* A stream does not block, so that a signal ends a copy that nobody reads. */
static int write_bytes(struct copy *self, int fd, const char *bytes, size_t length) {
  while (length > 0) {
    const int code = exchange_wait_for(&self->steps.exchange, fd, POLLOUT);
    if (code != 0)
      return code;
    const ssize_t count = write(fd, bytes, length);
    if (count < 0 && errno == EPIPE)
      return 128 + SIGPIPE;
    if (count < 0 && errno != EAGAIN && errno != EINTR)
      return fail_locally(self, "cannot write", self->to);
    bytes += count > 0 ? count : 0;
    length -= count > 0 ? (size_t)count : 0;
  }
  return 0;
}

static int receive_content(struct copy *self, int fd) {
  int code;
  self->in = (struct transfer_in){.steps = &self->steps, .path = self->from};
  while ((code = transfer_next(&self->in)) == 0 && self->in.bytes.length > 0) {
    if ((code = write_bytes(self, fd, self->in.bytes.bytes, self->in.bytes.length)) != 0)
      break;
    show_progress(self, self->in.bytes.length, self->in.size);
  }
  buffer_release(&self->in.bytes);
  if (code == 0)
    transfer_warn(&self->in);
  return code;
}

/* Writes to a device, a FIFO or a socket instead of replacing it. */
static int receive_stream(struct copy *self) {
  int fd = -1, code = open_stream(self, &fd);
  code = code == 0 ? receive_content(self, fd) : code;
  if (fd >= 0)
    (void)close(fd);
  return code;
}

/* Writes the file under a hidden name, and then gives it its own. */
static int receive_hidden(struct copy *self, const char *hidden, const struct stat *status) {
  const bool has_mode = self->has_status;
  int fd = open(hidden, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, has_mode ? 0600 : 0666);
  if (fd < 0)
    return fail_locally(self, "cannot write", self->to);
  int code = receive_content(self, fd);
  if (code == 0 && write_all_flush(fd) != 0)
    code = fail_locally(self, "cannot write", self->to);
  if (has_mode)
    tar_set_mtime(fd, status->st_mtime);
  if (code == 0 &&
      ((has_mode && fchmod(fd, status->st_mode) != 0) || rename(hidden, self->to) != 0))
    code = fail_locally(self, "cannot write", self->to);
  (void)close(fd);
  if (code != 0)
    (void)unlink(hidden);
  return code;
}

static int receive_file(struct copy *self, const char *to) {
  enum transfer_type type;
  struct stat status;
  int code = choose_local(self, to, &type);
  if (code != 0)
    return code;
  if (type == TRANSFER_DIRECTORY)
    return fail(self, EXIT_FOUND, "cannot replace", self->to, "it is a directory");
  const int standard = find_standard(self->to);
  if (standard >= 0)
    return transfer_print(&self->steps, self->from, standard == STDERR_FILENO);
  if (type == TRANSFER_STREAM)
    return receive_stream(self);
  code = read_status(self, &status);
  code = code == 0 ? make_parents(self, self->to) : code;
  if (code != 0)
    return code;
  char *hidden = transfer_beside(self->to, self->hidden);
  code = receive_hidden(self, hidden, &status);
  free(hidden);
  return code;
}

static int get_packed(void *owner, char *bytes, size_t size, size_t *length) {
  struct copy *self = owner;
  if (self->in_at == self->in.bytes.length) {
    self->in_at = 0;
    int code =
        self->reads_tree ? copy_tree_next(&self->tree, &self->in.bytes) : transfer_next(&self->in);
    show_progress(self, self->in.bytes.length, self->in.size);
    if (code != 0)
      return code;
  }
  const size_t left = self->in.bytes.length - self->in_at;
  *length = left < size ? left : size;
  memcpy(bytes, self->in.bytes.bytes + self->in_at, *length);
  self->in_at += *length;
  return 0;
}

static int unpack_into(struct copy *self, int directory, bool is_new) {
  const struct tar_source source = {get_packed, on_left_out, self};
  struct error error;
  return fail_tar(self, tar_unpack(directory, is_new, &source, &error), &error);
}

/* Unpacks under a hidden name until the copy is complete. */
static int unpack_new(struct copy *self) {
  char *hidden = transfer_beside(self->to, self->hidden);
  int directory = -1, code = make_parents(self, self->to);
  if (code == 0 && (mkdir(hidden, 0700) != 0 ||
                    (directory = open(hidden, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0))
    code = fail_locally(self, "cannot make", hidden);
  if (code == 0)
    code = unpack_into(self, directory, true);
  if (code == 0 && rename(hidden, self->to) != 0)
    code = fail_locally(self, "cannot make", self->to);
  if (code != 0)
    tar_remove(AT_FDCWD, hidden);
  if (directory >= 0)
    (void)close(directory);
  free(hidden);
  return code;
}

static int unpack_local(struct copy *self, enum transfer_type type) {
  if (type == TRANSFER_ABSENT)
    return unpack_new(self);
  int directory = open(self->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return fail_locally(self, "cannot open", self->to);
  int code = unpack_into(self, directory, false);
  (void)close(directory);
  return code;
}

static int receive_tree(struct copy *self, enum transfer_type type) {
  struct copy_tree *tree = &self->tree;
  int code = EXIT_CLIENT;
  *tree = make_tree(self, self->from, false);
  if (file_steps_require(&self->steps, "allEntries"))
    code = read_status(self, &tree->status);
  if (!self->has_status)
    tree->status = (struct stat){.st_mode = 0755, .st_mtime = time(NULL)};
  tree->status.st_mode |= S_IFDIR;
  self->reads_tree = true;
  self->in = (struct transfer_in){0};
  code = code == 0 ? unpack_local(self, type) : code;
  copy_tree_release(tree);
  self->reads_tree = false;
  return code;
}

static int receive_packed(struct copy *self, struct remote_archive *archive,
                          enum transfer_type type) {
  int code = remote_archive_pack(archive, self->from, &self->has_left_out);
  self->in = (struct transfer_in){.steps = &self->steps, .path = archive->path};
  return code == 0 ? unpack_local(self, type) : code;
}

static int receive_directory(struct copy *self, const char *to) {
  enum transfer_type type;
  struct remote_archive archive;
  int code = choose_local(self, to, &type);
  if (code != 0)
    return code;
  if (type == TRANSFER_FILE || type == TRANSFER_STREAM)
    return fail(self, EXIT_FOUND, "cannot copy a directory to", self->to, "it is not a directory");
  code = remote_archive_begin(&archive, &self->steps, self->hidden, "", 0, self->from);
  if (code == 0 && archive.path == NULL) {
    code = receive_tree(self, type);
  } else {
    code = code == 0 ? receive_packed(self, &archive, type) : code;
    remote_archive_end(&archive);
  }
  buffer_release(&self->in.bytes);
  return code;
}

/* --- the command ------------------------------------------------------------------------------ */

static int copy_out(struct copy *self, const char *to) {
  enum transfer_type type;
  int code = transfer_find_type(&self->steps, self->from, &type);
  if (code == 0 && type == TRANSFER_ABSENT)
    code = fail(self, 1, "cannot read", self->from, "no such file in the sandbox");
  if (code != 0)
    return code;
  return type == TRANSFER_DIRECTORY ? receive_directory(self, to) : receive_file(self, to);
}

static int copy_in(struct copy *self, const char *to) {
  struct stat status;
  if (stat(self->from, &status) != 0)
    return fail_locally(self, "cannot read", self->from);
  if (S_ISDIR(status.st_mode))
    return send_directory(self, to);
  if (S_ISREG(status.st_mode))
    return send_file(self, to);
  return fail(self, EXIT_FOUND, "cannot copy", self->from, "it is neither a file nor a directory");
}

int cp_command(struct program *program, int argc, char **argv) {
  static const struct option none[] = {{NULL, 0, NULL, 0}};
  struct copy self = {0};
  char id[STEP_ID_SIZE];
  static const char *const names[] = {"SRC", "DST"};
  optind = 0;
  int flag;
  do
    flag = options_next(program, argc, argv, "ar", none);
  while (flag >= 0);
  if (flag != OPTIONS_END || !options_words(program, argc, argv, 2, 2, names))
    return COMMAND_USAGE;
  const char *from = argv[optind], *to = argv[optind + 1];
  bool is_out = from[0] == ':', is_valid = true;
  if (is_out == (to[0] == ':'))
    is_valid = options_fail(program, "SRC or DST must begin with ':', and not both");
  else if (from[is_out] == '\0' || to[!is_out] == '\0')
    is_valid = options_fail(program, "%s is empty", from[is_out] == '\0' ? "SRC" : "DST");
  if (!is_valid)
    return COMMAND_USAGE;
  int code = program_begin_job(program);
  code = code == 0 ? file_steps_begin(&self.steps, program) : code;
  if (code != 0)
    return code;
  self.steps.exchange.policy = EXCHANGE_CLEANS_UP;
  self.from = from + is_out;
  self.report = (struct tree_report){on_left_out, on_warning, &self};
  step_id_make(id);
  (void)snprintf(self.hidden, sizeof self.hidden, ".sandbox-%.8s", id);
  if (!file_steps_require(&self.steps, "readBytes") ||
      !file_steps_require(&self.steps, "writeBytes"))
    code = EXIT_CLIENT;
  else
    code = is_out ? copy_out(&self, to) : copy_in(&self, to + 1);
  free(self.to);
  if (code == 0 && (self.has_left_out || self.steps.has_wrong_mode))
    code = EXIT_FOUND;
  return file_steps_end(&self.steps, code);
}
