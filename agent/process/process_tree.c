/*
 * A scan is a snapshot: processes come and go while it is taken. Two things keep that harmless. A
 * signal goes to a pidfd whose start time was compared with the snapshot's, so that a reused pid is
 * never hit. And the callers repeat the scan until it finds nobody (kill_sequence.c); a command
 * that forks faster than it is scanned is caught by its process group, which the kernel signals as
 * one.
 *
 * The rules of process_tree.h are three passes over the snapshot: what the descent of each process
 * proves, then what that proves for all of its session, then the tags, which are read only where
 * the two are silent.
 */
#include "agent/process/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/process/process_table.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"

#define ANCESTORS_MAX 65536
#define STEP_ID_SIZE (1024 + 1) /* wire/step.h */

enum membership { UNKNOWN, MEMBER, STRANGER };

/* What is found out about one process. */
struct verdict {
  bool below_agent; /* it descends from the agent */
  bool tag_read;
  enum membership known; /* of it by itself, as far as it is certain */
  enum membership by_tag;
};

struct session {
  pid_t id;
  enum membership membership; /* of one of its processes, and so of all */
};

struct scan {
  const struct process_tree *tree;
  pid_t agent;
  struct process_table table;
  struct verdict *verdicts; /* by the index of the table's entry */
  struct session *sessions; /* by id, ascending; those that are known */
  size_t session_count;
};

uint64_t process_tree_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_BOOTTIME, &now);
  uint64_t hertz = (uint64_t)sysconf(_SC_CLK_TCK);
  return (uint64_t)now.tv_sec * hertz + (uint64_t)now.tv_nsec * hertz / 1000000000;
}

static void count_command(struct process_leaders *self, int change) {
  if (self->commands > 1 || (self->commands == 1 && change > 0))
    self->beside_ticks = process_tree_now();
  self->commands += (size_t)change;
}

void process_leaders_add(struct process_leaders *self, pid_t pid, bool is_command) {
  if (self->count == self->capacity) {
    self->capacity = self->capacity == 0 ? 4 : 2 * self->capacity;
    self->items = memory_resize(self->items, self->capacity * sizeof *self->items);
  }
  self->items[self->count++] = (struct process_leader){.pid = pid, .is_command = is_command};
  if (is_command)
    count_command(self, 1);
}

void process_leaders_remove(struct process_leaders *self, pid_t pid) {
  size_t i = 0;
  while (i < self->count && self->items[i].pid != pid)
    i++;
  if (i == self->count)
    return;
  if (self->items[i].is_command)
    count_command(self, -1);
  self->items[i] = self->items[--self->count];
}

void process_leaders_release(struct process_leaders *self) {
  free(self->items);
  *self = (struct process_leaders){0};
}

bool process_tree_is_known(void) {
  return process_table_is_known();
}

void process_tree_job(const char *job_id, char job[PROCESS_TREE_JOB_SIZE]) {
  uint64_t hash = hash_bytes(job_id, strlen(job_id));
  (void)snprintf(job, PROCESS_TREE_JOB_SIZE, "%08x", (unsigned)(hash ^ hash >> 32));
}

/* Another agent, run inside a step, replaces the tag by its own, from
   which nothing follows here. */
static bool is_of_same_agent(const char *tag, const char *other) {
  const char *dash = strrchr(tag, '-');
  return dash == NULL || strncmp(tag, other, (size_t)(dash - tag) + 1) == 0;
}

static enum membership read_tag(const struct process_tree *tree, pid_t pid) {
  char value[128];
  if (!process_table_read_variable(pid, PROCESS_TREE_TAG, value, sizeof value))
    return UNKNOWN;
  if (strcmp(value, tree->tag) == 0)
    return MEMBER;
  return is_of_same_agent(tree->tag, value) ? STRANGER : UNKNOWN;
}

/* The leader of a session gives it its number, and a process only leaves its session for a new one
   of its own. The number is not used again while there is anybody in the session. */
