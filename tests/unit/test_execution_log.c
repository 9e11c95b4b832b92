#include <fcntl.h>
#include <unistd.h>

#include "agent/engine/execution_result.h"
#include "agent/kinds/kind.h"
#include "tests/support/quoted.h"
#include "tests/test.h"

enum { TIME_LENGTH = sizeof "12:00:00.123 " - 1 };

struct trial {
  struct log log;
  int read_fd;
};

static int set_up(void **state) {
  static struct trial trial;
  int ends[2];
  /* A packet per write: one line is one packet. */
  assert_int_equal(pipe2(ends, O_CLOEXEC | O_DIRECT | O_NONBLOCK), 0);
  trial = (struct trial){.log = {.job = "j", .fd = ends[1]}, .read_fd = ends[0]};
  *state = &trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  char byte;
  assert_int_equal(read(trial->read_fd, &byte, 1), -1); /* every line was asked for */
  assert_int_equal(close(trial->log.fd), 0);
  assert_int_equal(close(trial->read_fd), 0);
  return 0;
}

static void expect(struct trial *trial, const char *line) {
  char text[2000];
  ssize_t length = read(trial->read_fd, text, sizeof text - 1);
  assert_true(length > TIME_LENGTH);
  text[length] = '\0';
  assert_string_equal(text + TIME_LENGTH, line);
}

/* `git status`, in 12 ms, with nothing left behind. */
static struct execution_result ended(int exit_code, const char *message) {
  return (struct execution_result){
      .exit_code = exit_code,
      .duration_ms = 12,
      .errors = {.bytes = message, .length = message == NULL ? 0 : strlen(message)}};
}

static void done(const struct trial *trial, struct execution_result end) {
  char id[] = "11111111-2222-3333-4444-555555555555";
  char command[] = "git";
  char argument[] = "status";
  char *args[] = {argument, NULL};
  struct run_fields fields = {.args = args};
  const struct step step = {.step_id = id,
                            .kind = &run_kind.wire,
                            .target = command,
                            .timeout_seconds = 7,
                            .fields = &fields};
  execution_result_log(&end, &trial->log, &step, false);
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

TRIAL_TEST(success_is_information) {
  done(trial, ended(0, NULL));
  expect(trial, "INFO  job=j step=11111111 exit=0 in 12ms `git status`\n");
}

TRIAL_TEST(a_commands_own_last_words_are_not_repeated) {
  done(trial, ended(3, "fatal: not a git repository"));
  expect(trial, "WARN  job=j step=11111111 exit=3 in 12ms `git status`\n");
}

TRIAL_TEST(the_agents_own_word_is_told) {
  struct execution_result told = ended(124, "its output");
  told.how = EXECUTION_TIMED_OUT;
  done(trial, told);
  expect(trial, "WARN  job=j step=11111111 exit=-1 in 12ms `git status`: timed out after 7s\n");
}

/* A frontend that logs for itself what a command may hold. */
TRIAL_TEST(a_quiet_one_is_for_debugging) {
  char id[] = "11111111-2222-3333-4444-555555555555", path[] = "src/a.c";
  const struct step step = {.step_id = id, .kind = &read_file_kind.wire, .target = path};
  struct execution_result told = ended(1, "file not found: src/a.c");
  told.holder = (struct pipe_holder){.pid = 42, .name = "sleep"};
  execution_result_log(&told, &trial->log, &step, true);
  expect(trial, "DEBUG job=j step=11111111 exit=1 in 12ms `readFile src/a.c`: "
                "file not found: src/a.c\n");
  expect(trial, "DEBUG job=j step=11111111 pid 42 (sleep) still holds its output in the "
                "background; what it prints from now on is dropped\n");
}

TRIAL_TEST(a_file_kind_has_its_kind_path_and_reason) {
  char id[] = "11111111-2222-3333-4444-555555555555";
  char path[] = "src/a.c";
  const struct step step = {.step_id = id, .kind = &read_file_kind.wire, .target = path};
  struct execution_result told = ended(1, "file not found: src/a.c");
  execution_result_log(&told, &trial->log, &step, false);
  expect(trial, "WARN  job=j step=11111111 exit=1 in 12ms `readFile src/a.c`: "
                "file not found: src/a.c\n");
  told = ended(0, NULL);
  execution_result_log(&told, &trial->log, &step, false);
  expect(trial, "INFO  job=j step=11111111 exit=0 in 12ms `readFile src/a.c`\n");
}

TRIAL_TEST(what_a_step_leaves_behind_has_lines_of_its_own) {
  struct execution_result left = ended(0, NULL);
  left.holder = (struct pipe_holder){.pid = 42, .name = "sleep"};
  left.unkillable = 2;
  done(trial, left);
  expect(trial, "INFO  job=j step=11111111 exit=0 in 12ms `git status`\n");
  expect(trial,
         "WARN  job=j step=11111111 pid 42 (sleep) still holds its output in the background; "
         "what it prints from now on is dropped\n");
  expect(trial, "WARN  job=j step=11111111 2 processes survive SIGKILL\n");
}

static void refused(const struct trial *trial, const char *payload) {
  struct error error;
  (void)error_set(&error, "kind: expected one of run, shutdown, cancel");
  execution_result_log_refused(&trial->log, "s", &error, payload, strlen(payload));
}

#define REFUSED                                                                                    \
  "WARN  job=j step=s refused: kind: expected one of run, shutdown, cancel; payload of "

TRIAL_TEST(of_a_payload_the_fields_are_named) {
  refused(trial,
          "{ \"kind\" : \"walk\", \"command\":\"git\", \"env\":{\"A\":[1,2]}, \"args\":[] }");
  expect(trial,
         REFUSED "66 bytes: kind (7 bytes), command (5 bytes), env (11 bytes), args (3 bytes)\n");
  refused(trial, "{}");
  expect(trial, REFUSED "2 bytes\n");
  refused(trial, "");
  expect(trial, REFUSED "0 bytes\n");
}

/* There a value may stand in the place of a name. */
TRIAL_TEST(what_is_no_object_is_not_named) {
  static const char *const rows[] = {"[\"secret\"]", "{\"a\" \"secret\":1}", "{\"secret",
                                     "{\"a\":1}}", "env=TOKEN=secret"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    refused(trial, rows[i]);
    expect(trial, formatted(REFUSED "%zu bytes\n", strlen(rows[i])));
  }
}

TRIAL_TEST(names_are_cut_and_are_not_too_many) {
  char name[100] = "";
  memset(name, 'x', 41);
  refused(trial, formatted("{\"%s\":1}", name));
  name[40] = '\0';
  expect(trial, formatted(REFUSED "47 bytes: %s (1 bytes)\n", name));
  char payload[400] = "{\"0\":0", *at = payload + strlen(payload);
  for (int i = 1; i < 20; i++)
    at += sprintf(at, ",\"%d\":0", i);
  strcpy(at, "}");
  refused(trial, payload);
  char line[1000];
  ssize_t length = read(trial->read_fd, line, sizeof line - 1);
  assert_true(length > 0);
  line[length] = '\0';
  assert_non_null(strstr(line, ", 15 (1 bytes)\n"));
}
