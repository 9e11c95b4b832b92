#include "tests/support/old_agent.h"

#include <poll.h>
#include <sys/prctl.h>

#include "tests/test.h"

#define BEAT_MS 1000
#define QUEUE_MAX 64

static const char unknown_kind[] =
    "This sandbox agent speaks wire protocol 1-2 and does not know the step kind it was sent "
    "(schema version 1). Nothing was executed.";

struct old_agent {
  pid_t pid;
  /* in the child process: */
  const char *job;
  redisContext *redis;
  char *queue[QUEUE_MAX]; /* steps that were taken and not answered, the oldest first */
  size_t count;
  int64_t beat_ms; /* of the last heartbeat */
  const char *id;  /* the running step; NULL: none */
  bool is_cancelled, is_over;
  int seq; /* of its last event */
};

/* --- Redis ------------------------------------------------------------------------------------ */

static void do_command(struct old_agent *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = redisvCommand(self->redis, format, arguments);
  va_end(arguments);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    _exit(1);
  freeReplyObject(reply);
}

static void beat(struct old_agent *self) {
  struct timespec now;
  char text[128];
  (void)clock_gettime(CLOCK_REALTIME, &now);
  if (wait_now_ms() < self->beat_ms + BEAT_MS)
    return;
  self->beat_ms = wait_now_ms();
  snprintf(text, sizeof text, "{\"Ts\":%lld,\"Pid\":%d,\"StepInFlight\":%s}",
           (long long)now.tv_sec * 1000, (int)getpid(), self->id != NULL ? "true" : "false");
  do_command(self, "SET sandbox:%s:heartbeat %s EX 10", self->job, text);
}

static void add_event(struct old_agent *self, const char *kind, const char *line) {
  cJSON *event = cJSON_CreateObject();
  cJSON_AddNumberToObject(event, "schemaVersion", 1);
  cJSON_AddStringToObject(event, "stepId", self->id);
  cJSON_AddStringToObject(event, "kind", kind);
  cJSON_AddStringToObject(event, "line", line);
  cJSON_AddStringToObject(event, "timestamp", "2026-05-05T10:00:00.123+00:00");
  cJSON_AddNumberToObject(event, "seq", ++self->seq);
  char *text = cJSON_PrintUnformatted(event);
  do_command(self, "XADD sandbox:%s:events * data %s", self->job, text);
  free(text);
  cJSON_Delete(event);
}

/* Answers the oldest step. */
static void answer(struct old_agent *self, const char *id, int code, const char *message,
                   const char *content) {
  cJSON *result = cJSON_CreateObject();
  cJSON_AddNumberToObject(result, "schemaVersion", 1);
  cJSON_AddStringToObject(result, "stepId", id);
  cJSON_AddNumberToObject(result, "exitCode", code);
  cJSON_AddBoolToObject(result, "timedOut", false);
  cJSON_AddNumberToObject(result, "durationSeconds", 0.1);
  cJSON_AddItemToObject(result, "errorMessage",
                        message != NULL ? cJSON_CreateString(message) : cJSON_CreateNull());
  cJSON_AddItemToObject(result, "outputContent",
                        content != NULL ? cJSON_CreateString(content) : cJSON_CreateNull());
  cJSON_AddNumberToObject(result, "eventCount", self->seq);
  char *text = cJSON_PrintUnformatted(result);
  do_command(self, "MULTI");
  do_command(self, "LPUSH sandbox:%s:results %s", self->job, text);
  do_command(self, "LREM sandbox:%s:inflight -1 %s", self->job, self->queue[0]);
  do_command(self, "DEL sandbox:%s:started", self->job);
  do_command(self, "EXEC");
  free(text);
  cJSON_Delete(result);
}

static void drop_oldest(struct old_agent *self) {
  free(self->queue[0]);
  memmove(self->queue, self->queue + 1, --self->count * sizeof *self->queue);
}

/* --- steps ------------------------------------------------------------------------------------ */

static const char *text_of(const cJSON *step, const char *name, const char *fallback) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(step, name));
  return text != NULL ? text : fallback;
}

/* A cancel takes effect at once; all other steps wait for their turn. */
static void take_step(struct old_agent *self) {
  redisReply *reply = redisCommand(self->redis, "RPOPLPUSH sandbox:%s:in sandbox:%s:inflight",
                                   self->job, self->job);
  if (reply == NULL)
    _exit(1);
  if (reply->type == REDIS_REPLY_STRING) {
    cJSON *step = cJSON_Parse(reply->str);
    if (strcmp(text_of(step, "kind", "run"), "cancel") == 0) {
      self->is_cancelled |= self->id != NULL && strcmp(text_of(step, "stepId", ""), self->id) == 0;
      do_command(self, "LREM sandbox:%s:inflight -1 %s", self->job, reply->str);
    } else if (self->count < QUEUE_MAX) {
      self->queue[self->count++] = strdup(reply->str);
    }
    cJSON_Delete(step);
  }
  freeReplyObject(reply);
}