static bool is_in_leaders_session(const struct process_tree *tree,
                                  const struct process_entry *entry) {
  return tree->leader != 0 && (entry->pid == tree->leader || entry->session == tree->leader);
}

/* The same for another command that runs beside this one. */
static bool is_in_another_session(const struct process_tree *tree,
                                  const struct process_entry *entry) {
  for (size_t i = 0; tree->leaders != NULL && i < tree->leaders->count; i++) {
    pid_t leader = tree->leaders->items[i].pid;
    if (leader != tree->leader && (entry->pid == leader || entry->session == leader))
      return true;
  }
  return false;
}

/* The next one above; NULL above the agent's own child. */
static const struct process_entry *parent_of(const struct scan *self,
                                             const struct process_entry *entry) {
  return entry->parent == self->agent ? NULL : process_table_find(&self->table, entry->parent);
}

/* Follows the parents up to the agent. The number of steps is bounded: see process_table.h. */
static void judge_descent(const struct scan *self, const struct process_entry *entry,
                          struct verdict *verdict) {
  const struct process_entry *at = entry;
  bool in_step = false;
  bool is_beside = false;
  bool is_older = entry->started < self->tree->since_ticks;
  bool has_older = false; /* among those between the agent and it, too */
  for (size_t steps = 0; at != NULL && at->pid != self->agent && steps < self->table.count;
       steps++) {
    in_step |= is_in_leaders_session(self->tree, at);
    is_beside |= is_in_another_session(self->tree, at);
    has_older |= at->started < self->tree->since_ticks;
    verdict->below_agent = at->parent == self->agent;
    at = parent_of(self, at);
  }
  if (in_step)
    verdict->known = MEMBER;
  else if (is_beside || is_older || (has_older && verdict->below_agent))
    verdict->known = STRANGER;
}

/* Whether no ancestor of it is this process, and all are known. A parent is never younger than its
   child, also where it is not the one that made it: else its number was used again. */
static bool has_lost(const struct scan *self, const struct process_entry *entry, pid_t ancestor) {
  for (size_t steps = 0; steps < self->table.count; steps++) {
    if (entry->pid == ancestor)
      return false;
    if (entry->parent == 0)
      return true;
    const struct process_entry *parent = process_table_find(&self->table, entry->parent);
    if (parent == NULL || parent->started > entry->started)
      return false;
    entry = parent;
  }
  return false;
}

static bool has_step_id(pid_t pid, const char *step_id) {
  char value[STEP_ID_SIZE];
  return step_id == NULL ||
         (process_table_read_variable(pid, PROCESS_TREE_STEP_VARIABLE, value, sizeof value) &&
          strcmp(value, step_id) == 0);
}

static bool finds_left(const struct process_tree *tree) {
  return tree->job != NULL || tree->dead_agent != NULL;
}

/* A part of it up to a dash. */
static bool begins_with(const char *tag, const char *part) {
  size_t length = strlen(part);
  return strncmp(tag, part, length) == 0 && tag[length] == '-';
}

/* By its own tag: left by a dead agent of the job, or of somebody else. */
static enum membership judge_left(const struct scan *self, const struct process_entry *entry) {
  const struct process_tree *tree = self->tree;
  char tag[128];
  if (!process_table_read_variable(entry->pid, PROCESS_TREE_TAG, tag, sizeof tag))
    return UNKNOWN;
  if (tree->dead_agent != NULL)
    return begins_with(tag, tree->dead_agent) ? MEMBER : STRANGER;
  if (!begins_with(tag, tree->job))
    return STRANGER;
  long agent = strtol(tag + strlen(tree->job) + 1, NULL, 10);
  bool left = agent > 0 && has_lost(self, entry, (pid_t)agent);
  return left && has_step_id(entry->pid, tree->step_id) ? MEMBER : STRANGER;
}

static int compare_session(const void *left, const void *right) {
  pid_t a = ((const struct session *)left)->id;
  pid_t b = ((const struct session *)right)->id;
  return (a > b) - (a < b);
}

