#include "client/steps/step_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/screen/figure.h"
#include "client/signals.h"

/* How often the step and the agent are looked for, and how often a turn ends without an event. */
#define CHECK_MS 2000
#define TICK_MS 500

/* The most bytes of a command in a message. */
#define COMMAND_MAX 20

/* --- events ----------------------------------------------------------------------------------- */

/* Returns the descriptor for which the output of events waits, or -1. */
static int behind(const struct step_watch *self) {
  return self->output == WATCH_OUTPUT_READ ? terminal_behind(&self->program->terminal) : -1;
}

void step_watch_read(struct step_watch *self) {
  self->wants_events = true;
  if (behind(self) < 0)
    self->program->access->events->read(self->source);
}

LOOP_CALLBACK(on_writable, struct step_watch *self) {
  event_free(self->writable);
  self->writable = NULL;
}

/* Meanwhile the step may end, and its last events stay unread. */
static void write_rest(struct step_watch *self) {
  self->handler->turn(self->owner);
  self->present_ms = clock_monotonic_ms();
  if (behind(self) >= 0 && self->writable == NULL)
    self->writable = loop_event_new(self->program->base, behind(self), EV_WRITE, on_writable, self);
}

/* --- begin and end ---------------------------------------------------------------------------- */

LOOP_CALLBACK(on_tick, struct step_watch *self) {
  loop_timer_start(self->tick, TICK_MS);
}

void step_watch_begin(struct step_watch *self, struct program *program,
                      const struct step_watch_handler *handler, void *owner) {
  *self =
      (struct step_watch){.program = program, .handler = handler, .owner = owner, .signal_fd = -1};
  self->source = program->access->events->open(self);
  self->tick = loop_timer_new(program->base, on_tick, self);
  loop_timer_start(self->tick, TICK_MS);
}

