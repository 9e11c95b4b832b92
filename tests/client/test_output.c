/* sandbox run: every line and every byte of a command arrives, also at a slow reader, or the client
   says what is missing. */

#include <poll.h>

#include "tests/support/sandbox_client.h"
#include "tests/test.h"

#define ID "11111111-aaaa-4aaa-8aaa-000000000001"

/* So few events may be unread that a slow reader would miss most of the output. */
static int set_up(void **state) {
  job_setup_server(state);
  job_start_agent(*state, "--events-maxlen", "500", "--events-keep-bytes", "200000", NULL);
  return 0;
}

#define SMALL_TEST(NAME) TEST_WITH(struct job *job, NAME, set_up, job_teardown)

SMALL_TEST(a_slow_reader_gets_every_line) {
  sandbox_expect(job,
                 "a=$($S run -c 'seq 1 10000' | (sleep 1; sha1sum)); "
                 "b=$(seq 1 10000 | sha1sum); test \"$a\" = \"$b\"",
                 0, "", "");
  sandbox_expect(job, "$S --json run -c 'seq 1 4000' | (sleep 1; cat) | wc -l", 0, "4003\n", "");
  sandbox_expect(job, "$S run --text -c 'seq 1 4000' | (sleep 1; cat) | wc -l", 0, "4000\n", "");
  job_wait_length(job, "control", 0);
}

struct killing {
  struct job *job;
  struct agent_process *client;
  int64_t next_ms;
};

/* Ten times per second, all connections are lost. */
static bool kill_connections_until_end(void *context) {
  struct killing *self = context;
  if (wait_now_ms() >= self->next_ms) {
    self->next_ms = wait_now_ms() + 100;
    job_do(self->job, "CLIENT KILL TYPE normal SKIPME yes");
  }
  return !agent_process_is_running(self->client);
}

JOB_TEST(every_byte_arrives_across_lost_connections) {
  const char *file = job_path(job, "random");
  sandbox_expect(job, job_format(job, "head -c 20000000 /dev/urandom >%s", file), 0, "", "");
  struct killing killing = {.job = job};
  killing.client = sandbox_start(job, job_format(job, "$S run -- cat %s | cmp - %s", file, file));
  assert_true(wait_until(kill_connections_until_end, &killing, WAIT_BOUND_MS));
  assert_int_equal(agent_process_wait(killing.client, 0), 0);
  agent_process_free(killing.client);
}

SMALL_TEST(bytes_are_not_changed_unless_they_are_shown_on_a_terminal) {
  sandbox_expect(job, "$S run -c 'printf \"\\357\\273\\277a\\r\\nb\\rc\\377\\n\\nd\"'", 0,
                 "\xEF\xBB\xBF"
                 "a\r\nb\rc\xFF\n\nd",
                 "");
  sandbox_expect(job, "$S run -c 'printf \"a\\0b\"' | od -An -c", 0, "   a  \\0   b\n", "");
  sandbox_expect(job, "$S run -c 'printf \"a\\r\\n\" >&2' 2>&1 >/dev/null | od -An -c", 0,
                 "   a  \\r  \\n\n", "");
  sandbox_expect(job, "$S run --text -c 'printf \"a\\r\\nb\"'", 0, "a\nb\n", "");
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, "exec $S run --raw -c 'printf \"a\\r\\n\\303\"; sleep 0.1; "
                                  "printf \"\\244\\rb\\033[2Jc\"'");
  sandbox_terminal_wait(terminal, "a\r\n\xC3\xA4\r\nb\xEF\xBF\xBD[2Jc");
  sandbox_terminal_expect_exit(terminal, 0);
}

static void add_event(struct job *job, int seq, const char *kind, const char *line) {
  const char *event =
      job_json(job, "{'stepId':'" ID "','kind':'%s','line':'%s','seq':%d}", kind, line, seq);
  job_do(job, "XADD sandbox:%s:events * data %s", job->id, event);
}