static void judge_sessions(struct scan *self) {
  self->sessions = memory_allocate((self->table.count + 1) * sizeof *self->sessions);
  for (size_t i = 0; i < self->table.count; i++)
    if (self->verdicts[i].known != UNKNOWN && self->table.entries[i].session != 0)
      self->sessions[self->session_count++] =
          (struct session){self->table.entries[i].session, self->verdicts[i].known};
  qsort(self->sessions, self->session_count, sizeof *self->sessions, compare_session);
}

static enum membership by_session(struct scan *self, const struct process_entry *entry) {
  struct session key = {.id = entry->session};
  const struct session *found =
      bsearch(&key, self->sessions, self->session_count, sizeof key, compare_session);
  return found == NULL ? UNKNOWN : found->membership;
}

static enum membership by_tag(struct scan *self, const struct process_entry *entry) {
  struct verdict *verdict = &self->verdicts[entry - self->table.entries];
  if (!verdict->tag_read)
    verdict->by_tag = read_tag(self->tree, entry->pid);
  verdict->tag_read = true;
  return verdict->by_tag;
}

typedef enum membership judge(struct scan *self, const struct process_entry *entry);

/* The answer of the nearest one that has one, from the process itself upwards. */
static enum membership nearest(struct scan *self, const struct process_entry *entry, judge *ask) {
  enum membership answer = UNKNOWN;
  for (size_t steps = 0; answer == UNKNOWN && entry != NULL && steps < self->table.count; steps++) {
    answer = entry->pid == self->agent ? STRANGER : ask(self, entry);
    entry = parent_of(self, entry);
  }
  return answer;
}

static enum membership known(struct scan *self, const struct process_entry *entry) {
  return self->verdicts[entry - self->table.entries].known;
}

bool process_tree_is_beside(const struct process_tree *self) {
  return self->leaders != NULL && self->leaders->commands > 1;
}

/* Whether no other command can have made what began then. */
static bool was_alone(const struct process_tree *tree, uint64_t started) {
  return tree->leaders == NULL ||
         (!process_tree_is_beside(tree) && started > tree->leaders->beside_ticks);
}

static bool is_of_step(struct scan *self, const struct process_entry *entry, bool below_agent) {
  enum membership answer = known(self, entry);
  if (answer == UNKNOWN)
    answer = nearest(self, entry, by_session);
  if (answer == UNKNOWN)
    answer = nearest(self, entry, by_tag);
  return answer == MEMBER ||
         (answer == UNKNOWN && below_agent && was_alone(self->tree, entry->started));
}

static bool is_left(struct scan *self, const struct process_entry *entry) {
  enum membership answer = nearest(self, entry, known);
  if (answer == UNKNOWN)
    answer = nearest(self, entry, by_session);
  return answer == MEMBER;
}

static bool is_member(struct scan *self, const struct process_entry *entry) {
  const struct process_tree *tree = self->tree;
  bool below_agent = self->verdicts[entry - self->table.entries].below_agent;
  if (entry->pid == self->agent || entry->pid == tree->except)
    return false;
  if (tree->tag != NULL)
    return is_of_step(self, entry, below_agent);
  return below_agent ? tree->step_id == NULL : finds_left(tree) && is_left(self, entry);
}

/* What this agent descends from is never killed by it, whoever started that. */
static void judge_own_ancestors(const struct scan *self) {
  const struct process_entry *at = process_table_find(&self->table, self->agent);
  for (size_t steps = 0; at != NULL && steps < self->table.count; steps++) {
    self->verdicts[at - self->table.entries].known = STRANGER;
    at = process_table_find(&self->table, at->parent);
  }
}