LOOP_CALLBACK(on_signals, struct step_watch *self) {
  struct signalfd_siginfo info;
  if (read(self->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
    return;
  self->program->signal = (int)info.ssi_signo;
  self->program->terminal.hurries = true;
}

void step_watch_catch_signals(struct step_watch *self) {
  self->signal_fd = signals_catch(&self->mask);
  self->signals =
      loop_event_new(self->program->base, self->signal_fd, EV_READ | EV_PERSIST, on_signals, self);
}

int step_watch_take_signal(struct step_watch *self) {
  if (self->program->signal == 0)
    on_signals_of(self);
  const int signal = self->program->signal;
  self->program->signal = 0;
  return signal;
}

void step_watch_end(struct step_watch *self) {
  self->program->access->events->close(self->source);
  self->program->signal = 0;
  free(self->running);
  free(self->command);
  event_free(self->tick);
  if (self->writable != NULL)
    event_free(self->writable);
  if (self->signals != NULL) {
    event_free(self->signals);
    (void)close(self->signal_fd);
    (void)sigprocmask(SIG_SETMASK, &self->mask, NULL);
  }
}

/* --- the step --------------------------------------------------------------------------------- */

void step_watch_expect(struct step_watch *self, const char *id) {
  if (self->step == WATCH_STEP_IS_PLACED)
    terminal_status(&self->program->terminal, "");
  self->id = id;
  self->step = WATCH_STEP_WAITS;
  self->is_loss_reported = false;
  self->checked_ms = self->alive_ms = self->present_ms = clock_monotonic_ms();
  self->program->access->events->expect(self->source);
}

void step_watch_set_started(struct step_watch *self) {
  if (self->step == WATCH_STEP_IS_PLACED)
    terminal_status(&self->program->terminal, "");
  self->step = WATCH_STEP_STARTED;
}

void step_watch_check_soon(struct step_watch *self) {
  if (self->step == WATCH_STEP_WAITS)
    self->step = WATCH_STEP_IS_PLACED;
  self->checked_ms -= CHECK_MS;
}

/* Remembers the running step, because its event may be far back in the stream. */
static void remember_running(struct step_watch *self, const char *id) {
  struct error ignored;
  if (self->running != NULL && strcmp(self->running, id) == 0)
    return;
  free(self->running);
  free(self->command);
  self->running = memory_copy(id, strlen(id));
  self->command = self->program->access->describe_running(self->program, id);
  (void)self->program->access->events->find_started(self->program, id, &self->started, &ignored);
}

static void name_running(const struct step_watch *self, size_t before, struct buffer *text) {
  const size_t length = strlen(self->command);
  const int64_t seconds = (clock_unix_ms() - self->started.unix_ms) / 1000;
  buffer_add_format(text, "waiting for step %s", job_shorten(self->running).text);
  if (before > 1)
    buffer_add_format(text, " and %zu more", before - 1);
  buffer_add_string(text, " (");
  buffer_add(text, self->command,
             length > COMMAND_MAX ? utf8_cut(self->command, COMMAND_MAX) : length);
  buffer_add_string(text, length > COMMAND_MAX ? "…, " : length > 0 ? ", " : "");
  if (self->started.timestamp[0] == '\0')
    buffer_add_string(text, "running");
  else if (seconds < 60)
    buffer_add_format(text, "running for %d s", seconds > 0 ? (int)seconds : 0);
  else
    buffer_add_format(text, "running for %s", figure_duration(seconds).text);
  buffer_add_string(text, ")");
}

/* A terminal shows the place of the step all the time, and a log once. */
static void show_place(struct step_watch *self, size_t before, const char *running) {
  struct terminal *terminal = &self->program->terminal;
  struct buffer text = {0};
  if (running != NULL) {
    remember_running(self, running);
    name_running(self, before, &text);
  } else {
    buffer_add_format(&text,
                      before == 0   ? "%s waits for the agent"
                      : before == 1 ? "%s waits for the agent and %zu step"
                                    : "%s waits for the agent and %zu steps",
                      job_shorten(self->id).text, before);
  }
  buffer_add(&text, "", 1);
  if (!terminal->is_tty[1] && self->step == WATCH_STEP_WAITS)
    terminal_say(terminal, COLOR_NONE, "%s", text.bytes);
  terminal_status(terminal, text.bytes);
  self->step = WATCH_STEP_IS_PLACED;
  buffer_release(&text);
}

bool step_watch_look(struct step_watch *self) {
  struct error ignored;
  struct job_place place;
  const int result = self->program->access->find_step(self->program, self->id, &place, &ignored);
  const bool waits = place.running == NULL || strcmp(place.running, self->id) != 0;
  if (result == 0 && waits && place.is_found && self->step != WATCH_STEP_STARTED)
    show_place(self, place.before, place.running);
  free(place.running);
  return result != 0 || place.is_found;
}

bool step_watch_is_due(struct step_watch *self, int64_t now_ms) {
  const bool is_due = now_ms >= self->checked_ms + CHECK_MS;
  if (is_due)
    self->checked_ms = now_ms;
  return is_due;
}

void step_watch_warn_of_agent(struct step_watch *self) {
  terminal_say(&self->program->terminal, COLOR_YELLOW,
               "no heartbeat for 12 s: the agent of %.60s is gone, or cannot reach redis; waiting",
               self->program->job);
}

int step_watch_fail_agent(struct step_watch *self) {
  terminal_error(&self->program->terminal,
                 "no heartbeat for 60 s: %s has no result, and may still run",
                 job_shorten(self->id).text);
  return EXIT_CLIENT;
}

int step_watch_fail_peer(struct step_watch *self) {
  return terminal_fail(&self->program->terminal, &self->error);
}

enum watch_report step_watch_turn(struct step_watch *self) {
  if (behind(self) >= 0)
    write_rest(self);
  if (self->wants_events)
    step_watch_read(self);
  (void)event_base_loop(self->program->base, EVLOOP_ONCE);
  if (self->output == WATCH_OUTPUT_READ &&
      (terminal_reader_is_gone() || self->program->terminal.streams[0].failure != 0))
    self->output = WATCH_OUTPUT_LOST;
  if (self->program->signal != 0)
    return WATCH_SIGNAL;
  if (self->output != WATCH_OUTPUT_LOST || self->is_loss_reported)
    return self->program->access->events->check(self->source);
  self->is_loss_reported = true;
  return WATCH_OUTPUT_GONE;
}
