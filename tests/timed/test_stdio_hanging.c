/* A tool whose process hangs in the kernel, where not even SIGKILL ends it: its answer leaves at
   the deadline. */
#include <sys/mount.h>

#include "tests/support/hanging_mount.h"
#include "tests/support/injection.h"
#include "tests/support/machine_clock.h"
#include "tests/support/stdio_host.h"
#include "tests/test.h"

/* The best attempt counts, because a busy machine delays any of them. */
enum { DEADLINE_MS = 1000, ATTEMPTS = 5 };

struct trial {
  char path[64];
  struct hanging_mount mount;
  struct stdio_host *host;
};

static struct stdio_host *start_host(void) {
  const char *const arguments[] = {"--stdio", "--deadline", "1", NULL};
  return stdio_host_start(&(struct stdio_host_setup){.arguments = arguments});
}

static int set_up(void **state) {
  struct trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  snprintf(self->path, sizeof self->path, "/tmp/unit-test-XXXXXX");
  assert_non_null(mkdtemp(self->path));
  hanging_mount_init(&self->mount, self->path);
  self->host = start_host();
  *state = self;
  return 0;
}

/* A mount that a failed test leaves would block the cleanup. */
static int tear_down(void **state) {
  struct trial *self = *state;
  (void)umount2(self->path, MNT_DETACH);
  stdio_host_free(self->host);
  rmdir(self->path);
  free(self);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static void send_read(struct trial *self, const char *id) {
  stdio_host_send(self->host, formatted("{'id':%s,'method':'read_file','params':{'path':'%s/f'}}\n",
                                        id, self->path));
}

static void expect_timed_out(struct trial *self, const char *id) {
  stdio_host_expect(self->host, formatted("{'id':%s,'error':{'code':-1,'message':'(command timed "
                                          "out)\\n(exit code: 124)'}}",
                                          id));
}

/* Returns the time from two calls to their answers. */
static double answered_after_ms(struct trial *self) {
  int64_t sent_ms = wait_now_ms();
  double sent_machine_ms = machine_clock_ms();
  send_read(self, "1");
  send_read(self, "2");
  expect_timed_out(self, "1");
  expect_timed_out(self, "2");
  assert_true(wait_now_ms() - sent_ms >= DEADLINE_MS / 2);
  return machine_clock_ms() - sent_machine_ms;
}

/* Each attempt has a new host, because a later call waits behind the one that hangs. */
TRIAL_TEST(the_answer_of_a_hanging_tool_leaves_at_the_deadline) {
  double took_ms = answered_after_ms(trial);
  for (int i = 1; i < ATTEMPTS && took_ms > DEADLINE_MS; i++) {
    stdio_host_free(trial->host);
    trial->host = start_host();
    took_ms = answered_after_ms(trial);
  }
  print_message("from the calls to the answers: %.0f ms\n", took_ms);
  assert_true(took_ms <= DEADLINE_MS);
  hanging_mount_release(&trial->mount);
  stdio_host_send(trial->host, "{'id':3,'method':'execute','params':{'command':'echo on'}}\n");
  stdio_host_expect(trial->host, "{'id':3,'result':{'exitCode':0,'stdout':'on\\n','stderr':'',"
                                 "'timedOut':false,'durationSeconds':S}}");
  stdio_host_close_input(trial->host);
  stdio_host_expect_exit(trial->host, 0);
}

/* The call is answered; the agent does not wait for its process. */
TRIAL_TEST(the_process_exits_at_the_end_of_the_input_while_a_tool_hangs) {
  send_read(trial, "1");
  stdio_host_close_input(trial->host);
  expect_timed_out(trial, "1");
  stdio_host_expect_exit(trial->host, 0);
  hanging_mount_release(&trial->mount);
}

TRIAL_TEST(a_shutdown_is_answered_while_a_tool_hangs) {
  send_read(trial, "1");
  expect_timed_out(trial, "1");
  stdio_host_send(trial->host, "{'id':2,'method':'shutdown'}\n");
  stdio_host_expect(trial->host, "{'id':2,'result':null}");
  stdio_host_expect_exit(trial->host, 0);
  hanging_mount_release(&trial->mount);
}

TEST_GROUP(injection_begin_group, NULL)