/* Lets the stopped client read how the step has ended, and expects it to exit with that code. */
static void end_step(struct job *job, struct agent_process *client, int code, int events) {
  add_event(job, events, "completed", job_format(job, "exit=%d timedOut=False", code));
  job_do(job, "LPUSH sandbox:%s:results:" ID " %s", job->id,
         job_json(job, "{'stepId':'" ID "','exitCode':%d,'eventCount':%d}", code, events));
  job_do(job, "DEL sandbox:%s:in", job->id);
  assert_int_equal(kill(agent_process_pid(client), SIGCONT), 0);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), code);
  agent_process_free(client);
}

/* The standard streams may be one file, whose reader expects the order of the events. */
JOB_TEST_NO_AGENT(standard_output_and_error_in_one_file_keep_their_order) {
  const char *file = job_path(job, "both");
  job_do(job, "SET sandbox:%s:heartbeat {}", job->id);
  struct agent_process *client =
      sandbox_start(job, job_format(job, "exec $S run --text --id " ID " -- true >%s 2>&1", file));
  job_wait_length(job, "in", 1);
  assert_int_equal(kill(agent_process_pid(client), SIGSTOP), 0);
  add_event(job, 1, "started", "true");
  for (int seq = 2; seq < 8; seq++)
    add_event(job, seq, seq % 2 == 0 ? "stderr" : "stdout", job_format(job, "%d", seq));
  end_step(job, client, 0, 8);
  sandbox_expect(job, job_format(job, "tr '\\n' ' ' <%s", file), 0, "2 3 4 5 6 7 ", "");
}

/* A reader such as tar(1) exits when it has read everything, and perhaps before the step ends. */
JOB_TEST_NO_AGENT(a_reader_that_has_read_everything_does_not_change_the_exit_code) {
  const char *path = job_path(job, "pipe");
  char text[8];
  job_do(job, "SET sandbox:%s:heartbeat {}", job->id);
  assert_int_equal(mkfifo(path, 0600), 0);
  const int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct agent_process *client =
      sandbox_start(job, job_format(job, "exec $S run --text --id " ID " -- true >%s", path));
  job_wait_length(job, "in", 1);
  add_event(job, 1, "started", "true");
  add_event(job, 2, "stdout", "a");
  struct pollfd in = {.fd = reader, .events = POLLIN};
  assert_int_equal(poll(&in, 1, WAIT_BOUND_MS), 1);
  assert_int_equal(read(reader, text, sizeof text), 2);
  assert_int_equal(kill(agent_process_pid(client), SIGSTOP), 0);
  close(reader);
  end_step(job, client, 7, 3);
}

/* Returns the flags of open(2) of a descriptor. */
static unsigned long read_flags(struct job *job, pid_t pid, int fd) {
  char line[64];
  unsigned long flags = 0;
  FILE *file = fopen(job_format(job, "/proc/%d/fdinfo/%d", pid, fd), "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "flags:", 6) == 0)
      flags = strtoul(line + 6, NULL, 8);
  if (file != NULL)
    (void)fclose(file);
  return flags;
}

/* Another writer may fill the pipe at any time. Its writes must still block, as it expects. */
JOB_TEST(a_write_to_a_shared_pipe_does_not_block_the_client) {
  const char *path = job_path(job, "pipe");
  assert_int_equal(mkfifo(path, 0600), 0);
  const int pipe_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct agent_process *client =
      sandbox_start(job, job_format(job, "exec $S run -- %s >%s", job_sleep(job, 600), path));
  sandbox_wait_steps(job, 1);
  const pid_t pid = agent_process_pid(client);
  int count = 0;
  for (int fd = 3; fd < 64; fd++) {
    char target[4096] = "";
    if (readlink(job_format(job, "/proc/%d/fd/%d", pid, fd), target, sizeof target - 1) > 0)
      count += strcmp(target, path) == 0 && (read_flags(job, pid, fd) & O_NONBLOCK) != 0;
  }
  assert_int_equal(read_flags(job, pid, STDOUT_FILENO) & O_NONBLOCK, 0);
  assert_true(count == 1 || geteuid() != 0); /* only root sees the client's descriptors */
  assert_int_equal(kill(pid, SIGTERM), 0);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 128 + SIGTERM);
  agent_process_free(client);
  close(pipe_fd);
}

