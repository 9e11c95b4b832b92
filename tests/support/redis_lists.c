#include "tests/support/redis_lists.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *copy(const char *text) {
  char *new = text != NULL ? strdup(text) : NULL;
  assert_true(text == NULL || new != NULL);
  return new;
}

static void insert(struct text_list *self, size_t at, const char *text) {
  self->texts = realloc(self->texts, (self->count + 1) * sizeof *self->texts);
  assert_non_null(self->texts);
  memmove(&self->texts[at + 1], &self->texts[at], (self->count++ - at) * sizeof *self->texts);
  self->texts[at] = copy(text);
}

static char *take_out(struct text_list *self, size_t at) {
  char *text = self->texts[at];
  memmove(&self->texts[at], &self->texts[at + 1], (--self->count - at) * sizeof *self->texts);
  return text;
}

static void clear(struct text_list *self) {
  while (self->count > 0)
    free(self->texts[--self->count]);
  free(self->texts);
  *self = (struct text_list){0};
}

static struct text_list copy_list(const struct text_list *list) {
  struct text_list new = {0};
  for (size_t i = 0; i < list->count; i++)
    insert(&new, i, list->texts[i]);
  return new;
}

static const char *set_answer(struct redis_lists *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *set_answer(struct redis_lists *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  free(self->answer);
  assert_true(vasprintf(&self->answer, format, arguments) >= 0);
  va_end(arguments);
  return self->answer;
}

static const char *bulk(struct redis_lists *self, const char *text) {
  if (text == NULL)
    return "$-1\r\n";
  return set_answer(self, "$%zu\r\n%s\r\n", strlen(text), text);
}

/* The rest of the command, when it begins with this. */
static const char *rest(const char *command, const char *beginning) {
  size_t length = strlen(beginning);
  return strncmp(command, beginning, length) == 0 ? command + length : NULL;
}

static void set(char **text, const char *value, size_t length) {
  free(*text);
  *text = value != NULL ? strndup(value, length) : NULL;
}

static void remove_last(struct text_list *self, const char *text) {
  for (size_t i = self->count; i-- > 0;) {
    if (strcmp(self->texts[i], text) == 0) {
      free(take_out(self, i));
      return;
    }
  }
}

static void remove_first(struct text_list *self, const char *text) {
  for (size_t i = 0; i < self->count; i++) {
    if (strcmp(self->texts[i], text) == 0) {
      free(take_out(self, i));
      return;
    }
  }
}

#define KEY "sandbox:j:"

static void execute(struct redis_lists *self, const char *command) {
  struct redis_lists_data *data = &self->data;
  const char *text;
  if ((text = rest(command, "LREM " KEY "inflight -1 ")) != NULL)
    remove_last(&data->inflight, text);
  else if ((text = rest(command, "LREM " KEY "inflight 1 ")) != NULL)
    remove_first(&data->inflight, text);
  else if ((text = rest(command, "RPUSH " KEY "inflight ")) != NULL)
    insert(&data->inflight, data->inflight.count, text);
  else if ((text = rest(command, "LPUSH " KEY "results ")) != NULL)
    insert(&data->results, 0, text);
  else if ((text = rest(command, "SET " KEY "committed ")) != NULL)
    set(&data->committed, text, strcspn(text, " "));
  else if ((text = rest(command, "SET " KEY "started ")) != NULL)
    set(&data->started, text, strcspn(text, " "));
  else if (rest(command, "DEL " KEY "started") != NULL)
    set(&data->started, NULL, 0);
  else
    assert_non_null(strpbrk(command, "EXP")); /* XADD, EXPIRE, PERSIST */
}

static const char *execute_all(struct redis_lists *self) {
  size_t count = self->queued.count;
  char *answers = calloc(count + 1, 4), *out = answers;
  for (size_t i = 0; i < count; i++) {
    execute(self, self->queued.texts[i]);
    out = stpcpy(out, ":1\r\n");
  }
  clear(&self->queued);
  self->in_transaction = false;
  set_answer(self, "*%zu\r\n%.*s", count, (int)(out - answers), answers);
  free(answers);
  return self->answer;
}

static const char *read_list(struct redis_lists *self, const char *index) {
  const struct text_list *list = &self->data.inflight;
  size_t from_tail = (size_t)strtoul(index + 1, NULL, 10);
  return bulk(self, from_tail <= list->count ? list->texts[list->count - from_tail] : NULL);
}

static const char *answer_out(void *owner, const char *command) {
  struct redis_lists *self = owner;
  const char *text;
  if (rest(command, "CLIENT ") != NULL) {
    self->logged_in = self->in_transaction = false;
    clear(&self->queued);
    return "+OK\r\n";
  }
  if (!self->logged_in) {
    self->logged_in = strcmp(command, "DISCARD") == 0;
    return "+OK\r\n";
  }
  if (strcmp(command, "EXEC") == 0)
    return execute_all(self);
  if (self->in_transaction) {
    insert(&self->queued, self->queued.count, command);
    return "+QUEUED\r\n";
  }
  self->in_transaction = strcmp(command, "MULTI") == 0;
  if (strcmp(command, "GET " KEY "committed") == 0)
    return bulk(self, self->data.committed);
  if (strcmp(command, "GET " KEY "started") == 0)
    return bulk(self, self->data.started);
  if ((text = rest(command, "LINDEX " KEY "inflight ")) != NULL)
    return read_list(self, text);
  return rest(command, "XREVRANGE ") != NULL ? "*0\r\n" : "+OK\r\n";
}

/* Moves one, when there is one; NULL: there is none. */
static const char *move(struct redis_lists *self) {
  struct redis_lists_data *data = &self->data;
  if (data->in.count == 0)
    return NULL;
  char *text = take_out(&data->in, data->in.count - 1);
  insert(&data->inflight, 0, text);
  const char *answer = bulk(self, text);
  free(text);
  return answer;
}

static const char *answer_in(void *owner, const char *command) {
  struct redis_lists *self = owner;
  if (rest(command, "BLMOVE ") == NULL)
    return "+OK\r\n";
  const char *answer = move(self);
  self->waits = answer == NULL;
  return answer;
}

void redis_lists_init(struct redis_lists *self, struct event_base *base) {
  *self =
      (struct redis_lists){.out = fake_redis_new(base, false), .in = fake_redis_new(base, false)};
  fake_redis_answer_with(self->out, answer_out, self);
  fake_redis_answer_with(self->in, answer_in, self);
}

void redis_lists_data_release(struct redis_lists_data *self) {
  clear(&self->in);
  clear(&self->inflight);
  clear(&self->results);
  set(&self->committed, NULL, 0);
  set(&self->started, NULL, 0);
}

void redis_lists_release(struct redis_lists *self) {
  fake_redis_free(self->out);
  fake_redis_free(self->in);
  redis_lists_data_release(&self->data);
  clear(&self->queued);
  free(self->answer);
}

void redis_lists_push(struct redis_lists *self, const char *payload) {
  insert(&self->data.in, 0, payload);
  if (self->strays > 0) {
    self->strays--;
    (void)move(self);
  } else if (self->waits && fake_redis_is_connected(self->in)) {
    self->waits = false;
    fake_redis_send(self->in, move(self));
  }
}

void redis_lists_lose_consumer(struct redis_lists *self, bool stray) {
  self->strays += stray && self->waits;
  self->waits = false;
  fake_redis_close_connection(self->in);
}

void redis_lists_lose_outbox(struct redis_lists *self) {
  fake_redis_close_connection(self->out);
}

struct redis_lists_data redis_lists_snapshot(const struct redis_lists *self) {
  return (struct redis_lists_data){.in = copy_list(&self->data.in),
                                   .inflight = copy_list(&self->data.inflight),
                                   .results = copy_list(&self->data.results),
                                   .committed = copy(self->data.committed),
                                   .started = copy(self->data.started)};
}

void redis_lists_restore(struct redis_lists *self, const struct redis_lists_data *snapshot) {
  redis_lists_data_release(&self->data);
  if (snapshot != NULL)
    self->data = redis_lists_snapshot(&(struct redis_lists){.data = *snapshot});
  self->strays = 0;
  redis_lists_lose_consumer(self, false);
  redis_lists_lose_outbox(self);
}
