/* `agent --ipc` beside another container of its pod that gives the names in their directory to
   other things while the agent works on them. */

#include <dirent.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/support/as_user.h"
#include "tests/support/sidecar.h"
#include "tests/test.h"

#define EXCHANGE (1U << 1) /* RENAME_EXCHANGE */

enum {
  REQUESTS_MAX = 2000,
  EXCHANGES = 100, /* that are enough */
  REQUEST_MS = 60, /* how long a result is waited for, which may never come here */
  NAMES_AHEAD = 4, /* of those that the agent makes next */
  LOCK_LENGTH = 7 + 16,
  NEIGHBOUR_S = 500 /* it ends by itself */
};

/* --- the neighbour --------------------------------------------------------------------------- */

/* The name of the agent's lock, which begins all that it makes. */
static bool find_lock(int tools, char lock[LOCK_LENGTH + 1]) {
  DIR *names = fdopendir(openat(tools, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  bool found = false;
  if (names == NULL)
    return false;
  for (const struct dirent *entry; !found && (entry = readdir(names)) != NULL;)
    if (strncmp(entry->d_name, ".agent-", 7) == 0 && strlen(entry->d_name) == LOCK_LENGTH) {
      memcpy(lock, entry->d_name, LOCK_LENGTH + 1);
      found = true;
    }
  closedir(names);
  return found;
}

/* Links to one of three places after the other. */
static void lay_bait(int tools, unsigned number) {
  static const char *const targets[] = {"../empty", "../guarded", "../file"};
  (void)symlinkat(targets[number % 3], tools, "bait");
}

/* The number after the last one that the agent has used. */
static unsigned long next_number(int inotify, const char *lock, unsigned long next) {
  _Alignas(struct inotify_event) char bytes[4096];
  ssize_t length;
  while ((length = read(inotify, bytes, sizeof bytes)) > 0)
    for (ssize_t at = 0; at < length;) {
      const struct inotify_event *event = (const void *)(bytes + at);
      if (event->len > LOCK_LENGTH && strncmp(event->name, lock, LOCK_LENGTH) == 0 &&
          event->name[LOCK_LENGTH] == '.')
        next = strtoul(event->name + LOCK_LENGTH + 1, NULL, 10) + 1;
      at += (ssize_t)sizeof *event + (ssize_t)event->len;
    }
  return next;
}

/* One that has just been seen may still be there. */
static void exchange_names(int tools, volatile unsigned *number) {
  char lock[LOCK_LENGTH + 1], name[96], caught[32];
  int inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (!find_lock(tools, lock) ||
      inotify_add_watch(inotify, formatted("/proc/self/fd/%d", tools), IN_CREATE | IN_MOVED_TO) < 0)
    _exit(1);
  lay_bait(tools, 0);
  for (unsigned long next = 1, done = 0;;) {
    next = next_number(inotify, lock, next);
    for (unsigned long i = next > done + 1 ? next - 1 : done + 1; i < next + NAMES_AHEAD; i++) {
      (void)snprintf(name, sizeof name, "%s.%lu", lock, i);
      if (syscall(SYS_renameat2, tools, name, tools, "bait", EXCHANGE) != 0)
        continue;
      (void)snprintf(caught, sizeof caught, "caught-%u", ++*number);
      (void)renameat(tools, "bait", tools, caught);
      lay_bait(tools, *number);
      done = i;
    }
  }
}

/* Another user's; it counts. */
static pid_t start_neighbour(const struct sidecar *sidecar, volatile unsigned *number) {
  int tools = open(sidecar_path(sidecar, "tools"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(tools >= 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(NEIGHBOUR_S);
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
      _exit(1);
    exchange_names(tools, number);
  }
  close(tools);
  return pid;
}

static void stop_neighbour(pid_t pid) {
  int status;
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* it was at work */
}

/* --- the test -------------------------------------------------------------------------------- */

static void expect_mode(const struct sidecar *sidecar, const char *name, mode_t mode) {
  struct stat file;
  assert_int_equal(lstat(sidecar_path(sidecar, name), &file), 0);
  assert_int_equal(file.st_mode & 07777, mode);
}

static void expect_victims(const struct sidecar *sidecar) {
  assert_int_equal(tree_count(sidecar->tree, "empty"), 0);
  tree_expect(sidecar->tree, "guarded/owner", "me", 0600);
  tree_expect(sidecar->tree, "file", "text", 0600);
  expect_mode(sidecar, "empty", 0700);
  expect_mode(sidecar, "guarded", 0700);
}

static void make_request(const struct sidecar *sidecar, int number) {
  const char *id = formatted("r%d", number);
  sidecar_request(sidecar, id, "{'argv':['true'],'workDir':'/tmp'}");
  for (int64_t end_ms = wait_now_ms() + REQUEST_MS;
       wait_now_ms() < end_ms && !sidecar_has(sidecar, sidecar_result_name(id));)
    (void)usleep(500);
  (void)unlink(sidecar_path(sidecar, sidecar_request_name(id)));
  (void)unlink(sidecar_path(sidecar, sidecar_result_name(id)));
}

SIDECAR_TEST(who_exchanges_names_reaches_nothing_outside) {
  assert_int_equal(chmod(sidecar->path, 0777), 0);
  tree_make_directory(sidecar->tree, "empty", 0700);
  tree_make_directory(sidecar->tree, "guarded", 0700);
  tree_write(sidecar->tree, "guarded/owner", "me", 0600);
  tree_write(sidecar->tree, "file", "text", 0600);
  volatile unsigned *number =
      mmap(NULL, sizeof *number, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(number != MAP_FAILED);
  sidecar_start(sidecar, NULL);
  pid_t neighbour = start_neighbour(sidecar, number);
  int requests = 0;
  while (*number < EXCHANGES && requests < REQUESTS_MAX)
    make_request(sidecar, requests++);
  stop_neighbour(neighbour);
  print_message("%u names exchanged in %d requests\n", *number, requests);
  assert_true(*number > 0);
  (void)munmap((void *)(uintptr_t)number, sizeof *number);
  expect_victims(sidecar);
  sidecar_request(sidecar, "after", "{'command':'echo served','workDir':'/tmp'}");
  sidecar_expect(sidecar, "after", 0, "served", "");
}
