#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/own_program.h"
#include "base/printable.h"
#include "base/staged_file.h"
#include "inject/copy.h"

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000 /* linux/fcntl.h */
#endif

#define PROGRAM_NAME "agent"
#define PROGRAM_MODE 0755
#define UNREADABLE_MODE 0111
#define DIRECTORY_MODE 0755

/* How often other injectors may rename their tools first. */
#define ATTEMPTS_MAX 1000

#define NOBODY 65534

/* How long a trial of the program may take. An emulator is slow, but needs less than a second. */
#define TRIAL_SECONDS 10

/* The target, and what was created for it. */
struct injection {
  char directory[PATH_MAX], name[NAME_MAX + 1];
  char path[PATH_MAX + NAME_MAX + 2]; /* directory and name, for messages */
  char tools_path[2 * PATH_MAX];      /* of the tools; grows to the path where copying them fails */
  char file_path[2 * PATH_MAX];       /* of the file that is being copied or renamed */
  bool made[PATH_MAX];                /* which prefixes of `directory`, by length, were created */
  int parent;                         /* `directory`, O_PATH; -1 until it is opened */
  /* In the order of their begins: the program, then those of the carrier. */
  struct staged_file files[1 + INJECT_FILES_MAX];
  bool is_program[1 + INJECT_FILES_MAX];
  size_t count;
  char *text;
  size_t text_size;
};

