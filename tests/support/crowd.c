#include "tests/support/crowd.h"
#include "tests/test.h"

struct crowd crowd_push(struct job *job, size_t count, size_t padding_length) {
  struct crowd self = {.count = count};
  char *padding = malloc(padding_length + 1);
  assert_true(count <= CROWD_MAX);
  assert_non_null(padding);
  memset(padding, 'x', padding_length);
  padding[padding_length] = '\0';
  for (size_t i = 0; i < count; i++) {
    cJSON *step = job_step(job, "echo", job_format(job, "%zu", i), NULL);
    if (padding_length > 0)
      cJSON_AddStringToObject(step, "padding", padding);
    char *text = cJSON_PrintUnformatted(step);
    redisAppendCommand(job->redis, "LPUSH sandbox:%s:in %s", job->id, text);
    free(text);
    self.steps[i] = step;
  }
  for (size_t i = 0; i < count; i++) {
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
  }
  free(padding);
  return self;
}

void crowd_expect(struct job *job, const struct crowd *self, size_t left_out) {
  for (size_t i = 0; i < self->count; i++)
    if (i != left_out)
      job_expect_answer(job, self->steps[i], 0, NULL, job_format(job, "%zu\n", i));
}
