/* Every command that waits for capacity continues when there is some. Outputs with lengths around
   each bound go through each frontend, to readers that read quickly, slowly, or with pauses. */

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proxy.h"
#include "tests/support/sidecar.h"
#include "tests/support/stdio_host.h"

/* How long a reader pauses. */
enum { PAUSE_MS = 20 };

/* Outputs around the batch of 50 lines, 256 KiB of events and of result, 1,000,000 bytes of result,
   and a line of 1 MiB. A last line without its newline comes with the end of the command; one that
   follows at once has no batch of its own. */
static const char *const outputs[] = {
    "true",
    "seq 49",
    "seq 50",
    "seq 51",
    "seq 50; printf end",
    "seq 1700",
    "seq 1800; printf end",
    "seq 60000; printf end",
    "seq 49990; sleep 0.02; seq 7",
    "printf %262143s end",
    "printf %262144s end",
    "printf %262145s end; seq 3",
    "printf %1000000s end",
    "yes 0123456789abcdefghi | head -c 999980; echo 0123456789abcdefgh; echo VERDICT",
    "printf %1048575s end; echo",
    "printf %1048576s end",
    "printf %1048577s end; echo; printf end",
    "seq 60000 >&2; printf end",
    "seq 200000; printf end",
};
enum { OUTPUTS = sizeof outputs / sizeof *outputs };

/* --- readers ---------------------------------------------------------------------------------- */

struct reader {
  enum { NOTHING, A_FILE, A_PIPE, A_SOCKET } what; /* NOTHING: /dev/null */
  int capacity;                                    /* of the pipe; 0: the kernel's default */
  size_t piece;                                    /* bytes read at a time */
  bool pauses; /* at first, and each time the amount read has doubled */
};

/* The program under test; the test has the other ends of its input and output. */
struct trial {
  const struct reader *reader;
  struct stdio_host *host; /* the last one */
  int out;                 /* -1: closed */
  char *sent;              /* its input, of `sent_length` bytes; from `given` on not written yet */
  size_t sent_length, given, sent_size;
  char *text; /* the output read so far */
  size_t length, size, next_pause;
};

static int set_up(void **state) {
  struct trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->out = -1;
  *state = self;
  return 0;
}

/* Prepares for another program. */
static void forget(struct trial *self) {
  if (self->out >= 0)
    close(self->out);
  self->out = -1;
  self->sent_length = self->given = self->length = self->next_pause = 0;
}

