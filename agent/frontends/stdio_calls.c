#include "agent/frontends/stdio_calls.h"

#include "agent/exit_code.h"

static struct stdio_calls *self_of(struct frontend *frontend) {
  return (struct stdio_calls *)frontend;
}

struct buffer *stdio_calls_out(struct calls *calls) {
  return stdio_channel_out(&((struct stdio_calls *)calls)->channel);
}

struct buffer *stdio_calls_progress_out(struct calls *calls) {
  struct stdio_channel *channel = &((struct stdio_calls *)calls)->channel;
  return stdio_channel_unread(channel) <= STDIO_CHANNEL_HOLD_PROGRESS_BYTES
             ? stdio_channel_out(channel)
             : NULL;
}

bool stdio_calls_has_capacity(const struct calls *calls) {
  return stdio_channel_has_capacity(&((const struct stdio_calls *)calls)->channel);
}

void stdio_calls_served(struct calls *calls) {
  struct stdio_calls *self = (struct stdio_calls *)calls;
  stdio_channel_go_on(&self->channel);
  if (stdio_channel_has_ended(&self->channel) && calls_are_over(calls))
    engine_leave(&calls->frontend, AGENT_EXIT_SHUTDOWN, "the end of standard input");
}

void stdio_calls_go_on(struct frontend *frontend) {
  struct calls *calls = &self_of(frontend)->calls;
  calls_serve(calls);
  stdio_calls_served(calls);
}

void stdio_calls_want(struct frontend *frontend, unsigned requests) {
  if (requests == 0)
    stdio_channel_stop(&self_of(frontend)->channel);
  calls_frontend_want(frontend, requests);
}

void stdio_calls_flush(struct frontend *frontend) {
  stdio_channel_flush(&self_of(frontend)->channel);
}

void stdio_calls_close(struct frontend *frontend, enum frontend_close how) {
  stdio_channel_close(&self_of(frontend)->channel, how, -1);
}

void stdio_calls_dump(const struct frontend *frontend) {
  const struct stdio_calls *self = (const struct stdio_calls *)frontend;
  log_line(self->channel.log, LOG_WARN, NULL,
           "state: frontend %s: %u calls run, %zu wait, of %zu bytes; %zu bytes not read",
           frontend->type->name, self->calls.running, calls_waiting(&self->calls),
           calls_bytes(&self->calls), stdio_channel_unread(&self->channel));
}

void stdio_calls_init(struct stdio_calls *self, struct event_base *base, const struct log *log,
                      const struct calls_type *type, const struct stdio_channel_type *channel) {
  calls_init(&self->calls, base, type);
  stdio_channel_init(&self->channel, base, log, &self->calls.frontend, channel);
}

void stdio_calls_release(struct stdio_calls *self) {
  calls_release(&self->calls);
  stdio_channel_release(&self->channel);
}
