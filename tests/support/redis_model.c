#include "tests/support/redis_model.h"
#include "tests/test.h"

static bool begins(const char *command, const char *beginning) {
  return beginning != NULL && strncmp(command, beginning, strlen(beginning)) == 0;
}

/* Replaces *text; the format may hold what it was. */
static const char *set(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *set(char **text, const char *format, ...) {
  char *next;
  va_list arguments;
  va_start(arguments, format);
  assert_true(vasprintf(&next, format, arguments) >= 0);
  va_end(arguments);
  free(*text);
  return *text = next;
}

void redis_model_init(struct redis_model *self) {
  *self = (struct redis_model){0};
  set(&self->done, "%s", "");
  set(&self->queued, "%s", "");
  set(&self->unanswered, "%s", "");
}

void redis_model_release(struct redis_model *self) {
  free(self->done);
  free(self->queued);
  free(self->unanswered);
  free(self->answer);
}

void redis_model_commit(struct redis_model *self, const char *value) {
  snprintf(self->committed, sizeof self->committed, "%s", value != NULL ? value : "");
  self->dirty = true;
}

static const char *refusal(struct redis_model *self) {
  return set(&self->answer, "-%s\r\n", self->refusal);
}

static bool is_for_committed(const char *command) {
  const char *key = strchr(command, ' ');
  return key != NULL && strstr(key, ":committed") != NULL;
}

static void execute(struct redis_model *self, const char *command) {
  const char *value = strstr(command, ":committed ");
  if (begins(command, "SET ") && value != NULL) {
    value += strlen(":committed ");
    snprintf(self->committed, sizeof self->committed, "%.*s", (int)strcspn(value, " "), value);
  } else if (begins(command, "DEL ") && is_for_committed(command)) {
    self->committed[0] = '\0';
  }
  set(&self->done, "%s%s\n", self->done, command);
}

/* The reply to a command that was executed: an id, a status or a number. */
static const char *outcome(const char *command) {
  if (begins(command, "XADD "))
    return "$3\r\n1-1\r\n";
  return begins(command, "SET ") ? "+OK\r\n" : ":1\r\n";
}

static const char *execute_all(struct redis_model *self) {
  if (!self->in_transaction)
    return "-ERR EXEC without MULTI\r\n";
  self->in_transaction = false;
  if (self->aborted)
    return "-EXECABORT Transaction discarded because of previous errors.\r\n";
  if (self->exec_refusal != NULL) {
    set(&self->answer, "-%s\r\n", self->exec_refusal);
    self->exec_refusal = NULL;
    return self->answer;
  }
  if (self->commit_before != NULL)
    redis_model_commit(self, self->commit_before);
  self->commit_before = NULL;
  if (self->dirty) {
    self->dirty = false;
    return "*-1\r\n";
  }
  size_t count = 0;
  char *answers = NULL, *rest = self->queued;
  set(&answers, "%s", "");
  for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0'; count++) {
    bool refused = self->refused_inside && begins(line, self->refused);
    if (!refused)
      execute(self, line);
    set(&answers, "%s%s", answers, refused ? refusal(self) : outcome(line));
  }
  self->executed++;
  set(&self->answer, "*%zu\r\n%s", count, answers);
  free(answers);
  if (self->commit_behind != NULL)
    snprintf(self->committed, sizeof self->committed, "%s", self->commit_behind);
  self->commit_behind = NULL;
  return self->answer;
}

static const char *queue(struct redis_model *self, const char *command) {
  if (begins(command, self->refused) && !self->refused_inside) {
    self->aborted = true;
    return refusal(self);
  }
  set(&self->queued, "%s%s\n", self->queued, command);
  return "+QUEUED\r\n";
}

/* As Redis does it: MULTI that is refused, or that stands inside another one, begins nothing. */
static const char *begin(struct redis_model *self) {
  if (begins("MULTI", self->refused))
    return refusal(self);
  if (self->in_transaction)
    return "-ERR MULTI calls can not be nested\r\n";
  self->in_transaction = true;
  self->aborted = false;
  set(&self->queued, "%s", "");
  return "+OK\r\n";
}

static const char *discard(struct redis_model *self) {
  if (begins("DISCARD", self->refused))
    return refusal(self);
  if (!self->in_transaction)
    return "-ERR DISCARD without MULTI\r\n";
  self->in_transaction = self->dirty = false;
  return "+OK\r\n";
}

static const char *watch(struct redis_model *self, const char *command) {
  if (begins(command, self->refused))
    return refusal(self);
  return self->in_transaction ? "-ERR WATCH inside MULTI is not allowed\r\n" : "+OK\r\n";
}

static const char *read_committed(struct redis_model *self) {
  if (self->committed[0] == '\0')
    return "$-1\r\n";
  return set(&self->answer, "$%zu\r\n%s\r\n", strlen(self->committed), self->committed);
}

static const char *other(struct redis_model *self, const char *command) {
  static const char *const reads[] = {"GET ", "LINDEX "};
  if (begins(command, self->refused))
    return refusal(self);
  if (!begins(command, reads[0]) && !begins(command, reads[1]))
    set(&self->done, "%salone: %s\n", self->done, command);
  const char *answer = self->next_answer;
  self->next_answer = NULL;
  return answer != NULL ? answer : "$-1\r\n";
}

/* Every command of a handshake succeeds, up to the DISCARD of the preflight. */
static const char *login(struct redis_model *self, const char *command) {
  if (begins(command, "CLIENT ")) {
    self->logged_in = self->silent = self->in_transaction = self->dirty = false;
    set(&self->unanswered, "%s", "");
    return "+OK\r\n";
  }
  if (strcmp(command, "DISCARD") == 0)
    self->logged_in = true;
  if (begins(command, self->refused_login))
    return refusal(self);
  return "+OK\r\n";
}

const char *redis_model_answer(void *owner, const char *command) {
  struct redis_model *self = owner;
  if (!self->logged_in || begins(command, "CLIENT "))
    return login(self, command);
  self->probes += begins(command, "GET ") && is_for_committed(command);
  if (begins(command, self->deaf_from))
    self->deaf_from = ""; /* every command begins with that */
  if (begins(command, self->deaf_from))
    return NULL;
  self->silent |= begins(command, self->silent_from);
  const char *answer = NULL;
  if (strcmp(command, "MULTI") == 0)
    answer = begin(self);
  else if (strcmp(command, "EXEC") == 0)
    answer = execute_all(self);
  else if (strcmp(command, "DISCARD") == 0)
    answer = discard(self);
  else if (begins(command, "WATCH "))
    answer = watch(self, command);
  else if (self->in_transaction)
    answer = queue(self, command);
  else if (begins(command, "GET ") && is_for_committed(command))
    answer = read_committed(self);
  else
    answer = other(self, command);
  if (!self->silent)
    return answer;
  set(&self->unanswered, "%s%s", self->unanswered, answer);
  return NULL;
}
