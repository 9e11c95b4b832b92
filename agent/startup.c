#include "agent/startup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/confinement/filter.h"
#include "agent/frontends/http/connection/options.h"
#include "agent/frontends/redis/connection/url.h"
#include "agent/process/exec_command.h"
#include "base/kernel_signal.h"
#include "base/memory.h"
#include "base/own_program.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2) /* of linux/close_range.h */
#endif

/* Opens a descriptor that reads as empty. Without /dev/null (a bare chroot), a pipe without a
   writer does the same. */
static int open_empty(void) {
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd >= 0)
    return fd;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -1;
  close(ends[1]);
  return ends[0];
}

/* Opens those of 0, 1 and 2 that are closed. A descriptor of the agent with such a number would be
   lost in a child, which gets its own three. Returns an empty one above them, or -1. */
static int open_empty_above_standard(void) {
  int fd;
  while ((fd = open_empty()) >= 0 && fd <= STDERR_FILENO)
    (void)fcntl(fd, F_SETFD, 0);
  return fd;
}

static void close_inherited_on_exec(void) {
  if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
    return;
  DIR *fds = opendir("/proc/self/fd"); /* before Linux 5.11 */
  if (fds == NULL)
    return;
  for (const struct dirent *entry; (entry = readdir(fds)) != NULL;) {
    int fd = (int)strtol(entry->d_name, NULL, 10);
    if (fd > STDERR_FILENO)
      (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  closedir(fds);
}

/* Blocks all signals and resets those that the parent ignored, so a child only has to empty its
   mask and to reset the signals of threads. Those are ignored here because nothing can keep them
   blocked (base/kernel_signal.h). A SIGHUP that was ignored (nohup) is not read, and so has no
   effect. */
static int open_signals(void) {
  static const int read_signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1};
  static const uint64_t all = UINT64_MAX;
  sigset_t read_here;
  sigemptyset(&read_here);
  sigaddset(&read_here, SIGCHLD);
  for (size_t i = 0; i < sizeof read_signals / sizeof *read_signals; i++)
    if (read_signals[i] != SIGHUP || !kernel_signal_is_ignored(SIGHUP))
      sigaddset(&read_here, read_signals[i]);
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
  for (int signal = 1; signal <= KERNEL_SIGNALS; signal++)
    if (kernel_signal_is_ignored(signal))
      kernel_signal_set_action(signal, SIG_DFL);
  for (int signal = KERNEL_SIGNAL_THREADS_FIRST; signal <= KERNEL_SIGNAL_THREADS_LAST; signal++)
    kernel_signal_set_action(signal, SIG_IGN);
  return signalfd(-1, &read_here, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Opens the file while this process is dumpable, because otherwise it belongs to root. A process
   whose program is unreadable to its user never was dumpable. Process 1 becomes dumpable for a
   moment, because no process of its user exists yet that could read its memory. Returns 0 if the
   file is not writable, or the score is below what an ordinary user may write and could not be
   restored after it was raised. */
static int open_oom_score(void) {
  static const char path[] = "/proc/self/oom_score_adj";
  char score[16];
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && getpid() == 1 && prctl(PR_SET_DUMPABLE, 1) == 0)
    fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return 0;
  ssize_t length = pread(fd, score, sizeof score, 0);
  if (length > 0 && pwrite(fd, score, (size_t)length, 0) == length)
    return fd;
  close(fd);
  return 0;
}

static int fail(struct startup *self, struct error *error, const char *what) {
  (void)error_set(error, "%s: %s", what, strerror(errno));
  startup_release(self);
  return -1;
}

/* Each step that leaves a process in the background keeps two pipes open in the agent. */
static int raise_open_files(struct startup *self, struct error *error) {
  if (getrlimit(RLIMIT_NOFILE, &self->open_files) != 0)
    return error_set(error, "getrlimit: %s", strerror(errno));
  struct rlimit raised = self->open_files;
  if (raised.rlim_max < STARTUP_OPEN_FILES_MIN)
    return error_set(error,
                     "the open-file limit is %llu, the agent needs at least %d; raise the hard "
                     "limit with ulimit -n",
                     (unsigned long long)raised.rlim_max, STARTUP_OPEN_FILES_MIN);
  raised.rlim_cur = raised.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &raised);
  return 0;
}

int startup_init(struct startup *self, bool dumpable, struct error *error) {
  *self = (struct startup){.stdin_fd = -1, .signal_fd = -1};
  if (raise_open_files(self, error) != 0)
    return -1;
  if ((self->stdin_fd = open_empty_above_standard()) < 0)
    return error_set(error, "cannot open descriptors 0 to 2: %s", strerror(errno));
  close_inherited_on_exec();
  self->oom_score_fd = open_oom_score();
  if (prctl(PR_SET_DUMPABLE, dumpable) != 0)
    return fail(self, error, "prctl");
  /* Some emulators have no subreapers. Process 1 of a container gets its orphans anyway. */
  self->keeps_orphans = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 || getpid() == 1;
  if ((self->signal_fd = open_signals()) < 0)
    return fail(self, error, "signalfd");
  self->is_protected = filter_protect_agent();
  return 0;
}

void startup_release(struct startup *self) {
  if (self->stdin_fd >= 0)
    close(self->stdin_fd);
  if (self->signal_fd >= 0)
    close(self->signal_fd);
  if (self->oom_score_fd > 0)
    close(self->oom_score_fd);
}

void startup_offer_tools(void) {
  char directory[PATH_MAX];
  char tools[PATH_MAX + sizeof "/python/bin"];
  struct stat stat_buffer;
  if (!own_program_directory(directory, sizeof directory))
    return;
  (void)snprintf(tools, sizeof tools, "%s/python/bin", directory);
  if (stat(tools, &stat_buffer) != 0 || !S_ISDIR(stat_buffer.st_mode) ||
      strchr(directory, ':') != NULL) /* which PATH cannot contain */
    return;
  const char *path = getenv("PATH");
  char *extended;
  if (asprintf(&extended, "%s:%s", tools,
               path != NULL && path[0] != '\0' ? path : EXEC_DEFAULT_PATH) < 0)
    memory_exhausted("a buffer");
  (void)setenv("PATH", extended, 1);
  free(extended);
}

static bool is_on_path(const char *program) {
  const char *path = getenv("PATH");
  for (const char *at = path != NULL ? path : EXEC_DEFAULT_PATH; at != NULL;) {
    char candidate[PATH_MAX];
    int length = (int)strcspn(at, ":");
    int size = snprintf(candidate, sizeof candidate, "%.*s%s%s", length, at, length > 0 ? "/" : "",
                        program); /* an empty entry is the current directory */
    struct stat stat_buffer;
    if (size > 0 && (size_t)size < sizeof candidate && stat(candidate, &stat_buffer) == 0 &&
        S_ISREG(stat_buffer.st_mode) && access(candidate, X_OK) == 0)
      return true;
    at = at[length] == ':' ? at + length + 1 : NULL;
  }
  return false;
}

const char *startup_shell(void) {
  return is_on_path("bash") ? "bash" : is_on_path("sh") ? "sh" : NULL;
}

int startup_directory(const char **directory, struct error *error) {
  const char *given = *directory;
  char current[PATH_MAX], *absolute;
  struct stat stat_buffer;
  bool is_there = given == NULL || stat(given, &stat_buffer) == 0;
  if (!is_there || (given != NULL && !S_ISDIR(stat_buffer.st_mode)))
    return error_set(error, "working directory %s: %s", given,
                     strerror(is_there ? ENOTDIR : errno));
  if (given != NULL && given[0] == '/')
    return 0;
  if (getcwd(current, sizeof current) == NULL || current[0] != '/')
    (void)snprintf(current, sizeof current, "/");
  if (asprintf(&absolute, "%s%s%s", given != NULL && strcmp(current, "/") == 0 ? "" : current,
               given != NULL ? "/" : "", given != NULL ? given : "") < 0)
    memory_exhausted("a buffer");
  free((char *)(uintptr_t)given);
  *directory = absolute;
  return 0;
}

void startup_hide_credentials(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    redis_url_redact(argv[i]);
  static const char *const names[] = {"REDIS_URL=", HTTP_KEY_VARIABLE "="};
  for (char **entry = environ; entry != NULL && *entry != NULL; entry++)
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      if (strncmp(*entry, names[i], strlen(names[i])) == 0)
        memset(*entry + strlen(names[i]), '*', strlen(*entry + strlen(names[i])));
}
