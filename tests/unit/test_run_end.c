/* Runs beside each other, for a door that keeps the output of commands as it came. */
#include "agent/engine/run_end.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/kinds/kind.h"
#include "base/memory.h"
#include "tests/support/directory.h"
#include "tests/support/gate.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { OUTPUT_BYTES = 100, GRACE_MS = 300, DRAIN_MS = 100 };

struct answer {
  struct run *run; /* until it is answered */
  bool answered;
  struct run_end result; /* its texts are copies */
};

struct crowd_owner {
  struct door door; /* first */
  struct loop loop;
  struct log log;
  struct engine *engine;
  int stdin_fd;
  struct rlimit open_files;
  struct directory directory;
  char variable[40];
  char *environment[3];
  unsigned wanted;
  unsigned running; /* the last that was told */
  bool closed;
  int answers; /* in all */
  struct answer steps[ENGINE_RUNS_MAX];
  int order[ENGINE_RUNS_MAX]; /* in which they were answered */
};

static struct crowd_owner *self_of(struct door *door) {
  return (struct crowd_owner *)door;
}

static void want(struct door *door, unsigned requests) {
  struct crowd_owner *self = self_of(door);
  self->wanted = requests == 0 ? 0 : self->wanted + requests;
}

static void begin(struct door *door, struct run *run) {
  struct answer *answer = run_ticket(run);
  (void)door;
  answer->run = run;
  engine_start(run);
}

static void copy(const char **text, size_t length) {
  *text = memory_copy(*text != NULL ? *text : "", length);
}

static void result(struct door *door, const struct run *run, const struct run_end *end) {
  struct crowd_owner *self = self_of(door);
  struct answer *answer = run_ticket(run);
  answer->result = *end;
  copy(&answer->result.output.bytes, answer->result.output.length);
  copy(&answer->result.errors.bytes, answer->result.errors.length);
  answer->run = NULL;
  answer->answered = true;
  self->order[self->answers++] = (int)(answer - self->steps);
}

static void activity(struct door *door, unsigned running) {
  self_of(door)->running = running;
}

static void close_door(struct door *door, enum door_close how) {
  (void)how;
  self_of(door)->closed = true;
  engine_door_closed(door, 0);
}

static const struct door_type type = {.name = "test",
                                      .want = want,
                                      .begin = begin,
                                      .result = result,
                                      .activity = activity,
                                      .close = close_door};

static void on_reaped(void *owner, pid_t pid, int status) {
  engine_reaped(((struct crowd_owner *)owner)->engine, pid, status);
}

static int set_up(void **state) {
  struct crowd_owner *self = calloc(1, sizeof *self);
  assert_non_null(self);
  loop_init(&self->loop);
  self->loop.reaped = on_reaped;
  self->loop.owner = self;
  self->log = (struct log){.least = LOG_INFO, .fd = memfd_create("log", MFD_CLOEXEC)};
  self->stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  getrlimit(RLIMIT_NOFILE, &self->open_files);
  directory_init(&self->directory);
  snprintf(self->variable, sizeof self->variable, "D=%s", self->directory.path);
  static char path[] = "PATH=/usr/bin:/bin";
  self->environment[0] = self->variable;
  self->environment[1] = path;
  self->door.type = &type;
  self->door.terms = (struct door_terms){.runs = ENGINE_RUNS_MAX,
                                         .grace_ms = GRACE_MS,
                                         .drain_ms = DRAIN_MS,
                                         .leave_grace_ms = GRACE_MS,
                                         .leave_background_ms = 0,
                                         .output_bytes = OUTPUT_BYTES};
  struct engine_options options = {.base = self->loop.base,
                                   .log = &self->log,
                                   .stdin_fd = self->stdin_fd,
                                   .open_files = self->open_files,
                                   .signal_fd = -1,
                                   .line_bytes = 1024,
                                   .kind = {.environment = self->environment, .known = kinds},
                                   .work = kinds_work};
  self->engine = engine_new(&options);
  engine_set_door(self->engine, &self->door);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct crowd_owner *self = *state;
  engine_free(self->engine);
  for (size_t i = 0; i < ENGINE_RUNS_MAX; i++) {
    if (!self->steps[i].answered)
      continue;
    free((char *)self->steps[i].result.output.bytes);
    free((char *)self->steps[i].result.errors.bytes);
  }
  close(self->stdin_fd);
  close(self->log.fd);
  loop_release(&self->loop);
  directory_release(&self->directory);
  free(self);
  return 0;
}

#define RUNS_TEST(NAME) TEST_WITH(struct crowd_owner *owner, NAME, set_up, tear_down)

static void submit(struct crowd_owner *self, int at, const char *json) {
  struct error error;
  struct request request = {.ticket = &self->steps[at]};
  assert_int_equal(step_parse(&request.step, kinds, json, strlen(json), &error), 0);
  engine_submit(&self->door, &request);
}

