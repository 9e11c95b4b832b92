/* More output than fits into memory: all of it arrives in order, and the agent stays small. */

#include "tests/support/job.h"

enum { MIB = 1024, LINES_KIB = 8 * MIB, LONG_LINE_KIB = 12 * MIB };
enum { PIECE_MAX = 1024 * 1024, ANSWER_MS = 120000 };

struct follower_event {
  const char *kind; /* not terminated: see follower_event_is */
  const char *line; /* the content of the JSON string with its escapes, not terminated */
  size_t line_length;
  bool partial;
};

static bool follower_event_is(const struct follower_event *event, const char *kind) {
  size_t length = strlen(kind);
  return strncmp(event->kind, kind, length) == 0 && event->kind[length] == '"';
}

/* Finds the members without a JSON parser, which would take most of the test's time. */
static void cut(struct job *job, const redisReply *data, struct follower_event *event) {
  static const char kind[] = "\"kind\":\"";
  static const char line[] = "\"line\":\"";
  const char *end = data->str + data->len;
  const char *at = memmem(data->str, data->len, kind, sizeof kind - 1);
  const char *text = at == NULL ? NULL : memmem(at, (size_t)(end - at), line, sizeof line - 1);
  if (text == NULL)
    job_fail(job, "not an event: %.300s", data->str);
  event->kind = at + sizeof kind - 1;
  event->line = text + sizeof line - 1;
  const char *behind = event->line;
  while (behind < end && *behind != '"')
    behind += *behind == '\\' ? 2 : 1;
  event->line_length = (size_t)(behind - event->line);
  event->partial = memmem(behind, (size_t)(end - behind), "\"partial\":true", 14) != NULL;
}

static redisReply *reply_or_fail(struct job *job, redisReply *reply) {
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    job_fail(job, "redis: %s", reply == NULL ? job->redis->errstr : reply->str);
  return reply;
}

/* Reads the job's stream while a step fills it, and deletes what it has read, so that Redis stays
   small. The job's other functions must not be used meanwhile. Calls `visit` for each event up to
   the first `completed`, in order. */
static void follower_run(struct job *job,
                         void (*visit)(const struct follower_event *event, void *context),
                         void *context) {
  char last[64] = "0";
  for (bool completed = false; !completed;) {
    redisReply *reply = reply_or_fail(
        job, redisCommand(job->redis, "XREAD COUNT 2000 BLOCK %d STREAMS sandbox:%s:events %s",
                          WAIT_BOUND_MS, job->id, last));
    if (reply->type != REDIS_REPLY_ARRAY)
      job_fail(job, "no event for %d ms", WAIT_BOUND_MS);
    const redisReply *entries = reply->element[0]->element[1];
    for (size_t i = 0; i < entries->elements; i++) {
      struct follower_event event;
      cut(job, entries->element[i]->element[1]->element[1], &event);
      completed = completed || follower_event_is(&event, "completed");
      visit(&event, context);
    }
    snprintf(last, sizeof last, "%s", entries->element[entries->elements - 1]->element[0]->str);
    freeReplyObject(reply);
    freeReplyObject(reply_or_fail(
        job, redisCommand(job->redis, "XTRIM sandbox:%s:events MINID %s", job->id, last)));
  }
}

/* The decimal numbers from 1, each followed by one byte, as `seq` writes them. */
struct numbers {
  char text[24];
  size_t length;
  size_t used; /* how much of this number was compared */
};

static void numbers_first(struct numbers *self, char behind) {
  *self = (struct numbers){.text = {'1', behind}, .length = 2};
}

static void numbers_next(struct numbers *self) {
  char behind = self->text[self->length - 1];
  size_t i = self->length - 1;
  while (i > 0 && self->text[i - 1] == '9')
    self->text[--i] = '0';
  if (i > 0) {
    self->text[i - 1]++;
  } else {
    self->text[0] = '1';
    memset(self->text + 1, '0', self->length - 1);
    self->text[self->length++] = behind;
  }
  self->used = 0;
}

