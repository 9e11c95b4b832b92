#include <cjson/cJSON.h>
#include <limits.h>
#include <poll.h>
#include <regex.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/test.h"

enum { TIME_LENGTH = sizeof "12:00:00.123 " - 1 };

struct trial {
  struct log log;
  int read_fd;
  char text[20000]; /* what was written last */
};

static int setup(void **state) {
  static struct trial trial;
  int ends[2];
  /* A packet per write: one line is one packet. */
  assert_int_equal(pipe2(ends, O_CLOEXEC | O_DIRECT | O_NONBLOCK), 0);
  trial = (struct trial){.log = {.job = "pipe-42", .fd = ends[1]}, .read_fd = ends[0]};
  *state = &trial;
  return 0;
}

static int teardown(void **state) {
  struct trial *trial = *state;
  assert_int_equal(close(trial->log.fd), 0);
  assert_int_equal(close(trial->read_fd), 0);
  return 0;
}

/* Reads the next line; returns false if there is none. */
static bool take(struct trial *trial) {
  ssize_t length = read(trial->read_fd, trial->text, sizeof trial->text - 1);
  if (length > 0)
    trial->text[length] = '\0';
  return length > 0;
}

/* Expects one line, and this text behind its time. */
static void assert_line(struct trial *trial, const char *expected) {
  assert_true(take(trial));
  assert_true(strlen(trial->text) > TIME_LENGTH);
  assert_string_equal(trial->text + TIME_LENGTH, expected);
  assert_false(take(trial));
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, setup, teardown)

TRIAL_TEST(a_line_has_the_documented_form) {
  time_t before = time(NULL);
  log_line(&trial->log, LOG_INFO, "11111111-2222-3333-4444-555555555555", "exit=%d in %dms `%s`", 0,
           12, "git status");
  assert_line(trial, "INFO  job=pipe-42 step=11111111 exit=0 in 12ms `git status`\n");
  regex_t form;
  assert_int_equal(
      regcomp(&form, "^[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} INFO ", REG_EXTENDED | REG_NOSUB), 0);
  assert_int_equal(regexec(&form, trial->text, 0, NULL, 0), 0);
  regfree(&form);
  /* The time is UTC, between `before` and now. */
  bool found = false;
  for (time_t now = before; now <= (time_t)(clock_unix_ms() / 1000); now++) {
    char shown[16];
    struct tm utc;
    assert_non_null(gmtime_r(&now, &utc));
    assert_int_equal(strftime(shown, sizeof shown, "%H:%M:%S", &utc), 8);
    found |= memcmp(trial->text, shown, 8) == 0;
  }
  assert_true(found);
}

TRIAL_TEST(a_plain_line_has_no_prefix_and_no_level) {
  trial->log.least = LOG_ERROR;
  log_plain(&trial->log, "[x] %s", "a\nb\x7F");
  assert_true(take(trial));
  assert_string_equal(trial->text, "[x] a\\x0ab\\u007f\n");
}