/* The script has no quote; `more` are further members. */
static void submit_script(struct crowd_owner *self, int at, const char *script, const char *more) {
  char json[2048];
  int length = snprintf(json, sizeof json,
                        "{\"stepId\":\"s%d\",\"command\":\"sh\",\"args\":[\"-c\",\"%s\"]%s}", at,
                        script, more);
  assert_true(length > 0 && (size_t)length < sizeof json);
  submit(self, at, json);
}

static const struct run_end *answer(struct crowd_owner *self, int at) {
  LOOP_UNTIL(&self->loop, self->steps[at].answered);
  return &self->steps[at].result;
}

static void assert_stream(struct run_stream stream, const char *text, bool truncated) {
  assert_int_equal(stream.length, strlen(text));
  assert_memory_equal(stream.bytes, text, stream.length);
  assert_int_equal(stream.truncated, truncated);
}

RUNS_TEST(streams_come_apart_and_as_they_are) {
  submit_script(owner, 0, "printf 'a\\\\r\\\\nb\\\\0c'; printf 'x\\\\n\\\\n' >&2; exit 3", "");
  const struct run_end *result = answer(owner, 0);
  assert_int_equal(result->how, RUN_EXITED);
  assert_int_equal(result->exit_code, 3);
  assert_stream(result->output, "a\r\nbc", false);
  assert_stream(result->errors, "x\n\n", false);
}

RUNS_TEST(a_stream_is_kept_up_to_its_limit) {
  submit_script(owner, 0, "printf '%0100d\\\\n\\\\n' 7; printf '%0101d' 8 >&2", "");
  const struct run_end *result = answer(owner, 0);
  assert_int_equal(result->output.length, OUTPUT_BYTES);
  assert_false(result->output.truncated);
  assert_int_equal(result->errors.length, OUTPUT_BYTES);
  assert_true(result->errors.truncated);
}

RUNS_TEST(a_character_at_the_limit_is_left_out) {
  submit_script(owner, 0, "printf '%099d\u00e9z' 7", "");
  const struct run_end *result = answer(owner, 0);
  assert_int_equal(result->output.length, OUTPUT_BYTES - 1);
  assert_true(result->output.truncated);
}

RUNS_TEST(a_signal_is_128_and_its_number) {
  submit_script(owner, 0, "kill -SEGV $$", "");
  assert_int_equal(answer(owner, 0)->exit_code, 128 + 11);
  assert_int_equal(owner->steps[0].result.how, RUN_SIGNALED);
  assert_int_equal(owner->steps[0].result.signal, 11);
}

RUNS_TEST(a_deadline_is_124_and_keeps_the_output) {
  submit_script(owner, 0, "trap '' TERM; echo up; sleep 4061; sleep 4062", ",\"timeoutSeconds\":1");
  const struct run_end *result = answer(owner, 0);
  assert_int_equal(result->exit_code, RUN_EXIT_TIMED_OUT);
  assert_int_equal(result->how, RUN_TIMED_OUT);
  assert_stream(result->output, "up\n", false);
  assert_true(result->duration_ms >= 1000 + GRACE_MS);
}

RUNS_TEST(a_command_that_exits_with_124_has_not_timed_out) {
  submit_script(owner, 0, "exit 124", "");
  assert_int_equal(answer(owner, 0)->how, RUN_EXITED);
  assert_int_equal(owner->steps[0].result.exit_code, 124);
}

RUNS_TEST(what_cannot_run_says_why) {
  submit(owner, 0, "{\"stepId\":\"a\",\"command\":\"no-such-command\"}");
  submit(owner, 1, "{\"stepId\":\"b\",\"command\":\"/etc/passwd\"}");
  submit(owner, 2, "{\"stepId\":\"c\",\"command\":\"true\",\"workingDirectory\":\"/no/such\"}");
  static const struct {
    enum run_how how;
    int exit_code;
    int code;
    const char *reason;
  } rows[] = {
      {RUN_NOT_FOUND, RUN_EXIT_NOT_FOUND, ENOENT, "no-such-command: command not found on PATH"},
      {RUN_NOT_EXECUTABLE, RUN_EXIT_NOT_EXECUTABLE, EACCES, "cannot run /etc/passwd"},
      {RUN_NO_DIRECTORY, RUN_EXIT_NOT_RUN, ENOENT, "working directory /no/such"}};
  for (int i = 0; i < 3; i++) {
    const struct run_end *result = answer(owner, i);
    assert_int_equal(result->how, rows[i].how);
    assert_int_equal(result->exit_code, rows[i].exit_code);
    assert_memory_equal(result->error.text, rows[i].reason, strlen(rows[i].reason));
    assert_int_equal(result->error.code, rows[i].code);
  }
}

