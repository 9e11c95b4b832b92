/* `agent --ipc` in a directory with many requests that never become complete: new requests,
   deadlines and signals are served in time. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/support/machine_clock.h"
#include "tests/support/sidecar.h"
#include "tests/test.h"

enum {
  SERVED_MS = 500, /* the promise */
  LINKS = 1000,
  LINKED_SIZE = 8000000,
  FILES = 400,
  FILE_SIZE = 256 * 1024,
  REQUESTS = 12,
  RUNNING_MAX = 16,
  GROWING = 32,
  GROWN_ITEMS = 600000,
  OTHERS = 100000,
  ATTEMPTS = 3,
  CROWD_S = 500 /* after which it exits */
};

/* --- the crowd -------------------------------------------------------------------------------- */

static void write_unfinished(const struct sidecar *sidecar, const char *name, size_t size) {
  static const char begin[] = "{\"command\":\"echo x\",\"stdin\":\"";
  char *text = malloc(size);
  assert_non_null(text);
  memset(text, '0', size);
  memcpy(text, begin, sizeof begin - 1);
  sidecar_write(sidecar, name, text, size);
  free(text);
}

static void make_links(const struct sidecar *sidecar) {
  write_unfinished(sidecar, sidecar_request_name("c0"), LINKED_SIZE);
  for (int i = 1; i < LINKS; i++)
    assert_int_equal(link(sidecar_path(sidecar, sidecar_request_name("c0")),
                          sidecar_path(sidecar, sidecar_request_name(formatted("c%d", i)))),
                     0);
}

static void make_files(const struct sidecar *sidecar) {
  for (int i = 0; i < FILES; i++)
    write_unfinished(sidecar, sidecar_request_name(formatted("c%d", i)), FILE_SIZE);
}

/* Changes the files all the time; they never become complete. */
static void change_files(const struct sidecar *sidecar, int count) {
  for (unsigned round = 0;; round++) {
    for (int i = 0; i < count; i++) {
      int fd = open(sidecar_path(sidecar, sidecar_request_name(formatted("c%d", i))),
                    O_WRONLY | O_CLOEXEC);
      (void)pwrite(fd, round % 2 == 0 ? "1" : "2", 1, 1000);
      close(fd);
    }
    (void)usleep(20000);
  }
}

static pid_t start_changes(const struct sidecar *sidecar, int count) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(CROWD_S);
    change_files(sidecar, count);
  }
  return pid;
}