static bool scan_begin(struct scan *self, const struct process_tree *tree) {
  *self = (struct scan){.tree = tree, .agent = getpid()};
  if (!process_table_take(&self->table))
    return false;
  self->verdicts = memory_allocate((self->table.count + 1) * sizeof *self->verdicts);
  for (size_t i = 0; i < self->table.count; i++) {
    self->verdicts[i] = (struct verdict){0};
    judge_descent(self, &self->table.entries[i], &self->verdicts[i]);
    if (finds_left(tree) && !self->verdicts[i].below_agent)
      self->verdicts[i].known = judge_left(self, &self->table.entries[i]);
  }
  judge_own_ancestors(self);
  judge_sessions(self);
  return true;
}

static void scan_end(struct scan *self) {
  process_table_release(&self->table);
  free(self->verdicts);
  free(self->sessions);
}

/* To a process, or to a group whose number is negative. */
static bool signal_by_number(pid_t pid, int signal) {
  bool is_there = kill(pid, signal) == 0;
  if (signal == SIGTERM)
    (void)kill(pid, SIGCONT);
  return is_there;
}

static void send_signal(const struct process_entry *entry, int signal) {
  int fd = (int)syscall(SYS_pidfd_open, entry->pid, 0);
  if (fd < 0) {
    if (errno != ESRCH)
      (void)signal_by_number(entry->pid, signal); /* kernel before 5.3 */
    return;
  }
  struct process_entry now;
  if (process_table_read_entry(entry->pid, &now) && now.started == entry->started) {
    if (syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) != 0 && errno == ENOSYS)
      (void)signal_by_number(entry->pid, signal);
    else if (signal == SIGTERM)
      (void)syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
  }
  close(fd);
}

static size_t signal_members(struct scan *self, int signal) {
  const pid_t leader = self->tree->leader;
  size_t living = 0;
  bool group = false;
  for (size_t i = 0; i < self->table.count; i++) {
    const struct process_entry *entry = &self->table.entries[i];
    if (entry->zombie || !is_member(self, entry))
      continue;
    living++;
    if (signal == 0)
      continue;
    if (leader != 0 && entry->group == leader)
      group = true;
    else
      send_signal(entry, signal);
  }
  if (group)
    (void)signal_by_number(-leader, signal);
  return living;
}

size_t process_tree_signal(const struct process_tree *self, int signal) {
  CHECK((self->tag == NULL) == (self->leader == 0));
  struct scan scan;
  size_t living = 0;
  if (scan_begin(&scan, self))
    living = signal_members(&scan, signal);
  else if (self->leader != 0)
    living = signal_by_number(-self->leader, signal);
  else if (getpid() == 1 && self->step_id == NULL)
    living = signal_by_number(-1, signal); /* all but this one */
  scan_end(&scan);
  return living;
}

/* Within the tick in which the step began only the tag tells. */
static bool was_there_before(const struct process_tree *self, const struct process_entry *entry) {
  return entry->started < self->since_ticks ||
         (entry->started == self->since_ticks && read_tag(self, entry->pid) == STRANGER);
}

struct session_search {
  const struct process_tree *tree;
  pid_t session;
  bool found;
};

static void visit_session(void *context, pid_t pid) {
  struct session_search *search = context;
  struct process_entry entry;
  if (!search->found && getsid(pid) == search->session)
    search->found = process_table_read_entry(pid, &entry) && was_there_before(search->tree, &entry);
}

/* Who made the session is the oldest that can be in it. When that one is gone the others tell. */
bool process_tree_may_hold(const struct process_tree *self, pid_t session) {
  struct process_entry maker;
  if (self->tag == NULL || session == self->leader || !process_table_is_known())
    return true;
  if (is_in_another_session(self, &(struct process_entry){.session = session}))
    return false;
  if (process_table_read_entry(session, &maker) && maker.session == session)
    return !was_there_before(self, &maker);
  struct session_search search = {.tree = self, .session = session};
  (void)process_table_each(visit_session, &search);
  return !search.found;
}

