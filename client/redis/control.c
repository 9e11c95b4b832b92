#include "client/redis/control.h"

#include <string.h>

#include "base/buffer.h"
#include "client/redis/job.h"

/* How long `control` lives without an agent (wire/PROTOCOL.md). */
#define CONTROL_SECONDS "86400"

static int push(struct program *program, const char *key, const char *head, const char *id,
                const char *tail, struct error *error) {
  struct buffer json = {0};
  int64_t length = 0;
  buffer_add_string(&json, head);
  buffer_add_json(&json, id, strlen(id));
  buffer_add(&json, tail, strlen(tail) + 1);
  int result = pipeline_call(program->redis, WORDS("LPUSH", key, json.bytes), reply_to_number,
                             &length, error);
  buffer_release(&json);
  return result;
}

int control_begin(struct control *self, struct program *program, struct error *error) {
  struct job_agent agent;
  if (job_read_agent(program, program->keys.heartbeat, &agent, error) != 0)
    return -1;
  *self = (struct control){.program = program,
                           .is_alive = agent.is_alive,
                           .is_in_band = agent.is_alive && !job_agent_can(&agent, "control")};
  job_agent_release(&agent);
  return 0;
}

int control_cancel(struct control *self, const char *id, struct error *error) {
  struct program *program = self->program;
  const struct keys *keys = &program->keys;
  int64_t is_set = 0;
  if (self->is_in_band)
    return push(program, keys->in, "{\"schemaVersion\":1,\"stepId\":", id, ",\"kind\":\"cancel\"}",
                error);
  int result = push(program, keys->control, "{\"kind\":\"cancel\",\"stepId\":", id, "}", error);
  if (result == 0 && !self->is_alive)
    result = pipeline_call(program->redis, WORDS("EXPIRE", keys->control, CONTROL_SECONDS),
                           reply_to_number, &is_set, error);
  return result;
}

int control_shutdown(struct program *program, const char *id, struct error *error) {
  return push(program, program->keys.in, "{\"schemaVersion\":1,\"stepId\":", id,
              ",\"kind\":\"shutdown\"}", error);
}