static void stop_changes(pid_t pid) {
  int status;
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* --- service in the meantime ------------------------------------------------------------------ */

static bool is_within(const char *what, double begin_ms, double bound_ms) {
  double taken_ms = machine_clock_ms() - begin_ms;
  print_message("%s: %.0f ms\n", what, taken_ms);
  return taken_ms <= bound_ms;
}

static bool serves_requests(struct sidecar *sidecar) {
  double most_ms = 0;
  for (int i = 0; i < REQUESTS; i++) {
    const char *id = formatted("new-%d", i);
    double begin_ms = machine_clock_ms();
    sidecar_request(sidecar, id, "{'argv':['true'],'workDir':'/tmp'}");
    sidecar_wait_for(sidecar, sidecar_result_name(id));
    double taken_ms = machine_clock_ms() - begin_ms;
    most_ms = taken_ms > most_ms ? taken_ms : most_ms;
    sidecar_delete(sidecar, id);
    (void)usleep(100000);
  }
  print_message("%d requests: %.0f ms at most\n", REQUESTS, most_ms);
  return most_ms <= SERVED_MS;
}

/* The request starts in time and ends in time. */
static bool keeps_deadline(struct sidecar *sidecar) {
  double begin_ms = machine_clock_ms();
  sidecar_request(sidecar, "late", "{'argv':['sleep','600.094'],'timeout':1,'workDir':'/tmp'}");
  sidecar_wait_for(sidecar, sidecar_result_name("late"));
  sidecar_delete(sidecar, "late");
  return is_within("a deadline of 1 s", begin_ms, 1000 + 2 * SERVED_MS);
}

static bool obeys_signal(struct sidecar *sidecar) {
  double begin_ms = machine_clock_ms();
  assert_int_equal(kill(agent_process_pid(sidecar->agent), SIGTERM), 0);
  assert_int_equal(agent_process_wait(sidecar->agent, WAIT_BOUND_MS), 128 + SIGTERM);
  return is_within("SIGTERM", begin_ms, SERVED_MS);
}

/* The best attempt counts, because a busy machine delays any of them. The later ones have a new
   agent. */
static void expect_service(struct sidecar *sidecar, const struct agent_setup *setup) {
  for (int attempt = 1;; attempt++) {
    bool is_served = serves_requests(sidecar), is_kept = keeps_deadline(sidecar);
    if (obeys_signal(sidecar) && is_served && is_kept)
      return;
    assert_true(attempt < ATTEMPTS);
    agent_process_free(sidecar->agent);
    sidecar->agent = NULL;
    sidecar_start(sidecar, setup);
  }
}

/* --- the tests -------------------------------------------------------------------------------- */

static void refuse_inotify(const void *context) {
  (void)context;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_inotify_init1, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

static const struct agent_setup without_inotify = {.prepare = refuse_inotify};

/* The directory has no disk behind it, which would be the slowest part. */
static void start_on_tmpfs(struct sidecar *sidecar, const struct agent_setup *setup) {
  sidecar_mount(sidecar, "size=512m");
  sidecar_start(sidecar, setup);
}

static void serve_beside_links(struct sidecar *sidecar, const struct agent_setup *setup) {
  start_on_tmpfs(sidecar, setup);
  make_links(sidecar);
  expect_service(sidecar, setup);
}

/* One file of 8 MB would be read a thousand times. */
SIDECAR_TEST(links_to_an_unfinished_request_delay_no_other) {
  serve_beside_links(sidecar, NULL);
}

SIDECAR_TEST(links_to_an_unfinished_request_delay_no_other_without_inotify) {
  serve_beside_links(sidecar, &without_inotify);
}

/* Each change affects all links. */
SIDECAR_TEST(links_to_a_changing_request_delay_no_other) {
  start_on_tmpfs(sidecar, NULL);
  make_links(sidecar);
  pid_t changes = start_changes(sidecar, 1);
  expect_service(sidecar, NULL);
  stop_changes(changes);
}

SIDECAR_TEST(links_that_exist_at_the_start_delay_no_request) {
  sidecar_mount(sidecar, "size=512m");
  tree_make(sidecar->tree, "m/tools/");
  make_links(sidecar);
  sidecar_start(sidecar, NULL);
  expect_service(sidecar, NULL);
}

static void start_sleeps(struct sidecar *sidecar) {
  for (int i = 0; i < RUNNING_MAX; i++)
    sidecar_request(sidecar, formatted("s%d", i),
                    "{'argv':['sleep','600.095'],'timeout':120,'workDir':'/tmp'}");
  for (int i = 0; i < RUNNING_MAX; i++)
    sidecar_wait_for(sidecar, sidecar_claim_name(formatted("s%d", i)));
}

/* Writes a request of 2 MB that takes long to read. */
static void write_invalid(const struct sidecar *sidecar, const char *name) {
  static char text[3 * GROWN_ITEMS + 32];
  char *end = stpcpy(text, "{\"command\":5,\"args\":[\"\"");
  for (int i = 1; i < GROWN_ITEMS; i++)
    end = stpcpy(end, ",\"\"");
  end = stpcpy(end, "]}");
  sidecar_write(sidecar, name, text, (size_t)(end - text));
}

static void grow_requests(struct sidecar *sidecar) {
  for (int i = 0; i < GROWING; i++)
    sidecar_request(sidecar, formatted("g%d", i), "{'argv':['true'],'workDir':'/tmp'}");
  sidecar_wait_known(sidecar, RUNNING_MAX + GROWING);
  for (int i = 0; i < GROWING; i++)
    write_invalid(sidecar, sidecar_request_name(formatted("g%d", i)));
}

/* Deletes the requests, and the results that they may have. */
static void delete_requests(struct sidecar *sidecar, const char *prefix, int count) {
  for (int i = 0; i < count; i++) {
    const char *id = formatted("%s%d", prefix, i);
    (void)unlink(sidecar_path(sidecar, sidecar_request_name(id)));
    (void)unlink(sidecar_path(sidecar, sidecar_result_name(id)));
  }
}

/* The requests are small when they are found, and large when one of them can run. */
SIDECAR_TEST(requests_that_grow_while_they_wait_delay_no_other) {
  start_on_tmpfs(sidecar, NULL);
  for (int attempt = 1;; attempt++) {
    start_sleeps(sidecar);
    grow_requests(sidecar);
    sidecar_request(sidecar, "new", "{'argv':['true'],'workDir':'/tmp'}");
    double begin_ms = machine_clock_ms();
    delete_requests(sidecar, "s", 1);
    sidecar_wait_for(sidecar, sidecar_result_name("new"));
    if (is_within("a request", begin_ms, SERVED_MS))
      return;
    assert_true(attempt < ATTEMPTS);
    sidecar_delete(sidecar, "new");
    delete_requests(sidecar, "s", RUNNING_MAX);
    delete_requests(sidecar, "g", GROWING);
    sidecar_wait_known(sidecar, 0);
  }
}

/* Requests that the agent has read, and leaves to another one. */
SIDECAR_TEST(numerous_requests_for_another_agent_delay_no_other) {
  static const char *const settings[] = {"SYMPOZIUM_SKILL_PACK=mine", NULL};
  static const struct agent_setup setup = {.environment = settings};
  start_on_tmpfs(sidecar, &setup);
  for (int i = 0; i < OTHERS; i++)
    sidecar_request(sidecar, formatted("o%d", i), "{'target':'other'}");
  sidecar_wait_read(sidecar, OTHERS);
  expect_service(sidecar, &setup);
}

static void serve_beside_files(struct sidecar *sidecar, const struct agent_setup *setup) {
  start_on_tmpfs(sidecar, setup);
  make_files(sidecar);
  pid_t changes = start_changes(sidecar, FILES);
  expect_service(sidecar, setup);
  stop_changes(changes);
}

SIDECAR_TEST(many_unfinished_requests_delay_no_other) {
  serve_beside_files(sidecar, NULL);
}

SIDECAR_TEST(many_unfinished_requests_delay_no_other_without_inotify) {
  serve_beside_files(sidecar, &without_inotify);
}
