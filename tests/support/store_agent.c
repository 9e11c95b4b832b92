#include "tests/support/store_agent.h"

int store_agent_set_up(void **state) {
  struct store_agent *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->base = event_base_new();
  assert_non_null(self->base);
  self->store = redis_store_new(self->base);
  *state = self;
  return 0;
}

int store_agent_tear_down(void **state) {
  struct store_agent *self = *state;
  store_agent_end(self);
  redis_store_free(self->store);
  event_base_free(self->base);
  free(self);
  return 0;
}

void store_agent_start(struct store_agent *self) {
  const char *url = formatted("unix://%s", redis_store_url(self->store).hosts[0].host);
  const char *const arguments[] = {"--redis-url", url, "--job-id", "j", NULL};
  store_agent_end(self);
  self->agent = agent_process_start(&(struct agent_setup){.arguments = arguments});
}

void store_agent_end(struct store_agent *self) {
  agent_process_free(self->agent);
  self->agent = NULL;
}

void store_agent_pass_ms(struct store_agent *self, int milliseconds) {
  const struct timeval time = {.tv_usec = (suseconds_t)milliseconds * 1000};
  event_base_loopexit(self->base, &time);
  event_base_dispatch(self->base);
}

void store_agent_answer(struct store_agent *self, const char *command, const char *bytes,
                        const char *endless) {
  redis_store_inject(self->store, (struct redis_store_fault){.command = command,
                                                             .effect = REDIS_STORE_ANSWERS,
                                                             .text = bytes,
                                                             .endless = endless});
}