static pid_t start_command(const cJSON *step, int output[2], int errors[2]) {
  const char *words[32] = {text_of(step, "command", "true")};
  size_t count = 1;
  const cJSON *word;
  cJSON_ArrayForEach(word, cJSON_GetObjectItemCaseSensitive(step, "args")) if (count < 31)
      words[count++] = word->valuestring;
  if (pipe(output) != 0 || pipe(errors) != 0)
    _exit(1);
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)dup2(output[1], STDOUT_FILENO);
  (void)dup2(errors[1], STDERR_FILENO);
  (void)close_range(3, ~0U, 0);
  execvp(words[0], (char **)(uintptr_t)words);
  _exit(127);
}

/* Turns the output into lines; the output of these tests comes in one piece. Returns false at the
   end. */
static bool read_lines(struct old_agent *self, int fd, const char *kind) {
  char text[4096], *rest = text;
  struct pollfd readable = {.fd = fd, .events = POLLIN};
  if (poll(&readable, 1, 0) <= 0)
    return true;
  ssize_t length = read(fd, text, sizeof text - 1);
  text[length > 0 ? length : 0] = '\0';
  for (char *line; length > 0 && (line = strsep(&rest, "\n")) != NULL;)
    if (line[0] != '\0')
      add_event(self, kind, line);
  return length > 0;
}

static void run_command(struct old_agent *self, const cJSON *step) {
  int output[2], errors[2], status = 0;
  char line[64];
  do_command(self, "SET sandbox:%s:started %s", self->job, self->id);
  add_event(self, "started", text_of(step, "command", ""));
  pid_t pid = start_command(step, output, errors);
  (void)close(output[1]);
  (void)close(errors[1]);
  for (bool more[] = {true, true}; more[0] || more[1]; usleep(10000)) {
    beat(self);
    take_step(self);
    if (self->is_cancelled)
      (void)kill(-pid, SIGKILL);
    more[0] = more[0] && read_lines(self, output[0], "stdout");
    more[1] = more[1] && read_lines(self, errors[0], "stderr");
  }
  (void)close(output[0]);
  (void)close(errors[0]);
  (void)waitpid(pid, &status, 0);
  int code = self->is_cancelled ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 137;
  snprintf(line, sizeof line, "exit=%d timedOut=False", code);
  add_event(self, "completed", line);
  answer(self, self->id, code, self->is_cancelled ? "cancelled: by a cancel step" : NULL, NULL);
}

static void do_step(struct old_agent *self, const cJSON *step) {
  static const struct {
    const char *kind, *content;
  } files[] = {{"readFile", OLD_AGENT_FILE},
               {"writeFile", "written"},
               {"listFiles", "[{\"path\":\"/d/a\",\"is_directory\":false,\"size_bytes\":3}]"},
               {"grep", "[{\"path\":\"a\",\"line\":2,\"text\":\"two\"}]"},
               {"directoryTree", "d/\n└── a\n"}};
  const char *kind = text_of(step, "kind", "run");
  self->id = text_of(step, "stepId", "");
  self->is_cancelled = false;
  self->seq = 0;
  size_t i = 0;
  while (i < sizeof files / sizeof *files && strcmp(files[i].kind, kind) != 0)
    i++;
  if (strcmp(kind, "shutdown") == 0) {
    self->is_over = true;
    do_command(self, "DEL sandbox:%s:inflight", self->job);
  } else if (strcmp(kind, "run") == 0) {
    run_command(self, step);
  } else if (i == sizeof files / sizeof *files) {
    answer(self, self->id, -1, unknown_kind, NULL);
  } else {
    add_event(self, "started", text_of(step, "path", ""));
    add_event(self, "completed", "exit=0 timedOut=False");
    answer(self, self->id, 0, NULL, files[i].content);
  }
  self->id = NULL;
}

/* --- start and end ---------------------------------------------------------------------------- */

static void live(struct old_agent *self) {
  while (!self->is_over) {
    beat(self);
    take_step(self);
    if (self->count == 0) {
      usleep(5000);
      continue;
    }
    cJSON *step = cJSON_Parse(self->queue[0]);
    do_step(self, step);
    cJSON_Delete(step);
    drop_oldest(self);
  }
  do_command(self, "DEL sandbox:%s:heartbeat", self->job);
}

struct old_agent *old_agent_start(struct job *job) {
  struct old_agent *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->job = job->id;
  self->redis = job->redis;
  beat(self);
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    self->redis = redis_server_connect(job->server);
    live(self);
    _exit(0);
  }
  return self;
}

void old_agent_free(struct old_agent *self) {
  if (self->pid > 0) {
    (void)kill(self->pid, SIGKILL);
    (void)waitpid(self->pid, NULL, 0);
  }
  free(self);
}

static bool has_ended(void *context) {
  struct old_agent *self = context;
  return waitpid(self->pid, NULL, WNOHANG) == self->pid;
}

void old_agent_expect_end(struct old_agent *self) {
  assert_true(wait_until(has_ended, self, WAIT_BOUND_MS));
  self->pid = 0;
}
