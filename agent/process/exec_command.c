#include "agent/process/exec_command.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/kernel_signal.h"
#include "base/raw_call.h"

/* --- why a file was rejected ------------------------------------------------------------------ */

/* The facts about a file that execve(2) rejected. */
struct exec_probe {
  int error;                   /* of execve */
  mode_t mode;                 /* 0: there is no file */
  ssize_t head_length;         /* -1: the file cannot be read */
  unsigned char head[257];     /* the bytes that the kernel reads, and a NUL */
  char loader[128];            /* of a 64-bit ELF program; "": none */
  char interpreter[257];       /* of the first line of a script; "": none */
  mode_t interpreter_mode;     /* 0: it does not exist */
  char mount[128];             /* the noexec mount of the file; "": none */
  char interpreter_mount[128]; /* of the interpreter */
  bool has_rights;             /* access(2) lets this process execute the file */
};

static bool is_elf(const unsigned char *head, size_t length) {
  return length >= EI_NIDENT && memcmp(head, ELFMAG, SELFMAG) == 0;
}

static void read_loader(struct exec_probe *self, int fd) {
  Elf64_Ehdr elf = {0};
  if (pread(fd, &elf, sizeof elf, 0) != (ssize_t)sizeof elf ||
      !is_elf(elf.e_ident, sizeof elf.e_ident) || elf.e_ident[EI_CLASS] != ELFCLASS64)
    return;
  for (unsigned i = 0; i < elf.e_phnum; i++) {
    Elf64_Phdr segment;
    if (pread(fd, &segment, sizeof segment, (off_t)(elf.e_phoff + (Elf64_Off)i * sizeof segment)) !=
        (ssize_t)sizeof segment)
      return;
    if (segment.p_type != PT_INTERP)
      continue;
    size_t size = sizeof self->loader - 1; /* the last byte stays zero */
    (void)pread(fd, self->loader, segment.p_filesz < size ? segment.p_filesz : size,
                (off_t)segment.p_offset);
    return;
  }
}

static mode_t mode_of(const char *path) {
  struct stat stat_buffer = {0};
  return stat(path, &stat_buffer) == 0 ? stat_buffer.st_mode : 0;
}

/* The kernel ends the name at a space, a tab or the end of the line. */
static void read_interpreter(struct exec_probe *self) {
  const unsigned char *at = self->head;
  size_t length = 0;
  if (*at++ != '#' || *at++ != '!')
    return;
  while (*at == ' ' || *at == '\t')
    at++;
  for (; *at != '\0' && *at != ' ' && *at != '\t' && *at != '\n'; at++)
    self->interpreter[length++] = (char)*at;
  if (length > 0)
    self->interpreter_mode = mode_of(self->interpreter);
}

static bool is_noexec(const char *path) {
  struct statvfs system;
  return statvfs(path, &system) == 0 && (system.f_flag & ST_NOEXEC) != 0;
}

static dev_t device_of(const char *path) {
  struct stat stat_buffer = {0};
  return stat(path, &stat_buffer) == 0 ? stat_buffer.st_dev : 0;
}