static const char *advice(int error) {
  static const struct {
    int errors[2];
    const char *text;
  } rows[] = {
      {{ENOSPC, EDQUOT}, "give the volume more space"},
      {{EROFS}, "mount the volume writable in the container that injects"},
      {{EACCES, EPERM}, "run as a user who may write there, or set fsGroup"},
      {{ENOTDIR}, "a part of the path is a file: name another target"},
      {{ENOENT, ELOOP}, "a part of the path is a link that leads nowhere: name another target"},
      {{ENAMETOOLONG}, "name a shorter target"},
      {{EFBIG}, "raise the limit on the size of files"},
      {{EBUSY, EXDEV}, "something is mounted or in use there: name another target"},
      {{EISDIR}, "there is a directory of that name: name another target"},
      {{EWOULDBLOCK}, "another process injects there: try again"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (error == rows[i].errors[0] || error == rows[i].errors[1])
      return rows[i].text;
  return "check the volume for errors";
}

__attribute__((format(printf, 2, 3))) static int refuse(const struct injection *self,
                                                        const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(self->text, self->text_size, format, arguments);
  va_end(arguments);
  return -1;
}

static int failed(const struct injection *self, const char *what, const char *path, int error) {
  return refuse(self, "cannot %s %s: %s; %s", what, path, strerror(error), advice(error));
}

static bool is_directory(const char *path) {
  struct stat stat_buffer;
  return stat(path, &stat_buffer) == 0 && S_ISDIR(stat_buffer.st_mode);
}

static void set_path(const struct injection *self, char *path, size_t size, const char *name) {
  (void)snprintf(path, size, "%s%s%s", self->directory,
                 strcmp(self->directory, "/") == 0 ? "" : "/", name);
}

static int split_target(struct injection *self, const char *target) {
  size_t length = strlen(target);
  bool is_inside = length > 0 && (target[length - 1] == '/' || is_directory(target));
  int written = snprintf(self->directory, sizeof self->directory, "%s%s", target,
                         is_inside ? "/" PROGRAM_NAME : "");
  char *slash = strrchr(self->directory, '/');
  const char *name = slash != NULL ? slash + 1 : self->directory;
  if ((size_t)written >= sizeof self->directory || strlen(name) >= sizeof self->name)
    return failed(self, "inject into", target, ENAMETOOLONG);
  memcpy(self->name, name, strlen(name) + 1);
  while (slash != NULL && slash > self->directory && slash[-1] == '/')
    slash--;
  if (slash != NULL)
    slash[slash == self->directory] = '\0';
  else
    memcpy(self->directory, ".", sizeof ".");
  set_path(self, self->path, sizeof self->path, self->name);
  return 0;
}

static int make_parents(struct injection *self) {
  size_t length = strlen(self->directory);
  int result = 0;
  for (size_t end = 1; end <= length && result == 0; end++) {
    char kept = self->directory[end];
    if ((kept != '/' && end < length) || self->directory[end - 1] == '/')
      continue;
    self->directory[end] = '\0';
    self->made[end] = mkdir(self->directory, DIRECTORY_MODE) == 0;
    int error = errno;
    if (!self->made[end] && error != EEXIST && !is_directory(self->directory))
      result = failed(self, "make the directory", self->directory, error);
    self->directory[end] = kept;
  }
  return result;
}

/* Removes them from the deepest up; a directory that is not empty stays. */
static void remove_parents(struct injection *self) {
  for (size_t end = strlen(self->directory); end > 0; end--)
    if (self->made[end]) {
      self->directory[end] = '\0';
      (void)rmdir(self->directory);
    }
}

static int reject_kind(const struct injection *self, const char *path, const char *verb,
                       mode_t mode, const char *wanted) {
  return refuse(self, "cannot replace %s: it %s %s, not %s; name another target", path, verb,
                printable_file_kind(mode), wanted);
}

/* Rejects what a rename would replace silently, such as a FIFO or a device. Links to files or to
   nowhere may be replaced. */
static int check_target(const struct injection *self, const char *path) {
  struct stat target, named;
  if (stat(path, &target) != 0 || S_ISREG(target.st_mode))
    return 0;
  if (S_ISDIR(target.st_mode))
    return failed(self, "replace", path, EISDIR);
  bool is_link = lstat(path, &named) == 0 && S_ISLNK(named.st_mode);
  return reject_kind(self, path, is_link ? "leads to" : "is", target.st_mode, "a regular file");
}

static int open_parent(struct injection *self) {
  struct statvfs volume;
  self->parent = open(self->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (self->parent < 0)
    return failed(self, "create a temporary file next to", self->path, errno);
  if (fstatvfs(self->parent, &volume) == 0 && (volume.f_flag & ST_NOEXEC) != 0)
    return refuse(self,
                  "cannot inject into %s: the volume is mounted noexec, nothing could be run from "
                  "there; mount it with exec, or name another target",
                  self->path);
  return 0;
}

/* Copies an open file to the hidden file of the name and compares the two. */
static int stage(struct injection *self, const char *name, int from, mode_t mode) {
  self->is_program[self->count] = (mode & S_IXUSR) != 0;
  struct staged_file *file = &self->files[self->count++];
  const char *path = self->file_path;
  struct stat source;
  *file = STAGED_FILE_NONE;
  set_path(self, self->file_path, sizeof self->file_path, name);
  if (fstat(from, &source) != 0)
    return failed(self, "read the source of", path, errno);
  if (check_target(self, path) != 0)
    return -1;
  if (staged_file_begin(file, self->parent, name, mode & S_IRWXU) != 0)
    return failed(self, "create a temporary file next to", path, errno);
  if (copy_bytes(from, file->fd, source.st_size) != 0 || staged_file_seal(file, mode) != 0)
    return failed(self, "write", path, errno);
  int same = copy_bytes_same(from, file->fd, source.st_size);
  if (same < 0)
    return failed(self, "read back", path, errno);
  if (same == 0)
    return failed(self, "verify the copy for", path, EIO);
  if ((mode & S_IXUSR) != 0 && faccessat(self->parent, file->hidden, X_OK, 0) != 0)
    return failed(self, "execute the copy for", path, errno);
  return 0;
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* Whether the directory is `inner` or lies above it. A copy into itself would never end. */
static bool contains(const char *outer, const char *inner) {
  char above[PATH_MAX], below[PATH_MAX];
  if (realpath(outer, above) == NULL || realpath(inner, below) == NULL)
    return false;
  const size_t length = strlen(above);
  return strncmp(below, above, length) == 0 && (below[length] == '/' || below[length] == '\0');
}

/* The tools under their hidden names, which belong to the owner of the program's hidden file. */
struct tools {
  const char *name; /* the future name of the new ones; NULL if there are none, or they have it */
  int fd;           /* the new ones */
  char hidden[80];
  char old[84]; /* the ones that they replace, or that a killed injector left */
};

/* On a file system without locks, the owner of the hidden tools may still live. After the rename it
   cannot give them their name while they are being emptied. */
static int remove_hidden_tools(const struct injection *self, const struct tools *tools) {
  if (copy_tree_remove(self->parent, tools->old) != 0)
    return -1;
  if (renameat(self->parent, tools->hidden, self->parent, tools->old) != 0 && errno != ENOENT)
    return -1;
  return copy_tree_remove(self->parent, tools->old);
}

/* Copies the directory `from`, whose path is `path`, into a hidden one beside the program. */
static int copy_tools(struct injection *self, struct tools *tools, const char *path, int from) {
  const char *name = name_of(path);
  char *where = self->tools_path;
  set_path(self, where, sizeof self->tools_path, name);
  struct stat old;
  if (strcmp(name, self->name) == 0 || contains(path, self->directory))
    return refuse(self,
                  "cannot inject into %s: that is where the tools of %s are; name another target",
                  self->path, path);
  if (fstatat(self->parent, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(old.st_mode))
    return S_ISREG(old.st_mode) ? failed(self, "copy to", where, ENOTDIR)
                                : reject_kind(self, where, "is", old.st_mode, "a directory");
  tools->name = name;
  if (mkdirat(self->parent, tools->hidden, 0700) != 0 ||
      (tools->fd = openat(self->parent, tools->hidden,
                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
      copy_tree(from, tools->fd, where, sizeof self->tools_path) != 0 ||
      fchmod(tools->fd, DIRECTORY_MODE) != 0 || fsync(tools->fd) != 0)
    return failed(self, "copy to", where, errno);
  return 0;
}

/* Does nothing if there is no such directory. */
static int prepare_tools(struct injection *self, struct tools *tools, const char *path) {
  (void)snprintf(tools->hidden, sizeof tools->hidden, "%s-tools", self->files[0].hidden);
  (void)snprintf(tools->old, sizeof tools->old, "%s-old", tools->hidden);
  if (remove_hidden_tools(self, tools) != 0)
    return failed(self, "remove the old temporary files next to", self->path, errno);
  int from = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (from < 0)
    return errno == ENOENT || errno == ENOTDIR ? 0 : failed(self, "read", path, errno);
  int result = copy_tools(self, tools, path, from);
  close(from);
  return result;
}

/* First moves the old tools away, because a directory cannot be renamed over one that is not
   empty. */
static int rename_tools(const struct injection *self, const struct tools *tools) {
  for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    if (!staged_file_has_name(tools->fd, self->parent, tools->hidden)) {
      errno = EWOULDBLOCK;
      return -1;
    }
    if (renameat(self->parent, tools->hidden, self->parent, tools->name) == 0)
      return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
      return -1;
    if (copy_tree_remove(self->parent, tools->old) != 0 ||
        (renameat(self->parent, tools->name, self->parent, tools->old) != 0 && errno != ENOENT))
      return -1;
  }
  return -1;
}

/* Does nothing if there is no such file. */
static int prepare_file(struct injection *self, const struct inject_file *wanted) {
  const char *name = name_of(wanted->path);
  struct stat file;
  int from = open(wanted->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (from < 0)
    return errno == ENOENT ? 0 : failed(self, "read", wanted->path, errno);
  int result;
  if (fstat(from, &file) != 0 || !S_ISREG(file.st_mode))
    result = 0;
  else if (strcmp(name, self->name) == 0)
    result =
        refuse(self, "cannot inject into %s: that is where %s is copied to; name another target",
               self->path, wanted->path);
  else
    result = stage(self, name, from, wanted->mode);
  close(from);
  return result;
}

static int prepare_files(struct injection *self, const struct inject_file *files) {
  int result = 0;
  for (size_t i = 0; i < INJECT_FILES_MAX && files[i].path != NULL && result == 0; i++)
    result = prepare_file(self, &files[i]);
  return result;
}

/* Executes the open file with --version. Its output stays in the pipe. An emulator opens the file
   again by its descriptor. */
_Noreturn static void execute(int fd, int output) {
  static char name[] = "trial", version[] = "--version";
  char *const argv[] = {name, version, NULL}, *const envp[] = {NULL};
  (void)dup2(output, STDOUT_FILENO);
  (void)dup2(output, STDERR_FILENO);
  (void)fcntl(fd, F_SETFD, 0);
  if (geteuid() == 0 && setgid(NOBODY) == 0)
    (void)!setuid(NOBODY);
  (void)alarm(TRIAL_SECONDS); /* survives execve(2) */
  (void)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
  _exit(127);
}

/* Whether a user who may execute the open file, but not read it, can run it. Not so with an
   emulator that has to read the file, or on a volume whose server checks the rights of one host
   user for everybody. root tries it as nobody. Needs no /proc. */
static bool can_run(int fd) {
  int ends[2], status;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return false;
  pid_t pid = fork();
  if (pid == 0)
    execute(fd, ends[1]);
  while (pid > 0 && waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      pid = -1;
  close(ends[0]);
  close(ends[1]);
  return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* If a user may not read the file of a program, the kernel never lets the user's other processes
   read the memory of a process that runs it; a prctl(2) of the program would come too late. Returns
   -1 with errno if the file can neither be run in this mode nor be made readable again. */
static int make_unreadable(int fd) {
  return fchmod(fd, UNREADABLE_MODE) != 0 || can_run(fd) ? 0 : fchmod(fd, PROGRAM_MODE);
}

/* Sets the mode immediately before the rename, because the next injector cannot lock a hidden file
   that it may not read. */
static int commit_file(struct staged_file *file, bool is_program) {
  int fd = is_program ? fcntl(file->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
  int result = fd >= 0 ? make_unreadable(fd) : 0;
  descriptor_close(fd);
  return result == 0 ? staged_file_commit(file) : -1;
}

/* The program gets its name last, so that anyone who waits for it finds the others. */
static int commit(struct injection *self, struct tools *tools) {
  if (tools->name != NULL) { /* first, while the program's hidden file still guards their names */
    if (rename_tools(self, tools) != 0)
      return failed(self, "copy to", self->tools_path, errno);
    tools->name = NULL;
    (void)copy_tree_remove(self->parent, tools->old);
  }
  for (size_t i = self->count; i-- > 0;) {
    set_path(self, self->file_path, sizeof self->file_path, self->files[i].name);
    if (commit_file(&self->files[i], self->is_program[i]) != 0)
      return failed(self, "rename the copy to", self->file_path, errno);
  }
  return 0;
}

/* Warns about a directory that other users cannot reach, because the main container often runs as
   another user than the injector. */
static void report_success(const struct injection *self, off_t size) {
  struct stat directory;
  bool closed = fstat(self->parent, &directory) == 0 && (directory.st_mode & S_IXOTH) == 0;
  char mode[80] = "";
  if (closed)
    (void)snprintf(mode, sizeof mode, "; its directory has mode %04o: not every user can reach it",
                   (unsigned)directory.st_mode & 07777);
  (void)snprintf(self->text, self->text_size, "injected %s, %lld bytes%s", self->path,
                 (long long)size, mode);
}

static int inject(struct injection *self, int program, const struct inject_carrier *carrier) {
  struct tools tools = {.fd = -1};
  struct stat file;
  if (fstat(program, &file) != 0)
    return failed(self, "read the program for", self->path, errno);
  bool is_done = open_parent(self) == 0 && stage(self, self->name, program, PROGRAM_MODE) == 0 &&
                 prepare_tools(self, &tools, carrier->tools) == 0 &&
                 prepare_files(self, carrier->files) == 0 && commit(self, &tools) == 0;
  if (is_done)
    report_success(self, file.st_size);
  if (tools.name != NULL) /* before the program's hidden file, which guards their names, goes */
    (void)remove_hidden_tools(self, &tools);
  descriptor_close(tools.fd);
  while (self->count > 0)
    staged_file_release(&self->files[--self->count]);
  descriptor_close(self->parent);
  return is_done ? 0 : -1;
}

int inject_program(const char *target, const struct inject_carrier *carrier, char *text,
                   size_t size) {
  struct injection self = {.parent = -1, .text_size = size};
  self.text = text;
  int program = own_program_open();
  if (program < 0)
    return refuse(&self,
                  "cannot inject into %s: the running program cannot be read: %s; start it by its "
                  "whole path, as a user who may read it",
                  target, strerror(errno));
  /* Files get their modes when they are created: a chmod that is not reached would keep other users
     out. A limit on the size of files is an error and does not kill. */
  mode_t mask = umask(0);
  (void)signal(SIGXFSZ, SIG_IGN);
  bool is_done = split_target(&self, target) == 0 && make_parents(&self) == 0 &&
                 inject(&self, program, carrier) == 0;
  if (!is_done)
    remove_parents(&self);
  umask(mask);
  close(program);
  return is_done ? 0 : -1;
}
