#include "tests/support/follower.h"

#include "tests/support/wait.h"
#include "tests/test.h"

bool follower_event_is(const struct follower_event *event, const char *kind) {
  size_t length = strlen(kind);
  return strncmp(event->kind, kind, length) == 0 && event->kind[length] == '"';
}

/* Cut by hand: a tree for each of a million events would be most of the test's time. */
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

void follower_run(struct job *job, void (*visit)(const struct follower_event *event, void *context),
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
