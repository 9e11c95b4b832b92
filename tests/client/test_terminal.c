/* sandbox at a terminal: keys, signals and a resize. Each test also checks that the terminal is
   restored. */

#include <poll.h>

#include "tests/support/proc.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

TEST_OVERLAP(4)

/* The client waits this long for Redis. Nothing that it does at once takes as long. */
#define TIMEOUT_MS 15000

/* Starts a client whose step prints "up" and then runs this `sleep …`. */
static struct sandbox_terminal *start_running(struct job *job, const char *sleep) {
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, job_format(job, "exec $S run -c 'echo up; %s'", sleep));
  sandbox_terminal_wait(terminal, "up\r\n");
  return terminal;
}

JOB_TEST(an_error_message_of_an_agent_moves_no_cursor) {
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, "exec $S run -- \"$(printf 'no\\033[2Jsuch')\"");
  sandbox_terminal_wait(terminal, "sandbox: no\uFFFD[2Jsuch: command not found");
  sandbox_terminal_wait(terminal, " no\uFFFD[2Jsuch: command not found");
  sandbox_terminal_expect_exit(terminal, 127);
}

JOB_TEST(a_name_from_redis_is_one_line_without_colors) {
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, "exec $S -j \"$(printf 'a\\033[8m\\nb')\" run -- true");
  sandbox_terminal_wait(terminal, "no agent for a\uFFFD[8m\uFFFDb: ");
  sandbox_terminal_expect_exit(terminal, 125);
}

static void expect_ended(const char *sleep) {
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}

/* --- keys ------------------------------------------------------------------------------------- */

JOB_TEST(one_interrupt_cancels_and_waits_for_the_end) {
  const char *sleep = job_sleep(job, 600);
  struct sandbox_terminal *terminal = start_running(job, sleep);
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "(^\\ leaves it running)");
  sandbox_terminal_wait(terminal, " cancelled: ");
  sandbox_terminal_expect_exit(terminal, 130);
  expect_ended(sleep);
  job_wait_length(job, "results", 0);
}

/* The step ignores SIGTERM, so the agent kills it. */
JOB_TEST(two_interrupts_wait_for_the_end) {
  const char *sleep = job_sleep(job, 600);
  struct sandbox_terminal *terminal = sandbox_terminal_start(
      job, job_format(job, "exec $S run -c 'trap \"\" TERM; echo up; %s'", sleep));
  sandbox_terminal_wait(terminal, "up\r\n");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "cancelling ");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "is being cancelled");
  sandbox_terminal_wait(terminal, " cancelled: ");
  sandbox_terminal_expect_exit(terminal, 130);
  expect_ended(sleep);
}

JOB_TEST(an_interrupt_cancels_a_waiting_step) {
  (void)job_push_endless(job, job_sleep(job, 600));
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S run -- true");
  sandbox_terminal_wait(terminal, "waiting for step ");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, " cancelled: by a cancel step");
  sandbox_terminal_expect_exit(terminal, 130);
  sandbox_wait_steps(job, 1);
  job_wait_length(job, "results", 0);
}

/* Runs the command in the message. */
JOB_TEST(after_a_quit_follow_finds_the_step) {
  const char *sleep = job_sleep(job, 600);
  const char *said = job_path(job, "said");
  struct sandbox_terminal *terminal = sandbox_terminal_start(
      job, job_format(job,
                      "trap : QUIT; $S run -c 'echo up; %s' 2> %s; echo $?; "
                      "eval \"exec $(sed -n \"s|.* keeps running: sandbox|$S|p\" %s)\"",
                      sleep, said, said));
  sandbox_terminal_wait(terminal, "up\r\n");
  sandbox_terminal_send(terminal, "\x1c");
  sandbox_terminal_wait(terminal, "131\r\nup\r\n");
  assert_true(proc_wait_for(sleep, WAIT_BOUND_MS) > 0);
  sandbox_expect(job, "$S cancel --running", 0, "", NULL);
  assert_null(strstr(terminal->text, " waits"));
  sandbox_terminal_expect_exit(terminal, 125);
}

/* --- the status line -------------------------------------------------------------------------- */