RUNS_TEST(a_file_kind_has_its_content_and_its_warnings) {
  char json[256];
  FILE *file = fopen(directory_path(&owner->directory, "a"), "w");
  assert_non_null(file);
  assert_true(fputs("x\nx\nx\n", file) >= 0 && fclose(file) == 0);
  snprintf(json, sizeof json,
           "{\"stepId\":\"g\",\"kind\":\"grep\",\"path\":\"%s\",\"pattern\":\"x\",\"headLimit\":1}",
           owner->directory.path);
  submit(owner, 0, json);
  const struct run_end *result = answer(owner, 0);
  assert_int_equal(result->exit_code, 0);
  assert_int_equal(result->output.bytes[0], '[');
  assert_stream(result->errors, "grep truncated at 1 matches", false);
  submit(owner, 1, "{\"stepId\":\"r\",\"kind\":\"readFile\",\"path\":\"/no/such\"}");
  result = answer(owner, 1);
  assert_int_equal(result->exit_code, 1);
  assert_stream(result->errors, "file not found: /no/such", false);
}

RUNS_TEST(standard_input_is_the_steps) {
  submit_script(owner, 0, "cat; wc -c </dev/stdin", ",\"stdin\":\"two\\u0000\\nlines\"");
  assert_stream(answer(owner, 0)->output, "two\nlines10\n", false);
  submit_script(owner, 1, "cat; echo end", "");
  assert_stream(answer(owner, 1)->output, "end\n", false);
  submit_script(owner, 2,
                "test -s /dev/stdin || echo empty; echo x >>/proc/self/fd/0 || echo sealed",
                ",\"stdin\":\"\"");
  assert_stream(answer(owner, 2)->output, "empty\nsealed\n", false);
}

RUNS_TEST(sixteen_run_at_once) {
  char name[16];
  for (int i = 0; i < ENGINE_RUNS_MAX; i++) {
    char script[128];
    snprintf(script, sizeof script, "touch $D/%d; " GATE("$D/go") "exit %d", i, i);
    submit_script(owner, i, script, "");
  }
  assert_int_equal(owner->running, ENGINE_RUNS_MAX);
  for (int i = 0; i < ENGINE_RUNS_MAX; i++) {
    snprintf(name, sizeof name, "%d", i);
    LOOP_UNTIL(&owner->loop, directory_has(&owner->directory, name));
  }
  gate_open(directory_path(&owner->directory, "go"));
  for (int i = 0; i < ENGINE_RUNS_MAX; i++)
    assert_int_equal(answer(owner, i)->exit_code, i);
  assert_int_equal(owner->running, 0);
}

RUNS_TEST(the_end_of_one_leaves_the_others_alone) {
  /* Without an environment, and without a session of their own: what says least of itself. */
  submit_script(owner, 0, "trap '' TERM; echo up; exec sleep 3098", ",\"timeoutSeconds\":1");
  submit_script(owner, 1, "env -i setsid sh -c '" GATE("'$D'/go") "exit 7'", "");
  assert_int_equal(answer(owner, 0)->exit_code, RUN_EXIT_TIMED_OUT);
  assert_false(owner->steps[1].answered);
  gate_open(directory_path(&owner->directory, "go"));
  assert_int_equal(answer(owner, 1)->exit_code, 7);
}

/* Each is made while the tree of another one is scanned and killed: before it executes its command
   it says nothing of itself. */
RUNS_TEST(a_command_that_begins_meanwhile_is_not_killed) {
  submit_script(owner, 0, "trap '' TERM; while :; do sleep 0.01; done", ",\"timeoutSeconds\":1");
  int others = 0;
  while (!owner->steps[0].answered) {
    int at = 1 + others % 15;
    if (owner->steps[at].answered) {
      assert_int_equal(owner->steps[at].result.exit_code, 0);
      free((char *)owner->steps[at].result.output.bytes);
      free((char *)owner->steps[at].result.errors.bytes);
      owner->steps[at] = (struct answer){0};
      owner->answers = 0;
    }
    submit(owner, at,
           others % 2 == 0 ? "{\"stepId\":\"o\",\"command\":\"true\"}"
                           : "{\"stepId\":\"o\",\"kind\":\"listFiles\",\"path\":\"/\"}");
    others++;
    LOOP_UNTIL(&owner->loop, owner->steps[at].answered);
  }
  assert_true(others > 10);
}