/* Writes the root of the file's mount if that is noexec. */
static void find_noexec_mount(const char *path, char *mount, size_t size) {
  char link[32], place[PATH_MAX] = "";
  if (!is_noexec(path))
    return;
  int fd = open(path, O_PATH | O_CLOEXEC);
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (fd < 0 || readlink(link, place, sizeof place - 1) < 0)
    (void)snprintf(place, sizeof place, "%s", path);
  if (fd >= 0)
    close(fd);
  const dev_t device = device_of(place);
  for (char *slash; (slash = strrchr(place, '/')) != NULL && place[1] != '\0';) {
    char parent[PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%.*s", slash > place ? (int)(slash - place) : 1, place);
    if (device_of(parent) != device || !is_noexec(parent))
      break;
    slash[slash == place] = '\0';
  }
  (void)snprintf(mount, size, "%.*s", (int)size - 1, place);
}

static void examine(struct exec_probe *self, const char *path, int exec_errno) {
  self->error = exec_errno;
  self->mode = mode_of(path);
  self->head_length = -1;
  self->has_rights = access(path, X_OK) == 0;
  if (exec_errno != ENOENT && exec_errno != ENOEXEC && exec_errno != EACCES && exec_errno != ELOOP)
    return;
  if (exec_errno == EACCES && self->mode != 0)
    find_noexec_mount(path, self->mount, sizeof self->mount);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return;
  self->head_length = pread(fd, self->head, sizeof self->head - 1, 0);
  read_loader(self, fd);
  read_interpreter(self);
  close(fd);
  if (self->interpreter_mode != 0)
    find_noexec_mount(self->interpreter, self->interpreter_mount, sizeof self->interpreter_mount);
}

/* Returns the beginning of the machine's name in uname(2), for machines of toolchain images. */
static const char *machine_name(unsigned machine) {
  static const struct {
    unsigned machine;
    const char *name;
  } rows[] = {{EM_X86_64, "x86_64"}, {EM_AARCH64, "aarch64"}, {EM_386, "i386"},  {EM_ARM, "arm"},
              {EM_RISCV, "riscv"},   {EM_PPC64, "ppc64"},     {EM_S390, "s390x"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].machine == machine)
      return rows[i].name;
  return "another machine";
}

/* A reason is "<before><detail><after>". */
struct explanation {
  int shown; /* how many bytes of the path and of `detail` are shown, so that the reason fits */
  const char *before, *detail, *after;
};

static struct explanation about(int shown, const char *before, const char *detail,
                                const char *after) {
  return (struct explanation){shown, before, detail, after};
}

static struct explanation plain(const char *text) {
  return about(150, text, "", "");
}

static struct explanation missing_interpreter(const struct exec_probe *probe) {
  if (probe->loader[0] != '\0')
    return about(80, "it exists, but its loader ", probe->loader,
                 " does not (built for another libc?)");
  if (probe->interpreter[0] == '\0')
    return plain("it exists, but its interpreter or loader does not");
  if (strchr(probe->interpreter, '\r') != NULL)
    return about(80,
                 "its first line ends in a carriage return, which belongs to the interpreter's "
                 "name (Windows line endings)",
                 "", "");
  return about(100, "it exists, but its interpreter ", probe->interpreter, " does not");
}

/* Explains a file that is not an ELF program. */
static const char *why_no_script(const struct exec_probe *probe) {
  static const char mark[] = "\xEF\xBB\xBF#!";
  const char *head = (const char *)probe->head;
  if (strncmp(head, mark, sizeof mark - 1) == 0)
    return "a byte order mark stands before its #!";
  if (strncmp(head, "#!", 2) != 0)
    return "no program, and a script must begin with #!";
  return strlen(head) == sizeof probe->head - 1
             ? "its first line is longer than the 255 bytes that the kernel reads"
             : "its interpreter is no program";
}

static struct explanation bad_format(const struct exec_probe *probe) {
  const unsigned char *head = probe->head;
  size_t length = (size_t)probe->head_length;
  if (!is_elf(head, length))
    return about(150, "exec format error: ", why_no_script(probe), "");
  unsigned machine = 0;
  if (length >= 20) /* e_machine: two bytes at offset 18, in the file's own byte order */
    machine = head[EI_DATA] == ELFDATA2MSB ? (unsigned)(head[18] << 8 | head[19])
                                           : (unsigned)(head[19] << 8 | head[18]);
  const char *name = machine_name(machine);
  struct utsname own;
  if (length < 20 || (uname(&own) == 0 && strncmp(own.machine, name, strlen(name)) == 0))
    return plain("exec format error: no whole program");
  return about(150, "exec format error: wrong architecture, built for ", name, "");
}

static struct explanation not_permitted(const struct exec_probe *probe) {
  if (S_ISDIR(probe->mode))
    return plain("permission denied: it is a directory");
  if ((probe->mode & 0111) == 0)
    return plain("permission denied: not executable (no x in its mode)");
  if (probe->mount[0] != '\0')
    return about(70, "permission denied: the mount ", probe->mount,
                 " is noexec: copy it elsewhere, or pass it to its interpreter");
  if (S_ISDIR(probe->interpreter_mode))
    return about(100, "its interpreter ", probe->interpreter, " is a directory");
  if (probe->interpreter_mode != 0 && (probe->interpreter_mode & 0111) == 0)
    return about(100, "its interpreter ", probe->interpreter, " is not executable");
  if (probe->interpreter_mount[0] != '\0')
    return about(80, "its interpreter is on the mount ", probe->interpreter_mount,
                 ", which is noexec");
  return plain(probe->has_rights
                   ? "permission denied by a security policy, such as the step's sandbox policy"
                   : "permission denied");
}

static struct explanation reason_of(const struct exec_probe *probe) {
  const bool is_there = probe->mode != 0;
  if ((probe->mode & 0111) != 0 && strncmp((const char *)probe->head, "#!", 2) == 0 &&
      probe->interpreter[0] == '\0') /* the errno depends on the kernel */
    return plain("its #! names no interpreter");
  if (probe->error == EACCES && is_there)
    return not_permitted(probe);
  if (probe->error == ENOENT)
    return is_there ? missing_interpreter(probe) : plain("no such file");
  if (probe->error == ENOEXEC && probe->head_length >= 0)
    return bad_format(probe);
  if (probe->error == ELOOP && probe->interpreter[0] != '\0')
    return about(80, "its interpreter ", probe->interpreter,
                 " is a script, and so is the next one, too often");
  if (probe->error == ENAMETOOLONG)
    return about(120, "the path, or a name in it, is too long", "", "");
  if (probe->error == E2BIG)
    return about(100, "arguments and environment are too long together: use stdin, or a file", "",
                 "");
  return plain(strerror(probe->error));
}

/* Sets "<before><subject><separator><reason>". `why` is where the reason begins if there is a
   separator. */
static void set_failure(struct exec_failure *failure, enum exec_stage stage, int code,
                        const char *before, const char *subject, const char *separator,
                        struct explanation reason) {
  failure->stage = stage;
  (void)error_set(&failure->reason, "%s%.*s%s%s%.*s%s", before, reason.shown, subject, separator,
                  reason.before, reason.shown, reason.detail, reason.after);
  failure->reason.code = code;
  if (separator[0] != '\0')
    failure->reason.why = (unsigned short)(strlen(before) + strnlen(subject, (size_t)reason.shown) +
                                           strlen(separator));
  (void)snprintf(failure->whole, sizeof failure->whole, "%s%.*s%s%s%s%s", before, 2 * PATH_MAX,
                 subject, separator, reason.before, reason.detail, reason.after);
}

/* `result` is of confine.h. */
static bool is_confined(int result, const struct confine_failure *why,
                        struct exec_failure *failure) {
  if (result == 0)
    return true;
  failure->stage = EXEC_REFUSED;
  failure->reason = why->reason;
  return false;
}

bool exec_command_install_filter(const struct confine_record *record, int *listener,
                                 struct exec_failure *failure) {
  struct confine_failure why = {.whole = failure->whole, .whole_size = sizeof failure->whole};
  return is_confined(confine_install_filter(record, listener, &why), &why, failure);
}

int exec_command_open_directory(const struct confine_record *record, int base,
                                struct exec_failure *failure) {
  struct confine_failure why = {.whole = failure->whole, .whole_size = sizeof failure->whole};
  const int directory = confine_open_directory(record, base, &why);
  return is_confined(directory < 0 ? -1 : 0, &why, failure) ? directory : -1;
}

bool exec_command_restrict(const struct confine_record *record, int directory, int agent_rules,
                           struct exec_failure *failure) {
  struct confine_failure why = {.whole = failure->whole, .whole_size = sizeof failure->whole};
  return is_confined(confine_restrict(record, directory, agent_rules, &why), &why, failure);
}

void exec_command_explain(struct exec_failure *failure, enum exec_stage stage, const char *shown,
                          const char *path, int exec_errno) {
  struct exec_probe probe = {0};
  examine(&probe, path, exec_errno);
  set_failure(failure, stage, exec_errno, "cannot run ", shown,
              exec_errno == ENAMETOOLONG ? "…: " : ": ", reason_of(&probe));
}

/* --- the execution --------------------------------------------------------------------------- */

/* Makes a system call. Returns 0, or the errno. */
static int call_kernel(long number, const void *first, const void *second, const void *third) {
  const long result = raw_call(number, (long)first, (long)second, (long)third, 0, 0);
  return result < 0 ? (int)-result : 0;
}

/* A candidate is an entry of PATH and the command's name. execve(2) rejects a path longer than
   PATH_MAX, also if it was cut here. */
#define CANDIDATE_SIZE (PATH_MAX + 2)

bool exec_command_is_missing(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* `name` ends in "=". Returns NULL if the variable is not set. */
static const char *find_variable(char *const *envp, const char *name) {
  for (char *const *entry = envp; *entry != NULL; entry++)
    if (strncmp(*entry, name, strlen(name)) == 0)
      return *entry + strlen(name);
  return NULL;
}

static const char *find_path(char *const *envp) {
  const char *path = find_variable(envp, "PATH=");
  return path != NULL ? path : EXEC_DEFAULT_PATH;
}

/* Remembers the first candidate that exists but cannot be executed, else the first one. */
struct path_search {
  int error;
  bool found;
  char path[CANDIDATE_SIZE];
};

/* Like execvp(3): skips a candidate that does not exist. Returns false if no other one is to be
   tried. */
static bool try_candidate(const struct exec_command *self, const char *path,
                          struct path_search *search) {
  const int error = call_kernel(SYS_execve, path, self->argv, self->envp);
  if (search->path[0] == '\0')
    (void)snprintf(search->path, sizeof search->path, "%s", path);
  if (error == ENOENT && access(path, F_OK) != 0)
    return true;
  if (error == ENAMETOOLONG && path == self->argv[0])
    search->error = error;
  if (error == ENOTDIR || error == ENAMETOOLONG)
    return true;
  if (!search->found) {
    search->error = error;
    search->found = true;
    (void)snprintf(search->path, sizeof search->path, "%s", path);
  }
  return error == EACCES;
}

static void try_candidates(const struct exec_command *self, struct path_search *search) {
  const char *name = self->argv[0];
  if (strchr(name, '/') != NULL) {
    (void)try_candidate(self, name, search);
    return;
  }
  char candidate[CANDIDATE_SIZE];
  for (const char *entry = find_path(self->envp);; entry++) {
    size_t length = strcspn(entry, ":"); /* 0: the current directory (POSIX) */
    (void)snprintf(candidate, sizeof candidate, "%.*s/%s", length > 0 ? (int)length : 1,
                   length > 0 ? entry : ".", name);
    entry += length;
    if (!try_candidate(self, candidate, search) || *entry == '\0')
      return;
  }
}

/* The longest argument, or variable with its name: MAX_ARG_STRLEN without the NUL. */
static size_t text_max(void) {
  return 32 * (size_t)sysconf(_SC_PAGESIZE) - 1;
}

/* Returns the index of the first text that is longer; of the NULL if there is none. */
static size_t find_too_long(char *const *texts) {
  size_t i = 0;
  while (texts[i] != NULL && strlen(texts[i]) <= text_max())
    i++;
  return i;
}

/* Returns false if no single text is too long. */
static bool explain_too_long(const struct exec_command *self, struct exec_failure *failure) {
  const size_t argument = find_too_long(self->argv), variable = find_too_long(self->envp);
  const char *text = self->argv[argument] != NULL ? self->argv[argument] : self->envp[variable];
  char name[80], why[256];
  if (text == NULL)
    return false;
  if (text == self->argv[argument])
    (void)snprintf(name, sizeof name, "argument %zu", argument);
  else
    (void)snprintf(name, sizeof name, "the variable %.*s",
                   (int)(strcspn(text, "=") < 40 ? strcspn(text, "=") : 40), text);
  (void)snprintf(why, sizeof why,
                 "%s has %zu bytes, and Linux takes at most %zu (%zu KiB): use stdin, or a file",
                 name, strlen(text), text_max(), (text_max() + 1) / 1024);
  set_failure(failure, EXEC_NOT_EXECUTABLE, E2BIG, "cannot run ", self->argv[0], ": ",
              about(60, why, "", ""));
  return true;
}

/* `directory` is where the command would have run, to show a relative path below it; NULL: the
   caller's. */
static void explain(const struct exec_command *self, const struct path_search *search,
                    const char *directory, struct exec_failure *failure) {
  bool is_missing = search->error == ENOENT && access(search->path, F_OK) != 0;
  if (is_missing && strchr(self->argv[0], '/') == NULL) {
    const char *path = find_path(self->envp);
    bool is_literal = strstr(path, "$PATH") != NULL || strstr(path, "${PATH}") != NULL;
    set_failure(failure, EXEC_NOT_FOUND, search->error, "", self->argv[0], "",
                plain(is_literal ? ": command not found on PATH: env.PATH has $PATH in it, which "
                                   "is not expanded"
                                 : ": command not found on PATH"));
    return;
  }
  if (search->error == E2BIG && explain_too_long(self, failure))
    return;
  bool is_below = search->path[0] != '/' && directory != NULL;
  char shown[2 * PATH_MAX + 2];
  (void)snprintf(shown, sizeof shown, "%s%s%s", is_below ? directory : "", is_below ? "/" : "",
                 search->path);
  exec_command_explain(failure, is_missing ? EXEC_NOT_FOUND : EXEC_NOT_EXECUTABLE, shown,
                       search->path, search->error);
}

/* Returns `directory`, or in `space` the same with HOME in place of its "~"; NULL with the failure:
   HOME is not set. */
static const char *find_directory(const struct exec_command *self, char space[PATH_MAX],
                                  struct exec_failure *failure) {
  const char *home = find_variable(self->envp, "HOME=");
  struct stat entry;
  if (self->home_at == 0)
    return self->directory;
  (void)snprintf(space, PATH_MAX, "%.*s", (int)self->home_at + 1, self->directory);
  if (lstat(space, &entry) == 0)
    return self->directory;
  if (home != NULL && home[0] != '\0') {
    (void)snprintf(space, PATH_MAX, "%s%s", home, self->directory + self->home_at + 1);
    return space;
  }
  set_failure(failure, EXEC_NO_DIRECTORY, 0, "working directory ", self->directory + self->home_at,
              "", about(120, ": HOME is not set, so ~ stands for no directory", "", ""));
  return NULL;
}

/* Returns whether the command may be executed. `*is_there`: in that directory. */
static bool enter_directory(const struct exec_command *self, const char *directory,
                            struct exec_failure *failure, bool *is_there) {
  const int error = directory != NULL ? call_kernel(SYS_chdir, directory, NULL, NULL) : 0;
  *is_there = directory != NULL && error == 0;
  if (error == 0 || (self->directory_may_be_missing && exec_command_is_missing(error)))
    return true;
  set_failure(failure, EXEC_NO_DIRECTORY, error, "working directory ", directory, "",
              about(180, ": ", strerror(error), ""));
  return false;
}

/* The agent and its supervisors ignore the signals of threads and block all signals. */
static void reset_signals(void) {
  static const uint64_t none; /* sigset_t of the kernel, see base/kernel_signal.h */
  for (int signal = KERNEL_SIGNAL_THREADS_FIRST; signal <= KERNEL_SIGNAL_THREADS_LAST; signal++)
    kernel_signal_set_action(signal, SIG_DFL);
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
}

/* Sets PWD to the working directory, unless the step does. `variable` lives until execve(2). */
static void set_pwd(const struct exec_command *self, char variable[4 + PATH_MAX]) {
  memcpy(variable, "PWD=", 4);
  if (self->pwd != NULL && find_variable(self->envp, "PWD=") == NULL &&
      getcwd(variable + 4, PATH_MAX) != NULL)
    *self->pwd = variable;
}

/* The directory at which relative paths of the policy begin is the one in which the command runs,
   also if somebody renames it in the meantime. */
static bool restrict_command(const struct exec_command *self, struct exec_failure *failure) {
  const int directory = exec_command_open_directory(self->record, self->base, failure);
  if (directory < 0)
    return false;
  const int error = directory != self->base
                        ? call_kernel(SYS_fchdir, (const void *)(intptr_t)directory, NULL, NULL)
                        : 0;
  if (error != 0) {
    set_failure(failure, EXEC_NO_DIRECTORY, error, "working directory ", self->directory, "",
                about(180, ": ", strerror(error), ""));
    return false;
  }
  return exec_command_restrict(self->record, directory, self->agent_rules, failure);
}

void exec_command(const struct exec_command *self, struct exec_failure *failure) {
  char space[PATH_MAX], variable[4 + PATH_MAX];
  bool in_directory;
  const char *directory = find_directory(self, space, failure);
  if (failure->stage == EXEC_NO_DIRECTORY ||
      !enter_directory(self, directory, failure, &in_directory))
    return;
  if (self->record != NULL && !restrict_command(self, failure))
    return;
  set_pwd(self, variable);
  reset_signals();
  struct path_search search = {.error = ENOENT};
  try_candidates(self, &search);
  explain(self, &search, in_directory ? directory : NULL, failure);
}