JOB_TEST(the_place_in_the_queue_fits_and_disappears_when_the_step_starts) {
  const char *first = job_sleep(job, 600), *second = job_sleep(job, 600);
  (void)job_push_endless(job, first);
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, job_format(job, "exec $S run -- %s", second));
  sandbox_terminal_wait(terminal, "waiting for step ");
  sandbox_terminal_resize(terminal, 12);
  sandbox_terminal_forget(terminal);
  sandbox_terminal_wait(terminal, "waiting");
  const char *line = strrchr(terminal->text, '\r');
  assert_non_null(line);
  assert_true(strlen(line) <= strlen("\r\x1b[K") + 11);
  sandbox_terminal_forget(terminal);
  sandbox_expect(job, "$S cancel --running", 0, "", NULL);
  assert_true(proc_wait_for(second, WAIT_BOUND_MS) > 0);
  sandbox_terminal_wait(terminal, "\r\x1b[K");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_expect_exit(terminal, 130);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void expect_signal_cancels(struct job *job, int signal_number) {
  const char *sleep = job_sleep(job, 600);
  struct sandbox_terminal *terminal = start_running(job, sleep);
  assert_int_equal(kill(terminal->pid, signal_number), 0);
  sandbox_terminal_wait(terminal, " cancelled: ");
  sandbox_terminal_expect_exit(terminal, 128 + signal_number);
  expect_ended(sleep);
  job_wait_length(job, "results", 0);
}

JOB_TEST(a_signal_to_the_client_cancels_the_step) {
  expect_signal_cancels(job, SIGTERM);
  expect_signal_cancels(job, SIGHUP);
}

/* As nohup(1) ignores SIGHUP, and a script the keys for a command that it starts with "&". */
JOB_TEST(a_signal_that_is_ignored_at_startup_stays_ignored) {
  static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  const char *ignore = "trap '' INT QUIT TERM HUP; exec", *gate = job_path(job, "gate");
  const char *id = "11111111-aaaa-4aaa-8aaa-000000000001";
  enum { CLIENTS = 3 };
  struct agent_process *clients[CLIENTS];
  clients[0] = sandbox_start(
      job, job_format(
               job, "%s $S run --id %s -c 'echo up; until [ -e %s ]; do sleep 0.02; done; exit 3'",
               ignore, id, gate));
  sandbox_wait_output(clients[0], "up");
  clients[1] = sandbox_start(job, job_format(job, "%s $S follow %s", ignore, id));
  clients[2] = sandbox_start(
      job, job_format(job, "%s $S follow --html %s %s", ignore, job_path(job, "page"), id));
  for (size_t i = 0; i < CLIENTS; i++) {
    sandbox_wait_output(clients[i], "up");
    for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++)
      assert_int_equal(kill(agent_process_pid(clients[i]), numbers[j]), 0);
  }
  (void)job_write(job, "gate", "", 0644);
  for (size_t i = 0; i < CLIENTS; i++) {
    assert_int_equal(agent_process_wait(clients[i], WAIT_BOUND_MS), 3);
    agent_process_free(clients[i]);
  }
}

static bool is_full(void *context) {
  struct pollfd pipe_end = {.fd = *(int *)context, .events = POLLOUT};
  return poll(&pipe_end, 1, 0) == 0;
}

/* Standard output and standard error are a pipe that nobody reads. */
static void expect_a_signal_to_end_it(struct job *job, const char *command) {
  const char *path = job_path(job, "pipe");
  (void)unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  int pipe_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct agent_process *client =
      sandbox_start(job, job_format(job, "exec $S %s >%s 2>&1", command, path));
  assert_true(wait_until(is_full, &pipe_fd, WAIT_BOUND_MS));
  assert_int_equal(kill(agent_process_pid(client), SIGTERM), 0);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 128 + SIGTERM);
  agent_process_free(client);
  close(pipe_fd);
}

JOB_TEST(a_signal_ends_a_client_without_a_reader) {
  const char *yes = job_format(job, "yes %s", job_sleep(job, 600));
  const char *file = job_write(job, "zeros", "", 0644);
  sandbox_expect(job, job_format(job, "head -c 9000000 /dev/zero >%s", file), 0, "", "");
  expect_a_signal_to_end_it(job, job_format(job, "run -- %s", yes));
  expect_ended(yes);
  expect_a_signal_to_end_it(job, job_format(job, "read %s", file));
  job_wait_length(job, "results", 0);
  const cJSON *step =
      job_script(job, job_format(job, "%s | head -n 9000; exec %s", yes, job_sleep(job, 600)));
  job_push(job, step);
  expect_a_signal_to_end_it(
      job, job_format(job, "follow --html %s %s", job_path(job, "page"), job_text(step, "stepId")));
}