TRIAL_TEST(a_message_stays_one_line) {
  static const struct {
    const char *text, *shown;
  } rows[] = {
      {"a\nb\r\tc", "a\\x0ab\\x0d\\x09c"},
      {"\x01\x1b[31mred\x07\x7f", "\\x01\\x1b[31mred\\x07\\u007f"},
      {"100% `'\"\\ ~", "100% `'\"\\ ~"},
      {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
      {"\xC2\x80\xC2\x9B\xC2\x9F\xC2\xA0", "\\u0080\\u009b\\u009f\xC2\xA0"},
      {"\x9b\xff\xE2\x82", "\\x9b\\xff\\xe2\\x82"},
      {"\xC2", "\\xc2"},
      {"\xED\xA0\x80\xC0\x8A", "\\xed\\xa0\\x80\\xc0\\x8a"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char expected[200];
    log_line(&trial->log, LOG_INFO, NULL, "%s", rows[i].text);
    (void)snprintf(expected, sizeof expected, "INFO  job=pipe-42 %s\n", rows[i].shown);
    assert_line(trial, expected);
  }
  /* Also in the IDs; a step's ID is cut after eight bytes. */
  trial->log.job = "a\nb";
  log_line(&trial->log, LOG_INFO, "\n234567\xE2\x82\xAC", "fact");
  assert_line(trial, "INFO  job=a\\x0ab step=\\x0a234567\\xe2 fact\n");
}

/* Characters that JSON allows in a string are escaped as JSON escapes them. */
TRIAL_TEST(json_in_a_message_stays_valid) {
  static const char text[] = "a\x7f \xC2\x80\xC2\x85\xC2\x9F \xC2\xA0 \\ \" \n";
  cJSON *object = cJSON_CreateObject();
  assert_non_null(cJSON_AddStringToObject(object, "outputContent", text));
  char *json = cJSON_PrintUnformatted(object);
  log_line(&trial->log, LOG_ERROR, NULL, "undelivered result: %s", json);
  assert_true(take(trial));
  const char *shown = strchr(trial->text, '{');
  assert_non_null(shown);
  cJSON *read = cJSON_Parse(shown);
  assert_non_null(read);
  assert_string_equal(cJSON_GetObjectItem(read, "outputContent")->valuestring, text);
  cJSON_Delete(read);
  free(json);
  cJSON_Delete(object);
}

/* A full pipe must not delay the agent; the number of dropped lines follows as soon as it is
   read. */
TEST(a_full_pipe_drops_lines_and_counts_them) {
  enum { LINES = 10000 };
  int ends[2];
  unsigned long dropped = 0;
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  struct log log = {.job = "j", .fd = ends[1], .dropped = &dropped};
  for (int i = 0; i < LINES; i++)
    log_line(&log, LOG_INFO, NULL, "line %d, which is of the length that such lines have", i);
  assert_true(dropped > 0 && dropped < LINES);
  char note[64];
  snprintf(note, sizeof note, "... %lu lines of the log were dropped\n", dropped);
  static char text[LINES * 100];
  assert_true(read(ends[0], text, sizeof text) > 0);
  log_line(&log, LOG_INFO, NULL, "room");
  assert_int_equal(dropped, 0);
  ssize_t length = read(ends[0], text, sizeof text - 1);
  assert_true(length > 0);
  text[length] = '\0';
  assert_ptr_equal(strstr(text, note), text);
  assert_non_null(strstr(text, " room\n"));
  close(ends[0]);
  close(ends[1]);
}

/* How much a slow machine may add. */
enum { SLOW_MS = 5000 };

struct reader {
  int ends[2];
  unsigned long dropped;
  struct log log;
};

static void reader_init(struct reader *self) {
  *self = (struct reader){.dropped = 0};
  assert_int_equal(pipe2(self->ends, O_CLOEXEC), 0);
  self->log = (struct log){.job = "j", .fd = self->ends[1], .dropped = &self->dropped};
}

/* Logs lines of this length; the deadline counts from now. */
static void say(struct reader *self, int lines, int length, int64_t patience_ms) {
  char *text = calloc(1, (size_t)length + 1);
  assert_non_null(text);
  memset(text, 'x', (size_t)length);
  self->log.wait_until_ms = patience_ms > 0 ? clock_monotonic_ms() + patience_ms : 0;
  for (int i = 0; i < lines; i++)
    log_line(&self->log, LOG_ERROR, NULL, "%s", text);
  free(text);
}

/* All lines share one deadline. */
TEST(the_last_lines_share_one_deadline) {
  enum { LINES = 30, PATIENCE_MS = 300 };
  struct reader reader;
  reader_init(&reader);
  while (reader.dropped == 0)
    say(&reader, 1, 100, 0);
  reader.dropped = 0;
  int64_t start_ms = clock_monotonic_ms();
  say(&reader, LINES, 20000, PATIENCE_MS);
  int64_t took_ms = clock_monotonic_ms() - start_ms;
  assert_in_range(took_ms, PATIENCE_MS, PATIENCE_MS + SLOW_MS);
  assert_int_equal(reader.dropped, LINES);
  assert_int_equal(close(reader.ends[0]), 0);
  assert_int_equal(close(reader.ends[1]), 0);
}

/* Reads a little with a pause after it, again and again. */
static pid_t start_reading(struct reader *self, int pause_ms) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid > 0) {
    assert_int_equal(close(self->ends[0]), 0);
    return pid;
  }
  (void)close(self->ends[1]);
  static char text[PIPE_BUF];
  size_t total = 0;
  for (ssize_t length; (length = read(self->ends[0], text, sizeof text)) > 0;) {
    total += (size_t)length;
    (void)poll(NULL, 0, pause_ms);
  }
  _exit(total > 1000000 ? 0 : 1);
}

TEST(the_last_lines_wait_for_a_reader) {
  struct reader reader;
  reader_init(&reader);
  pid_t pid = start_reading(&reader, 0);
  say(&reader, 2, 500000, 60000);
  assert_int_equal(reader.dropped, 0);
  assert_int_equal(close(reader.ends[1]), 0);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

/* --- as objects ------------------------------------------------------------------------------- */

/* Expects one line with an object, which is this without its time. */
static void assert_object(struct trial *trial, const char *expected) {
  assert_true(take(trial));
  cJSON *object = cJSON_Parse(trial->text);
  assert_non_null(object);
  assert_int_equal(trial->text[strlen(trial->text) - 1], '\n');
  const char *time = cJSON_GetStringValue(cJSON_GetObjectItem(object, "time"));
  int year, taken = 0;
  assert_int_equal(sscanf(time, "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ%n", &year, &taken), 1);
  assert_int_equal(taken, sizeof "2026-05-05T12:00:00.123Z" - 1);
  assert_ptr_equal(object->child, cJSON_GetObjectItem(object, "time")); /* it is the first line */
  cJSON_DeleteItemFromObject(object, "time");
  char *rest = cJSON_PrintUnformatted(object);
  assert_string_equal(rest, expected);
  free(rest);
  cJSON_Delete(object);
  assert_false(take(trial));
}

TRIAL_TEST(an_object_has_the_whole_id_and_the_trace) {
  trial->log.format = LOG_JSON;
  trial->log.traceparent = "00-1-2-01";
  log_line(&trial->log, LOG_WARN, "11111111-2222-3333", "exit=%d in %dms `%s`", 1, 161, "npm test");
  assert_object(trial, "{\"level\":\"warn\",\"job\":\"pipe-42\",\"step\":\"11111111-2222-3333\","
                       "\"message\":\"exit=1 in 161ms `npm test`\",\"traceparent\":\"00-1-2-01\"}");
}

TRIAL_TEST(an_object_controls_no_terminal_and_stays_one_line) {
  trial->log.format = LOG_JSON;
  log_line(&trial->log, LOG_INFO, NULL, "a\n\x1b[31m \xC2\x9b \x7f \xFF \"\\");
  assert_true(take(trial));
  for (const char *at = trial->text; at[1] != '\0'; at++)
    assert_true((unsigned char)*at >= 0x20 && *at != 0x7f &&
                !(*at == '\xC2' && (unsigned char)at[1] < 0xA0));
  cJSON *object = cJSON_Parse(trial->text);
  assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(object, "message")),
                      "a\n\x1b[31m \xC2\x9b \x7f \xEF\xBF\xBD \"\\");
  cJSON_Delete(object);
}
