#include "agent/frontends/redis/delivery/flow_control.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static void remove_flow(struct flow_control *self, size_t i) {
  free(self->flows[i].step_id);
  memmove(&self->flows[i], &self->flows[i + 1], (--self->count - i) * sizeof *self->flows);
}

/* Returns the flow of the running step, or NULL. */
static struct flow *running(struct flow_control *self) {
  return self->runs ? &self->flows[self->count - 1] : NULL;
}

void flow_control_release(struct flow_control *self) {
  while (self->count > 0)
    remove_flow(self, self->count - 1);
  self->runs = false;
}

/* The older one is then protected for as long as the newer one. */
static void join_oldest(struct flow_control *self) {
  struct flow *flows = self->flows;
  flows[1].first = flows[0].first;
  flows[1].read = flows[0].read;
  free(flows[1].step_id);
  flows[1].step_id = NULL;
  remove_flow(self, 0);
}

static struct flow *add_flow(struct flow_control *self, int64_t now_ms) {
  if (self->count > FLOW_CONTROL_STEPS)
    join_oldest(self);
  struct flow *flow = &self->flows[self->count++];
  const struct retention *retention = self->retention;
  *flow = (struct flow){.first = retention->events,
                        .read = retention->events,
                        .end = retention->events,
                        .end_bytes = retention->bytes,
                        .sign_ms = now_ms};
  return flow;
}

void flow_control_begin(struct flow_control *self, const char *step_id, int64_t now_ms) {
  struct flow *flow = add_flow(self, now_ms);
  flow->step_id = memory_copy(step_id, strlen(step_id));
  self->runs = true;
  self->read_bytes = self->retention->bytes;
}

void flow_control_protect_earlier(struct flow_control *self, int64_t now_ms) {
  (void)add_flow(self, now_ms);
}

static bool is_read(const struct flow *self) {
  return self->step_id != NULL && self->read >= self->end;
}

void flow_control_end(struct flow_control *self, int64_t now_ms) {
  struct flow *flow = running(self);
  if (flow == NULL)
    return;
  self->runs = false;
  flow->end = self->retention->events;
  flow->end_bytes = self->retention->bytes;
  flow->sign_ms = now_ms;
  if (is_read(flow) || flow->is_gone)
    remove_flow(self, self->count - 1);
}

void flow_control_drain(struct flow_control *self, bool is_over) {
  if (running(self) != NULL)
    running(self)->command = is_over ? FLOW_IS_OVER : FLOW_IS_KILLED;
}

static bool is_about(const struct flow *self, const char *step_id) {
  return self->step_id != NULL && strcmp(self->step_id, step_id) == 0;
}

void flow_control_read(struct flow_control *self, const char *step_id, uint64_t seq,
                       int64_t now_ms) {
  size_t i = self->count;
  while (i > 0 && !is_about(&self->flows[i - 1], step_id))
    i--;
  if (i == 0) {
    for (; i < self->count; i++)
      if (self->flows[i].step_id == NULL)
        self->flows[i].sign_ms = now_ms;
    return;
  }
  struct flow *flow = &self->flows[i - 1];
  bool is_running = flow == running(self);
  uint64_t most = (is_running ? self->retention->events : flow->end) - flow->first;
  uint64_t read = flow->first + (seq < most ? seq : most);
  flow->sign_ms = now_ms;
  flow->is_awaited = flow->is_gone = false;
  if (read > flow->read)
    flow->read = read;
  if (is_running)
    self->read_bytes = retention_bytes_before(self->retention, flow->read);
  else if (is_read(flow))
    remove_flow(self, i - 1);
}

/* Whether the reader was awaited during all this time and has sent nothing. */
static bool is_silent(const struct flow *self, int64_t began_ms) {
  return began_ms - self->sign_ms >= FLOW_CONTROL_GONE_MS;
}

void flow_control_checked(struct flow_control *self, int64_t began_ms, bool is_first,
                          int64_t now_ms) {
  for (size_t i = self->count; i-- > 0;) {
    struct flow *flow = &self->flows[i];
    bool is_running = flow == running(self);
    bool is_awaited = !is_running || flow_control_is_paused(self);
    if (is_first || (is_running && (!is_awaited || !flow->is_awaited)))
      flow->sign_ms = now_ms;
    flow->is_awaited = is_awaited;
    if (!is_silent(flow, began_ms))
      continue;
    if (is_running)
      flow->is_gone = true;
    else
      remove_flow(self, i);
  }
}

void flow_control_added(struct flow_control *self) {
  const struct retention *retention = self->retention;
  for (size_t i = self->count - self->runs; i-- > 0;)
    if (retention->events - self->flows[i].end >= retention->maxlen ||
        retention->bytes - self->flows[i].end_bytes >= retention_bytes_kept(retention))
      remove_flow(self, i);
}

bool flow_control_is_paused(const struct flow_control *self) {
  const struct retention *retention = self->retention;
  if (!self->runs)
    return false;
  const struct flow *flow = &self->flows[self->count - 1];
  const uint64_t times = flow->command == FLOW_IS_KILLED ? 2 : 1;
  return !flow->is_gone && flow->command != FLOW_IS_OVER &&
         (retention->events - flow->read > times * retention->maxlen ||
          retention->bytes - self->read_bytes > times * retention_bytes_kept(retention));
}

uint64_t flow_control_protected_from(const struct flow_control *self) {
  uint64_t from = RETENTION_UNPROTECTED;
  for (size_t i = 0; i < self->count; i++)
    if (!self->flows[i].is_gone && self->flows[i].read < from)
      from = self->flows[i].read;
  return from;
}