JOB_TEST(a_signal_clears_the_status_line) {
  (void)job_push_endless(job, job_sleep(job, 600));
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S run -- true");
  sandbox_terminal_wait(terminal, "waiting for step ");
  assert_int_equal(kill(terminal->pid, SIGTERM), 0);
  sandbox_terminal_expect_exit(terminal, 128 + SIGTERM);
  sandbox_wait_steps(job, 1);
}

/* The kernel hangs up the output before it sends SIGHUP: either may be seen first. */
JOB_TEST(closing_the_terminal_cancels_the_step) {
  const char *sleep = job_sleep(job, 600);
  struct sandbox_terminal *terminal = start_running(job, sleep);
  pid_t pid = terminal->pid;
  int status;
  sandbox_terminal_free(terminal);
  expect_ended(sleep);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WEXITSTATUS(status) == 128 + SIGHUP || WEXITSTATUS(status) == 128 + SIGPIPE);
}

static void expect_interrupt_to_leave(struct job *job, const char *script, const char *shown,
                                      int code) {
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, script);
  sandbox_terminal_wait(terminal, shown);
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_expect_exit(terminal, code);
}

JOB_TEST(an_interrupt_of_follow_and_top_leaves_a_clean_line) {
  const char *sleep = job_sleep(job, 600);
  const char *id = job_text(job_push_endless(job, sleep), "stepId");
  expect_interrupt_to_leave(job, "exec $S follow -n 1", "up\r\n", 130);
  expect_interrupt_to_leave(
      job, job_format(job, "exec $S follow --html %s %s", job_path(job, "page"), id), "up\r\n",
      130);
  expect_interrupt_to_leave(job, "exec $S top", "STEPS/MIN\r\n", 0);
  assert_true(proc_wait_for(sleep, WAIT_BOUND_MS) > 0);
}

/* --- without Redis ---------------------------------------------------------------------------- */

JOB_TEST(a_redis_that_stays_away_ends_run) {
  struct sandbox_terminal *terminal = start_running(job, job_sleep(job, 600));
  redis_server_kill(job->server);
  sandbox_terminal_wait(terminal, "sandbox: redis is gone: ");
  sandbox_terminal_expect_exit(terminal, 125);
}

static void expect_three_interrupts_to_leave(struct sandbox_terminal *terminal) {
  int64_t begin_ms = wait_now_ms();
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "cancelling ");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "redis does not answer  (^C again leaves)");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, " may still run: sandbox cancel ");
  sandbox_terminal_expect_exit(terminal, 130);
  assert_true(wait_now_ms() < begin_ms + TIMEOUT_MS);
}

JOB_TEST(three_interrupts_exit_without_redis) {
  struct sandbox_terminal *terminal = start_running(job, job_sleep(job, 600));
  redis_server_kill(job->server);
  expect_three_interrupts_to_leave(terminal);
}

JOB_TEST(three_interrupts_exit_with_a_frozen_redis) {
  struct sandbox_terminal *terminal = start_running(job, job_sleep(job, 600));
  redis_server_freeze(job->server);
  expect_three_interrupts_to_leave(terminal);
  redis_server_thaw(job->server);
}

/* Whether Redis has the step is unknown. */
JOB_TEST_NO_AGENT(a_signal_ends_an_unanswered_push) {
  redis_server_freeze(job->server);
  struct agent_process *client =
      sandbox_start(job, "$S run --detach -- true & p=$!\n"
                         "until grep -q 'SigBlk:.*4001$' /proc/$p/status; do sleep 0.02; done\n"
                         "kill $p; echo killed >&2; wait $p");
  agent_process_wait_log(client, "killed");
  int64_t begin_ms = wait_now_ms();
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 128 + SIGTERM);
  assert_true(wait_now_ms() < begin_ms + TIMEOUT_MS);
  assert_non_null(strstr(agent_process_log(client), " may still run"));
  agent_process_free(client);
  redis_server_thaw(job->server);
}

JOB_TEST(a_quit_exits_without_redis) {
  struct sandbox_terminal *terminal = start_running(job, job_sleep(job, 600));
  redis_server_kill(job->server);
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "cancelling ");
  int64_t begin_ms = wait_now_ms();
  sandbox_terminal_send(terminal, "\x1c");
  sandbox_terminal_expect_exit(terminal, 128 + SIGQUIT);
  assert_true(wait_now_ms() < begin_ms + TIMEOUT_MS);
}
