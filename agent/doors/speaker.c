#include "agent/doors/speaker.h"

#include <errno.h>
#include <string.h>

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/payload_limit.h"
#include "base/loop.h"

/* --- what is told ---------------------------------------------------------------------------- */

struct buffer *speaker_out(struct speaker *self) {
  return standard_io_output(self->io);
}

char *speaker_space(struct speaker *self, size_t length) {
  return standard_io_space(self->io, length);
}

void speaker_flush(struct speaker *self) {
  standard_io_flush(self->io);
}

size_t speaker_unread(const struct speaker *self) {
  return standard_io_unwritten(self->io);
}

bool speaker_has_room(const struct speaker *self) {
  return speaker_unread(self) <= SPEAKER_HOLD_BYTES;
}

static void close_when_read(struct speaker *self) {
  if (!self->closing || (!self->broken && speaker_unread(self) > 0))
    return;
  self->closing = false;
  engine_door_closed(self->door, self->lost);
}

static void on_written(void *owner) {
  struct speaker *self = owner;
  self->type->go_on(self->door);
  close_when_read(self);
}

static void on_broken(void *owner, int error) {
  struct speaker *self = owner;
  const char *reason = "a closed standard output";
  self->broken = true;
  self->lost = self->type->gone;
  if (error != EPIPE) {
    log_line(self->log, LOG_ERROR, NULL, "cannot write to standard output: %s", strerror(error));
    reason = "an error of standard output";
    self->lost = AGENT_EXIT_ERROR;
  }
  engine_leave(self->door, self->lost, reason);
  close_when_read(self);
}

/* --- what it says ---------------------------------------------------------------------------- */

static bool takes_more(const struct speaker *self) {
  return !self->stopped && speaker_has_room(self) &&
         (self->type->takes == NULL || self->type->takes(self->door));
}

bool speaker_is_silent(const struct speaker *self) {
  return self->ended && self->all_taken;
}

void speaker_go_on(struct speaker *self) {
  struct input_line line;
  if (self->is_taking)
    return;
  self->is_taking = true;
  self->all_taken = false;
  while (!self->all_taken && takes_more(self)) {
    self->all_taken = self->type->value != NULL || !line_reader_next(&self->lines, &line);
    if (!self->all_taken)
      self->type->line(self->door, &line);
  }
  self->is_taking = false;
  standard_io_read(self->io, self->all_taken && !self->ended && !self->stopped);
  speaker_flush(self);
}

void speaker_stop(struct speaker *self) {
  self->stopped = true;
  standard_io_read(self->io, false);
}

static void end_value(struct speaker *self) {
  struct buffer value = self->value;
  self->value = (struct buffer){0};
  speaker_stop(self);
  self->type->value(self->door, value.length > 0 ? value.bytes : "", value.length);
  buffer_release(&value);
}

static void on_input(void *owner, const char *bytes, size_t length) {
  struct speaker *self = owner;
  if (self->type->value == NULL) {
    line_reader_add(&self->lines, bytes, length);
    self->type->go_on(self->door);
    return;
  }
  buffer_add(&self->value, bytes, length);
  bool is_whole =
      json_text_ends(&self->extent, self->value.bytes, self->value.length, &self->value.length);
  if (is_whole || self->value.length > payload_limit())
    end_value(self);
}

static void on_input_ended(void *owner) {
  struct speaker *self = owner;
  self->ended = true;
  line_reader_end(&self->lines);
  if (self->type->value != NULL) {
    end_value(self);
    return;
  }
  if (self->type->ended != NULL)
    self->type->ended(self->door);
  self->type->go_on(self->door);
}

/* --- the end --------------------------------------------------------------------------------- */

static void close_now(struct speaker *self) {
  size_t unread = speaker_unread(self);
  if (!self->broken && unread > 0) {
    log_line(self->log, LOG_ERROR, NULL, "%zu bytes of output were not read", unread);
    self->lost = self->type->gone;
  }
  self->closing = false;
  engine_door_closed(self->door, self->lost);
}

static void on_end(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct speaker *self = context;
  if (self->closing)
    close_now(self);
}

void speaker_close(struct speaker *self, enum door_close how, int64_t left_ms) {
  if (how == DOOR_CLOSE_NOW) {
    close_now(self);
    return;
  }
  self->closing = true;
  if (how == DOOR_CLOSE_PROMPT)
    left_ms = self->type->prompt_ms > 0 ? self->type->prompt_ms : -1;
  if (left_ms >= 0)
    loop_timer_start(self->end, left_ms);
  speaker_flush(self);
  close_when_read(self);
}

/* --- the speaker itself ---------------------------------------------------------------------- */

void speaker_init(struct speaker *self, struct event_base *base, const struct log *log,
                  struct door *door, const struct speaker_type *type) {
  static const struct standard_io_handler handler = {
      .input = on_input, .input_ended = on_input_ended, .written = on_written, .broken = on_broken};
  *self =
      (struct speaker){.type = type, .door = door, .log = log, .lines = {.limit = payload_limit()}};
  self->io = standard_io_new(base, &handler, self);
  self->end = loop_timer_new(base, on_end, self);
}

void speaker_release(struct speaker *self) {
  standard_io_free(self->io);
  line_reader_release(&self->lines);
  buffer_release(&self->value);
  event_free(self->end);
}