/* What it has left says nothing of itself, and began while another one ran. */
RUNS_TEST(the_end_of_one_spares_what_another_has_left) {
  submit_script(owner, 0, "echo up; exec sleep 4067", "");
  submit_script(owner, 1, "env -i setsid -f /bin/sleep 4068", "");
  LOOP_UNTIL(&owner->loop, run_output_total(owner->steps[0].run) == 3);
  assert_int_equal(answer(owner, 1)->exit_code, 0);
  LOOP_UNTIL(&owner->loop, proc_find("/bin/sleep 4068") > 0);
  engine_stop(owner->steps[0].run, GRACE_MS, "a test");
  assert_int_equal(answer(owner, 0)->how, RUN_STOPPED);
  assert_true(proc_find("/bin/sleep 4068") > 0);
  engine_leave(&owner->door, AGENT_EXIT_SHUTDOWN, "a test");
  LOOP_UNTIL(&owner->loop, owner->closed);
  assert_int_equal(proc_find("/bin/sleep 4068"), 0);
}

static bool is_logged(const struct crowd_owner *self, const char *text) {
  static char log[1 << 16];
  ssize_t length = pread(self->log.fd, log, sizeof log - 1, 0);
  assert_true(length >= 0);
  log[length] = '\0';
  return strstr(log, text) != NULL;
}

/* Each shell of the first one loses its child to the agent, for as long as it runs. */
RUNS_TEST(the_orphans_of_one_do_not_keep_another_from_ending) {
  submit_script(owner, 0, "echo up; while [ ! -e $D/go ]; do (setsid true &); done", "");
  LOOP_UNTIL(&owner->loop, run_output_total(owner->steps[0].run) == 3);
  submit_script(owner, 1, "exec sleep 4069", ",\"timeoutSeconds\":1");
  assert_int_equal(answer(owner, 1)->exit_code, RUN_EXIT_TIMED_OUT);
  assert_false(is_logged(owner, "survive SIGKILL"));
  assert_false(owner->steps[0].answered);
  directory_touch(&owner->directory, "go");
  assert_int_equal(answer(owner, 0)->exit_code, 0);
}

RUNS_TEST(a_run_is_stopped_by_itself) {
  submit_script(owner, 0, "echo up; exec sleep 4063", "");
  submit_script(owner, 1, GATE("$D/go"), "");
  LOOP_UNTIL(&owner->loop, run_output_total(owner->steps[0].run) == 3);
  engine_stop(owner->steps[0].run, GRACE_MS, "not needed any more");
  const struct run_end *result = answer(owner, 0);
  assert_int_equal(result->how, RUN_STOPPED);
  assert_int_equal(result->exit_code, RUN_EXIT_NOT_RUN);
  assert_string_equal(result->error.text, "not needed any more");
  assert_stream(result->output, "up\n", false);
  assert_false(owner->steps[1].answered);
  gate_open(directory_path(&owner->directory, "go"));
  assert_int_equal(answer(owner, 1)->exit_code, 0);
}

RUNS_TEST(the_last_line_is_of_the_stream_that_wrote_last) {
  char line[8];
  submit_script(
      owner, 0,
      "echo one; printf 'two\\\\r'; " GATE("$D/go") "printf 'three\\\\n\\\\n' >&2; " GATE("$D/end"),
      "");
  struct run *run = owner->steps[0].run;
  LOOP_UNTIL(&owner->loop, run_output_total(run) == 8);
  assert_int_equal(run_last_line(run, line, sizeof line), 3);
  assert_memory_equal(line, "two", 3);
  gate_open(directory_path(&owner->directory, "go"));
  LOOP_UNTIL(&owner->loop, run_output_total(run) == 15);
  assert_int_equal(run_last_line(run, line, 4), 4);
  assert_memory_equal(line, "thre", 4);
  gate_open(directory_path(&owner->directory, "end"));
  assert_int_equal(answer(owner, 0)->exit_code, 0);
}

RUNS_TEST(a_process_in_the_background_holds_a_result_no_longer_than_agreed) {
  int64_t begin_ms = wait_now_ms();
  submit_script(owner, 0, "sleep 4064 & echo up", "");
  assert_int_equal(answer(owner, 0)->exit_code, 0);
  assert_true(wait_now_ms() - begin_ms >= DRAIN_MS);
  assert_true(proc_wait_for("sleep 4064", WAIT_BOUND_MS) > 0); /* it may not have begun yet */
}

RUNS_TEST(leaving_ends_them_all_with_the_reason) {
  submit_script(owner, 0, "exec sleep 4065", "");
  submit_script(owner, 1, "exec sleep 4066", "");
  assert_null(engine_leaving(&owner->door));
  engine_leave(&owner->door, AGENT_EXIT_SHUTDOWN, "a test");
  assert_string_equal(engine_leaving(&owner->door), "a test");
  LOOP_UNTIL(&owner->loop, owner->closed);
  assert_int_equal(owner->answers, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(owner->steps[i].result.how, RUN_STOPPED);
    assert_string_equal(owner->steps[i].result.error.text,
                        "cancelled: the agent was stopped by a test");
  }
}