/* Somebody has trimmed the stream, or the agent is one of 0.2. The last event may be missing. */
static void expect_missing(struct job *job, const int *seqs, int count, const char *errors) {
  job_do(job, "SET sandbox:%s:heartbeat {}", job->id);
  struct agent_process *client = sandbox_start(job, "exec $S -q run --id " ID " -- true");
  job_wait_length(job, "in", 1);
  add_event(job, 1, "started", "true");
  for (int i = 0; seqs[i] != 0; i++)
    add_event(job, seqs[i], seqs[i] == count ? "completed" : "stdout",
              seqs[i] == count ? "exit=0 timedOut=False" : "a");
  job_do(job, "LPUSH sandbox:%s:results:" ID " %s", job->id,
         job_json(job, "{'stepId':'" ID "','exitCode':0,'eventCount':%d}", count));
  job_do(job, "DEL sandbox:%s:in", job->id);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  assert_string_equal(agent_process_output(client), "a\n");
  assert_string_equal(agent_process_log(client), errors);
  agent_process_free(client);
}

JOB_TEST_NO_AGENT(missing_events_are_an_error) {
  expect_missing(job, (const int[]){1205, 1207, 0}, 1207,
                 "sandbox: 1,204 events are missing: the stream was trimmed before they could be "
                 "read\n");
}

JOB_TEST_NO_AGENT(missing_events_at_the_end_are_an_error) {
  expect_missing(job, (const int[]){2, 0}, 5,
                 "sandbox: 3 events are missing: the stream was trimmed before they could be "
                 "read\n");
}

/* Another program may add entries with more fields than a reply can have. */
JOB_TEST(entries_of_other_programs_are_no_obstacle) {
  const char *gate = job_path(job, "gate");
  struct agent_process *client = sandbox_start(
      job,
      job_format(job, "exec $S run --id " ID " -c 'echo up; until [ -e %s ]; do sleep 0.02; done'",
                 gate));
  sandbox_wait_output(client, "up");
  assert_int_equal(kill(agent_process_pid(client), SIGSTOP), 0);
  for (int i = 0; i < 1000; i++)
    job_do(job, "XADD sandbox:%s:events * a b c d e f g h i j k l m n o p q r", job->id);
  (void)job_write(job, "gate", "", 0644);
  assert_int_equal(kill(agent_process_pid(client), SIGCONT), 0);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 0);
  agent_process_free(client);
  sandbox_expect(job, "$S follow " ID, 0, "up\n", "");
}

/* As text would be: a character that two events share is one, and a carriage return ends a line. */
SMALL_TEST(follow_shows_raw_output_as_text) {
  sandbox_expect(job,
                 "$S run --id " ID
                 " -c 'printf \"a\\r\\nb\\303\"; sleep 0.1; printf \"\\244\\r10%%\\r20%%\"' "
                 ">/dev/null; $S follow " ID "; echo; $S follow " ID " -n 2",
                 0, "a\nb\303\244\n10%\n20%\n10%\n20%", "");
}

/* Results of steps whose client is gone expire in lists of their own. */
SMALL_TEST(no_result_is_left_for_a_server) {
  sandbox_expect(job, "$S run --detach --id " ID " -- true", 0, ID "\n", "");
  job_wait_length(job, "results:" ID, 1);
  sandbox_expect(job, "$S run -- true; $S ls /", 0, NULL, "");
  assert_int_equal(job_length(job, "results"), 0);
  job_wait_length(job, "control", 0);
  job_expect_keys(job, "events", "results:" ID, "committed", "heartbeat", NULL);
}