/* An ancestor may end meanwhile. One that exists and cannot be seen is another user's. */
static enum process_origin find_origin(pid_t pid) {
  const pid_t agent = getpid();
  struct process_entry entry;
  for (int steps = 0; steps < ANCESTORS_MAX; steps++, pid = entry.parent) {
    if (pid == agent)
      return PROCESS_OF_STEP;
    if (pid == 0)
      return PROCESS_OTHER;
    if (!process_table_read_entry(pid, &entry))
      return kill(pid, 0) != 0 && errno == EPERM ? PROCESS_OTHER : PROCESS_GONE;
  }
  return PROCESS_GONE;
}

enum process_origin process_tree_origin(pid_t pid) {
  if (pid == getpid())
    return PROCESS_OTHER;
  if (!process_table_is_known()) {
    pid_t session = getsid(pid);
    if (session < 0)
      return PROCESS_GONE;
    return pid == 1 || pid == getppid() || session == getsid(0) ? PROCESS_OTHER : PROCESS_OF_STEP;
  }
  enum process_origin origin = find_origin(pid);
  for (int again = 0; origin == PROCESS_GONE && again < 2; again++)
    origin = find_origin(pid);
  return origin;
}

/* The last of this process's own children in the kernel's list, which is the newest. */
static pid_t newest_child(int children_fd, char *text, size_t size) {
  ssize_t length = pread(children_fd, text, size - 1, 0);
  while (length > 0 && text[length - 1] == ' ')
    length--;
  if (length <= 0)
    return 0;
  text[length] = '\0';
  const char *last = strrchr(text, ' ');
  return (pid_t)strtol(last != NULL ? last + 1 : text, NULL, 10);
}

static bool may_be_chased(const struct process_tree *self, const struct process_entry *child) {
  return is_in_leaders_session(self, child) ||
         (!is_in_another_session(self, child) && child->started >= self->since_ticks &&
          read_tag(self, child->pid) != STRANGER && process_tree_may_hold(self, child->session));
}

void process_tree_chase(const struct process_tree *self, int milliseconds) {
  enum { LIST_SIZE = 256 * 1024 };
  if (!process_tree_is_known())
    return;
  int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  char *list = memory_allocate(LIST_SIZE);
  for (int64_t end = clock_monotonic_ms() + milliseconds; clock_monotonic_ms() < end;) {
    struct process_entry child;
    pid_t pid = newest_child(fd, list, LIST_SIZE);
    if (pid <= 0 || !process_table_read_entry(pid, &child) || child.zombie)
      continue;
    if (self->tag == NULL ? pid != self->except : may_be_chased(self, &child))
      (void)kill(pid, SIGKILL); /* not reaped yet, so that no other process has the pid */
  }
  free(list);
  close(fd);
}

struct holder_search {
  char link[64]; /* what a descriptor of that pipe links to in /proc */
  size_t found;
  char *name;
  size_t size;
};

/* Reads the links, without following them: another one may lead into a dead network mount. */
static bool process_has_pipe(pid_t pid, const char *link) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *fds = opendir(path);
  if (fds == NULL)
    return false;
  bool found = false;
  for (const struct dirent *entry; !found && (entry = readdir(fds)) != NULL;) {
    char target[64];
    ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    found = strcmp(target, link) == 0;
  }
  closedir(fds);
  return found;
}

static void visit_holder(void *context, pid_t pid) {
  struct holder_search *search = context;
  if (pid == getpid() || !process_has_pipe(pid, search->link))
    return;
  if (search->found++ == 0) {
    char comm[32] = "?";
    if (process_table_read_file(pid, "comm", comm, sizeof comm) > 0)
      comm[strcspn(comm, "\n")] = '\0';
    (void)snprintf(search->name, search->size, "pid %d (%s)", (int)pid, comm);
  }
}

size_t process_tree_pipe_holder(int fd, char *name, size_t size) {
  struct holder_search search = {.name = name, .size = size};
  name[0] = '\0';
  struct stat pipe;
  if (fstat(fd, &pipe) != 0)
    return 0;
  (void)snprintf(search.link, sizeof search.link, "pipe:[%llu]", (unsigned long long)pipe.st_ino);
  (void)process_table_each(visit_holder, &search);
  return search.found;
}