/* Whether the next bytes are these; advances beyond them. */
static bool numbers_continue(struct numbers *self, const char *text, size_t length) {
  while (length > 0) {
    size_t n = self->length - self->used;
    n = n < length ? n : length;
    if (memcmp(self->text + self->used, text, n) != 0)
      return false;
    self->used += n;
    text += n;
    length -= n;
    if (self->used == self->length)
      numbers_next(self);
  }
  return true;
}

struct reader {
  struct job *job;
  struct numbers numbers;
  long long lines;
  long long bytes;
  long long pieces;
};

static void take_line(struct reader *self, const struct follower_event *event) {
  self->lines++;
  if (!numbers_continue(&self->numbers, event->line, event->line_length) ||
      !numbers_continue(&self->numbers, "\n", 1))
    job_fail(self->job, "line %lld is `%.*s`", self->lines, (int)event->line_length, event->line);
}

static void read_piece(const struct follower_event *event, void *context) {
  struct reader *reader = context;
  if (!follower_event_is(event, "stdout"))
    return;
  if (event->line_length > PIECE_MAX)
    job_fail(reader->job, "a piece of %zu bytes", event->line_length);
  if (!numbers_continue(&reader->numbers, event->line, event->line_length))
    job_fail(reader->job, "behind %lld bytes comes `%.50s`", reader->bytes, event->line);
  reader->bytes += (long long)event->line_length;
  reader->pieces += event->partial;
  reader->lines += !event->partial;
}

static void expect_small(struct job *job, long most_kib) {
  pid_t agent = agent_process_pid(job->agent);
  long peak = proc_status_kib(agent, "VmHWM");
  print_message("resident: %ld KiB at most\n", peak);
  if (agent_process_is_shipped() && peak > most_kib)
    job_fail(job, "%ld KiB were resident", peak);
}

static int setup(void **state) {
  job_setup_server(state);
  job_start_agent(*state, "--events-maxlen", "0", NULL);
  return 0;
}

/* The command writes to both pipes at full speed. Neither starves the other, and each keeps its
   order. */
static void read_both(const struct follower_event *event, void *context) {
  struct reader *readers = context;
  if (follower_event_is(event, "stdout"))
    take_line(&readers[0], event);
  else if (follower_event_is(event, "stderr"))
    take_line(&readers[1], event);
}

TEST_WITH(struct job *job, a_million_lines_of_both_streams_arrive_in_order, setup, job_teardown) {
  job_push(job, job_script(job, "seq 500000 & seq 500000 >&2; wait"));
  struct reader readers[2] = {{.job = job}, {.job = job}};
  numbers_first(&readers[0].numbers, '\n');
  numbers_first(&readers[1].numbers, '\n');
  follower_run(job, read_both, readers);
  assert_int_equal(readers[0].lines, 500000);
  assert_int_equal(readers[1].lines, 500000);
  job_result(job);
  expect_small(job, LINES_KIB);
}

TEST_WITH(struct job *job, a_line_of_a_gigabyte_arrives_in_pieces, setup, job_teardown) {
  bool shipped = agent_process_is_shipped();
  /* 1,080 MB, or a tenth of that for a slow program. */
  const char *count = shipped ? "119000000" : "12000000";
  long long bytes = shipped ? 1078888897 : 96888896;
  job_push(job, job_step(job, "seq", "-s", ",", count, NULL));
  struct reader reader = {.job = job};
  numbers_first(&reader.numbers, ',');
  follower_run(job, read_piece, &reader);
  assert_int_equal(reader.lines, 1);
  assert_int_equal(reader.bytes, bytes);
  assert_true(reader.pieces >= bytes / PIECE_MAX && reader.pieces <= bytes / PIECE_MAX * 3);
  const cJSON *result = job_result_within(job, ANSWER_MS);
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
  assert_int_equal(strlen(job_text(result, "outputContent")), PIECE_MAX);
  expect_small(job, LONG_LINE_KIB);
  job_shut_down(job);
}
