#include "agent/process/supervisor_fork.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/process/process_table.h"
#include "base/clock.h"

/* --- its oom_score_adj ------------------------------------------------------------------------ */

/* A child inherits the score. The file of a process that is not dumpable belongs to root, so an
   ordinary user's supervisor cannot write its own. The agent opened its own file while it was
   dumpable, and raises its own score to the highest while it forks. */
struct score {
  int fd;
  char own[16]; /* the agent's; "": it was not raised */
};

static void raise_score(struct score *self) {
  static const char highest[] = "1000";
  ssize_t length = self->fd > 0 ? pread(self->fd, self->own, sizeof self->own - 1, 0) : 0;
  self->own[length > 0 ? length : 0] = '\0';
  if (length > 0 && pwrite(self->fd, highest, sizeof highest - 1, 0) < 0)
    self->own[0] = '\0';
}

/* Preserves errno. startup.c has checked that this score can be written. */
static void restore_score(const struct score *self, const struct log *log) {
  int kept_errno = errno;
  size_t length = strlen(self->own);
  if (length > 0 && pwrite(self->fd, self->own, length, 0) < 0 &&
      pwrite(self->fd, self->own, length, 0) < 0 && log != NULL)
    log_line(log, LOG_ERROR, NULL,
             "cannot write oom_score_adj back to %d: %s; it stays 1000, so the kernel may kill the "
             "agent before its steps",
             (int)strtol(self->own, NULL, 10), strerror(errno));
  errno = kept_errno;
}

/* --- the child -------------------------------------------------------------------------------- */

/* The only variables that work reads, to find git's configuration. */
static const char *const inherited[] = {"HOME=", "XDG_CONFIG_HOME="};
enum { INHERITED = sizeof inherited / sizeof *inherited };

struct child_environment {
  char texts[INHERITED][PATH_MAX + sizeof "XDG_CONFIG_HOME="];
  char *entries[INHERITED + 1];
};

/* The title may overwrite the memory that `environ` points to. */
static void keep_variables(struct child_environment *self) {
  char **next = self->entries;
  for (size_t i = 0; i < INHERITED; i++)
    for (char *const *entry = environ; entry != NULL && *entry != NULL; entry++) {
      size_t size = strlen(*entry) + 1;
      if (strncmp(*entry, inherited[i], strlen(inherited[i])) != 0 || size > sizeof self->texts[i])
        continue;
      *next++ = memcpy(self->texts[i], *entry, size);
      break;
    }
  *next = NULL;
  environ = self->entries;
}

static void set_title(const struct supervisor_options *options, pid_t agent) {
  char text[64];
  if (options->title == NULL)
    return;
  (void)snprintf(text, sizeof text, SUPERVISOR_NAME " %s %d",
                 options->job != NULL ? options->job : "-", (int)agent);
  process_title_set(options->title, text);
}

/* The environment is on the stack, because the child has touched a page of it anyway. */
_Noreturn static void be_supervisor(const struct supervisor_options *options, pid_t agent,
                                    struct supervisor_page *page, int socket) {
  struct child_environment environment;
  for (int i = 0; i < 3; i++)
    (void)dup2(options->stdin_fd, i);
  if (socket != SUPERVISOR_SOCKET)
    (void)dup3(socket, SUPERVISOR_SOCKET, O_CLOEXEC);
  keep_variables(&environment);
  set_title(options, agent);
  supervisor_main(options, agent, page);
}

pid_t supervisor_fork(const struct supervisor_options *options, struct supervisor_page *page,
                      int socket) {
  const pid_t agent = getpid();
  struct score score = {.fd = options->oom_score_fd};
  raise_score(&score);
  pid_t pid = fork();
  if (pid == 0)
    be_supervisor(options, agent, page, socket);
  restore_score(&score, options->log);
  return pid;
}

/* --- supervisors of dead agents --------------------------------------------------------------- */

#define COUNT_MS 50

/* The name is read first, which never blocks. The command line is read only of processes with that
   name, if it cannot block either. The title is "agent-supervise JOB PID", with the agent's pid. A
   step may forge it, which delays the start a little. */
static bool is_orphaned(pid_t pid, const char *job) {
  static const char prefix[] = SUPERVISOR_NAME " ";
  char title[128];
  if (process_table_read_file(pid, "comm", title, sizeof title) <= 0 ||
      strcmp(title, SUPERVISOR_NAME "\n") != 0)
    return false;
  process_table_command(pid, title, sizeof title);
  const char *at = title + sizeof prefix - 1;
  if (strncmp(title, prefix, sizeof prefix - 1) != 0 || strncmp(at, job, strlen(job)) != 0 ||
      at[strlen(job)] != ' ')
    return false;
  const pid_t agent = (pid_t)strtol(at + strlen(job), NULL, 10);
  return agent > 0 && process_table_parent(pid) != agent;
}

struct orphaned_search {
  const char *job;
  size_t count;
};

static void count_if_orphaned(void *context, pid_t pid) {
  struct orphaned_search *self = context;
  if (!is_orphaned(pid, self->job))
    return;
  (void)kill(pid, SIGCONT);
  self->count++;
}

size_t supervisor_fork_count_orphaned(const char *job) {
  struct orphaned_search search = {.job = job};
  struct process_scan scan = {.until_ms = clock_monotonic_ms() + COUNT_MS};
  (void)process_table_each(&scan, count_if_orphaned, &search);
  return search.count;
}