static int tear_down(void **state) {
  struct trial *self = *state;
  stdio_host_free(self->host);
  forget(self);
  free(self->sent);
  free(self->text);
  free(self);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

/* Returns the program's end. */
static int open_output(struct trial *self) {
  int ends[2];
  switch (self->reader->what) {
  case NOTHING:
    return open("/dev/null", O_WRONLY | O_CLOEXEC);
  case A_FILE:
    self->out = memfd_create("out", MFD_CLOEXEC);
    return fcntl(self->out, F_DUPFD_CLOEXEC, 0);
  case A_PIPE:
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    if (self->reader->capacity > 0)
      assert_true(fcntl(ends[1], F_SETPIPE_SZ, self->reader->capacity) > 0);
    break;
  case A_SOCKET:
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    break;
  }
  self->out = ends[0];
  assert_int_equal(fcntl(self->out, F_SETFL, O_NONBLOCK), 0);
  return ends[1];
}

/* `name` is argv[0]; NULL: the usual one. */
static void start(struct trial *self, const struct reader *reader, const char *name,
                  const char *argument) {
  const char *const arguments[] = {argument, NULL};
  self->reader = reader;
  stdio_host_free(self->host);
  self->host = stdio_host_start(
      &(struct stdio_host_setup){.name = name, .arguments = arguments, .out = open_output(self)});
  assert_int_equal(fcntl(self->host->in, F_SETFL, O_NONBLOCK), 0);
}

static void send_bytes(struct trial *self, const char *bytes, size_t length) {
  if (self->sent_size - self->sent_length < length) {
    self->sent_size = 2 * self->sent_size + length;
    self->sent = realloc(self->sent, self->sent_size);
    assert_non_null(self->sent);
  }
  memcpy(self->sent + self->sent_length, bytes, length);
  self->sent_length += length;
}

static void send_line(struct trial *self, const char *json) {
  send_bytes(self, quoted(json), strlen(json));
  send_bytes(self, "\n", 1);
}

static void fail_with_log(struct trial *self, const char *what) {
  fail_msg("%s: %zu bytes came; log: %s", what, self->length, stdio_host_log(self->host));
}

static void pause_when_due(struct trial *self) {
  const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
  if (!self->reader->pauses || self->length < self->next_pause)
    return;
  self->next_pause = self->next_pause > 0 ? 2 * self->next_pause : 1024;
  nanosleep(&pause, NULL);
}

static void give_more(struct trial *self) {
  ssize_t n = write(self->host->in, self->sent + self->given, self->sent_length - self->given);
  if (n < 0 && errno != EAGAIN)
    fail_with_log(self, "nobody reads the input");
  self->given += n > 0 ? (size_t)n : 0;
}

/* Returns false at the end of the output. */
static bool take_more(struct trial *self) {
  size_t piece = self->reader->piece;
  pause_when_due(self);
  if (self->size - self->length < piece + 1) {
    self->size = 2 * self->size + piece + 1;
    self->text = realloc(self->text, self->size);
    assert_non_null(self->text);
  }
  ssize_t n = self->reader->what == A_FILE
                  ? pread(self->out, self->text + self->length, piece, (off_t)self->length)
                  : read(self->out, self->text + self->length, piece);
  self->length += n > 0 ? (size_t)n : 0;
  self->text[self->length] = '\0';
  return n != 0;
}

/* Writes the input and reads the output until it has this many lines or ends. */
static void exchange_until(struct trial *self, int lines) {
  bool is_read = self->out >= 0 && self->reader->what != A_FILE;
  size_t searched = 0;
  int64_t moved_ms = wait_now_ms();
  for (int found = 0; found < lines || self->given < self->sent_length;) {
    struct pollfd fds[] = {
        {.fd = self->given < self->sent_length ? self->host->in : -1, .events = POLLOUT},
        {.fd = is_read ? self->out : -1, .events = POLLIN}};
    size_t before = self->given + self->length;
    (void)poll(fds, 2, 10);
    if (fds[0].revents != 0)
      give_more(self);
    bool goes_on = self->out < 0 || (is_read && fds[1].revents == 0) || take_more(self);
    for (; searched < self->length; searched++)
      found += self->text[searched] == '\n';
    if (is_read && !goes_on && found < lines)
      fail_with_log(self, "its output has ended");
    if (self->given + self->length > before)
      moved_ms = wait_now_ms();
    else if (wait_now_ms() - moved_ms > WAIT_BOUND_MS)
      fail_with_log(self, "nothing moves any more");
  }
}

/* Reads the output to its end. */
static void expect_exit(struct trial *self, int expected) {
  int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
  bool is_read = self->out >= 0 && self->reader->what != A_FILE;
  stdio_host_close_input(self->host);
  while (is_read && wait_now_ms() < end_ms) {
    struct pollfd out = {.fd = self->out, .events = POLLIN};
    size_t before = self->length;
    if (poll(&out, 1, 10) == 1 && !take_more(self))
      break;
    if (self->length > before)
      end_ms = wait_now_ms() + WAIT_BOUND_MS;
  }
  int code = stdio_host_wait(self->host);
  while (self->reader->what == A_FILE && take_more(self))
    continue;
  if (code != expected)
    fail_with_log(self, formatted("exit code %d", code));
}

/* --- the frontends ---------------------------------------------------------------------------- */

/* Fails unless the events are numbered and the result counts them. */
static void expect_events(const struct trial *self) {
  int number = 0;
  const char *line = self->text, *end;
  for (; (end = strchr(line, '\n')) != NULL && end[1] != '\0'; line = end + 1) {
    const char *seq = memmem(line, (size_t)(end - line), ",\"seq\":", 7);
    assert_non_null(seq);
    assert_int_equal(strtol(seq + 7, NULL, 10), ++number);
  }
  assert_non_null(end);
  cJSON *result = cJSON_Parse(line);
  assert_non_null(result);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  assert_int_equal(cJSON_GetObjectItem(result, "eventCount")->valueint, number);
  cJSON_Delete(result);
}

static void expect_steps(struct trial *self, const struct reader *reader) {
  for (size_t i = 0; i < OUTPUTS; i++) {
    start(self, reader, NULL, "--once");
    send_line(self, formatted("{'stepId':'s','command':'sh','args':['-c','%s']}", outputs[i]));
    exchange_until(self, 0);
    expect_exit(self, 0);
    if (reader->what != NOTHING)
      expect_events(self);
    forget(self);
  }
}

static void expect_runners(struct trial *self, const struct reader *reader) {
  for (size_t i = 0; i < OUTPUTS; i++) {
    start(self, reader, "tool-runner", "execute_command");
    send_line(self, formatted("{'command':'%s'}", outputs[i]));
    exchange_until(self, 0);
    expect_exit(self, 0);
    if (reader->what != NOTHING)
      assert_non_null(strstr(self->text, "\"exitCode\":0"));
    forget(self);
  }
}

/* One answer larger than the agent's bound, because an id is returned unchanged. */
static void send_large_ping(struct trial *self, const char *before, const char *after) {
  static char letters[1 << 20];
  memset(letters, 'x', sizeof letters);
  send_bytes(self, quoted(before), strlen(before));
  for (int i = 0; i < 17; i++)
    send_bytes(self, letters, sizeof letters);
  send_line(self, after);
}

enum { LISTS = 50 };

/* Requests that are answered at once, and then commands. */
static int send_mcp(struct trial *self) {
  send_large_ping(self, "{'jsonrpc':'2.0','method':'ping','id':'", "'}");
  for (int i = 0; i < LISTS; i++)
    send_line(self, "{'jsonrpc':'2.0','id':1,'method':'tools/list'}");
  for (int i = 0; i < OUTPUTS; i++)
    send_line(self, formatted("{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{'name':"
                              "'execute_command','arguments':{'command':'%s'}}}",
                              outputs[i]));
  return 1 + LISTS + OUTPUTS;
}

static int send_stdio(struct trial *self) {
  send_large_ping(self, "{'method':'ping','id':'", "'}");
  for (int i = 0; i < LISTS; i++)
    send_line(self, "{'id':1,'method':'info'}");
  for (int i = 0; i < OUTPUTS; i++)
    send_line(self, formatted("{'id':2,'method':'execute','params':{'command':'%s'}}", outputs[i]));
  return 1 + LISTS + OUTPUTS;
}

/* The input stays open until all requests are answered, because its end would also wake the
   agent. */
static void expect_calls(struct trial *self, const struct reader *reader, const char *flag,
                         int (*send)(struct trial *)) {
  start(self, reader, NULL, flag);
  int lines = send(self);
  exchange_until(self, reader->what != NOTHING ? lines : 0);
  expect_exit(self, 0);
}

enum { MUCH = 1 << 20, LITTLE = 1500, SMALLEST = 4096 };

/* The two tests of a reader: of steps and of calls. */
#define READER_TESTS(NAME, ...)                                                                    \
  TRIAL_TEST(NAME##_gets_each_step) {                                                              \
    const struct reader reader = {__VA_ARGS__};                                                    \
    expect_steps(trial, &reader);                                                                  \
    expect_runners(trial, &reader);                                                                \
  }                                                                                                \
  TRIAL_TEST(NAME##_gets_each_answer) {                                                            \
    const struct reader reader = {__VA_ARGS__};                                                    \
    expect_calls(trial, &reader, "--mcp", send_mcp);                                               \
    forget(trial);                                                                                 \
    expect_calls(trial, &reader, "--stdio", send_stdio);                                           \
  }

READER_TESTS(dev_null, .what = NOTHING)
READER_TESTS(a_file, .what = A_FILE, .piece = MUCH)
READER_TESTS(a_quick_reader, .what = A_PIPE, .piece = MUCH)
READER_TESTS(a_reader_of_a_large_pipe, .what = A_PIPE, .capacity = MUCH, .piece = MUCH)
READER_TESTS(a_slow_reader_of_a_small_pipe, .what = A_PIPE, .capacity = SMALLEST, .piece = LITTLE)
READER_TESTS(a_reader_that_pauses, .what = A_PIPE, .piece = MUCH, .pauses = true)
READER_TESTS(a_reader_that_pauses_at_a_small_pipe, .what = A_PIPE, .capacity = SMALLEST,
             .piece = SMALLEST, .pauses = true)
READER_TESTS(a_reader_that_pauses_at_a_socket, .what = A_SOCKET, .piece = MUCH, .pauses = true)

/* --- request files ---------------------------------------------------------------------------- */

SIDECAR_TEST(request_files_are_always_answered) {
  sidecar_start(sidecar, NULL);
  for (size_t i = 0; i < OUTPUTS; i++)
    sidecar_request(sidecar, formatted("%zu", i), formatted("{'command':'%s'}", outputs[i]));
  for (size_t i = 0; i < OUTPUTS; i++) {
    const cJSON *result = sidecar_result(sidecar, formatted("%zu", i));
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  }
}

/* --- the Redis frontend ----------------------------------------------------------------------- */

/* The stream keeps all events; the result counts them. */
static void expect_answered(struct job *job, const cJSON *step) {
  const cJSON *result = job_result_of(job, step);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  assert_int_equal(job_ask_number(job, "XLEN sandbox:%s:events", job->id), job_event_count(result));
  job_do(job, "XTRIM sandbox:%s:events MAXLEN 0", job->id);
}

static void expect_outputs(struct job *job) {
  for (size_t i = 0; i < OUTPUTS; i++) {
    const cJSON *step = job_script(job, outputs[i]);
    job_push(job, step);
    expect_answered(job, step);
  }
}

JOB_TEST_NO_AGENT(the_smallest_send_queue_blocks_no_step_forever) {
  job_start_agent(job, "--hold-bytes", "65536", "--events-maxlen", "0", NULL);
  expect_outputs(job);
}

JOB_TEST_NO_AGENT(a_slow_redis_blocks_no_step_forever) {
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  proxy_delay(proxy, 5);
  job_use_port(job, proxy_port(proxy));
  job_start_agent(job, "--hold-bytes", "262144", "--events-maxlen", "0", NULL);
  expect_outputs(job);
  proxy_stop(proxy);
}

JOB_TEST_NO_AGENT(a_redis_that_pauses_blocks_no_step_forever) {
  const struct timespec pause = {.tv_nsec = 5 * PAUSE_MS * 1000000L};
  struct proxy *proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(proxy));
  job_start_agent(job, "--hold-bytes", "65536", "--events-maxlen", "0", NULL);
  for (size_t i = 0; i < OUTPUTS; i++) {
    const cJSON *step = marks_step(job, job_format(job, "echo up; gate %zu; %s", i, outputs[i]));
    job_push_until(job, step, "up");
    proxy_freeze(proxy, RELAY_OUTBOX);
    marks_open_gate(job, formatted("%zu", i));
    nanosleep(&pause, NULL);
    proxy_thaw(proxy, RELAY_OUTBOX);
    expect_answered(job, step);
  }
  proxy_stop(proxy);
}

/* A rate limit also reduces the capacity. */
JOB_TEST_NO_AGENT(a_rate_limit_blocks_no_step_forever) {
  job_start_agent(job, "--events-maxlen", "1000", "--events-pace", "100000", NULL);
  for (size_t i = 0; i < OUTPUTS; i++) {
    const cJSON *step = job_script(job, outputs[i]);
    job_push(job, step);
    assert_int_equal(cJSON_GetObjectItem(job_result_of(job, step), "exitCode")->valueint, 0);
  }
}

TEST_OVERLAP(4)
