/*
 * Everything that may wait is done from the loop in wait_for_end, between two turns: the events go
 * on meanwhile.
 */
#include "client/steps/exchange.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/error_reply.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "client/exit_code.h"
#include "wire/json.h"

/* How often it is looked whether all is well. */
#define LOOK_MS 2000

/* After that an agent without a heartbeat is gone, and a step that is nowhere is lost. */
#define AGENT_GONE_MS 60000
#define LOST_MS 10000

/* An agent ends what is cancelled within 10 s. */
#define CANCEL_MS 12000

/* --- events ----------------------------------------------------------------------------------- */

static void on_event(void *owner, const char *entry, const char *json, size_t length,
                     const struct event_view *view) {
  struct exchange *self = owner;
  (void)entry;
  if (self->id == NULL || self->is_over || view->step_id_length != strlen(self->id) ||
      memcmp(view->step_id, self->id, view->step_id_length) != 0 || view->seq <= self->seq)
    return;
  const uint64_t missed = view->seq - self->seq - 1;
  self->seq = view->seq;
  self->is_started = true;
  if (self->has_place)
    terminal_status(&self->program->terminal, "");
  self->has_place = false;
  if (self->handler->event != NULL && self->discarded_ms == 0)
    self->handler->event(self->owner, json, length, view, missed);
  if (view->kind == STEP_EVENT_COMPLETED)
    self->is_over = event_read_completed(view, &self->exit_code, &self->timed_out);
}

static void on_turn(void *owner) {
  struct exchange *self = owner;
  if (self->handler->turn != NULL && !self->handler->turn(self->owner))
    self->is_unread = true;
  if (self->is_over)
    event_stream_pause(&self->stream);
}

static void on_failed(void *owner, const char *why) {
  struct exchange *self = owner;
  self->failed = strdup(why);
  self->is_over = true;
  event_stream_pause(&self->stream);
}

static const struct event_stream_handler event_stream_handler = {
    .event = on_event, .turn = on_turn, .failed = on_failed};

/* Makes the program's server one that can be asked. */
static void choose_connection(struct exchange *self) {
  struct program *program = self->program;
  bool is_reading = self->has_stream && self->stream.is_asking;
  if (is_reading && self->spare == NULL)
    self->spare = pipeline_new(program->base, &program->url, "sandbox");
  if (self->spare != NULL)
    pipeline_stop_on(self->spare, &self->signal);
  program->redis = is_reading ? self->spare : self->reader;
}

/* --- signals ---------------------------------------------------------------------------------- */

static void read_signal(struct exchange *self) {
  struct signalfd_siginfo info;
  if (read(self->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
    self->signal = (int)info.ssi_signo;
}

LOOP_CALLBACK(on_signals, struct exchange *self) {
  read_signal(self);
}

LOOP_CALLBACK(on_tick, struct exchange *self) {
  loop_timer_start(self->tick, LOOK_MS / 4);
}

static void watch_signals(struct exchange *self) {
  static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  sigset_t set;
  (void)sigemptyset(&set);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    (void)sigaddset(&set, numbers[i]);
  (void)sigprocmask(SIG_BLOCK, &set, NULL);
  self->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  self->signals =
      loop_event_new(self->program->base, self->signal_fd, EV_READ | EV_PERSIST, on_signals, self);
  self->tick = loop_timer_new(self->program->base, on_tick, self);
  loop_timer_start(self->tick, LOOK_MS / 4);
}

/* Returns 0; 1 where another signal came before Redis has answered; -1 when it could not be
   said. */
static int cancel(struct exchange *self) {
  struct buffer json = {0};
  struct error error;
  step_text_begin(&json, self->id, "cancel");
  step_text_end(&json);
  int64_t length = 0;
  choose_connection(self);
  int result =
      pipeline_call(self->program->redis, WORDS("LPUSH", self->program->keys.in, json.bytes),
                    reply_to_number, &length, &error);
  buffer_release(&json);
  self->was_cancelled = true;
  self->is_ordered = result == 0;
  self->looked_ms -= LOOK_MS; /* a step that waited has a result soon, and no events */
  if (result != 0 && self->signal != 0)
    return 1;
  if (result != 0)
    terminal_error(&self->program->terminal, "cannot cancel %s: %s", self->name.text, error.text);
  return result;
}

/* The agent may hear of it or not. */
static void say_unanswered(struct exchange *self) {
  terminal_say(&self->program->terminal, COLOR_YELLOW,
               "%s may go on, since redis does not answer: sandbox cancel %s", self->name.text,
               self->name.text);
}

/* The code to leave with; -1: it goes on. */
static int obey_interrupt(struct exchange *self) {
  struct terminal *terminal = &self->program->terminal;
  const unsigned interrupts = ++self->interrupts;
  if (self->is_tidying && interrupts < 3) {
    terminal_say(terminal, COLOR_YELLOW, "tidying up");
    return -1;
  }
  if (interrupts == 1)
    terminal_say(terminal, COLOR_YELLOW, "cancelling %s%s", self->name.text,
                 self->tidies ? "" : "  (^\\ leaves it running)");
  else if (self->is_ordered || self->is_tidying)
    terminal_say(terminal, COLOR_YELLOW, "%s is being ended: its agent kills it within 10 s",
                 self->name.text);
  else if (interrupts == 2)
    terminal_say(terminal, COLOR_YELLOW, "redis does not answer  (again: leave)");
  else
    say_unanswered(self);
  if (interrupts >= 3)
    return 128 + self->first_signal;
  return self->is_ordered || cancel(self) >= 0 ? -1 : EXIT_CLIENT;
}

static int obey_signal(struct exchange *self) {
  int signal = self->signal;
  self->signal = 0;
  if (self->first_signal == 0)
    self->first_signal = signal;
  if (signal == SIGINT || signal == SIGQUIT)
    terminal_see_key(&self->program->terminal);
  if (signal == SIGINT || self->tidies)
    return obey_interrupt(self);
  if (signal == SIGQUIT)
    terminal_say(&self->program->terminal, COLOR_NONE, "%s goes on: sandbox follow %s",
                 self->name.text, self->name.text);
  else if (!self->is_ordered && cancel(self) > 0)
    say_unanswered(self);
  return 128 + signal;
}

bool exchange_is_interrupted(struct exchange *self) {
  if (self->signal == 0)
    read_signal(self);
  if (self->signal != 0) {
    self->first_signal = self->first_signal != 0 ? self->first_signal : self->signal;
    self->signal = 0;
    self->interrupts++;
  }
  return self->first_signal != 0;
}

bool exchange_wait_for(struct exchange *self, int fd, short events) {
  struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = self->signal_fd, .events = POLLIN}};
  while (!exchange_is_interrupted(self)) {
    if (poll(fds, 2, -1) > 0 && fds[0].revents != 0)
      return true;
  }
  return false;
}

/* --- whether all is well ---------------------------------------------------------------------- */

static void show_place(struct exchange *self, size_t before) {
  char text[80];
  if (before == 0)
    return;
  (void)snprintf(text, sizeof text, "%s waits for %zu step%s", self->name.text, before,
                 before == 1 ? "" : "s");
  terminal_status(&self->program->terminal, text);
  self->has_place = true;
}

/* Of one that runs the lists, which may be long, need not be read. */
static bool is_running(struct exchange *self) {
  char *running = NULL;
  struct error error;
  bool found = self->is_started &&
               pipeline_call(self->program->redis, WORDS("GET", self->program->keys.started),
                             reply_to_text, &running, &error) == 0 &&
               running != NULL && strcmp(running, self->id) == 0;
  free(running);
  return found;
}

/* Whether the step waits or runs. */
static bool is_somewhere(struct exchange *self) {
  struct error error;
  size_t before;
  bool is_found;
  if (job_find_step(self->program, self->id, &self->place, &before, &is_found, &error) != 0)
    return true;
  if (is_found && !self->is_started)
    show_place(self, before);
  return is_found;
}

/* A step that was refused, or cancelled before it ran, has a result and no events. */
static bool has_no_events(const char *result) {
  struct json_member member;
  return json_member_find(result, strlen(result), "eventCount", &member) && member.length == 1 &&
         member.text[0] == '0';
}

/* What is wrong with the step, as an exit code; -1: nothing. */
static int look_for_step(struct exchange *self, int64_t now_ms) {
  struct program *program = self->program;
  struct error error;
  if (is_running(self) || is_somewhere(self))
    self->present_ms = now_ms;
  else if (self->result == NULL && !self->is_over)
    (void)job_take_result(program, self->id, &self->result, &error);
  if (self->is_over || now_ms == self->present_ms)
    return -1;
  bool is_late = now_ms - self->present_ms > LOST_MS;
  bool is_known = is_late && self->was_cancelled; /* somebody else took what says so */
  if (is_known || (self->result != NULL && (is_late || has_no_events(self->result)))) {
    self->is_over = true;
  } else if (is_late) {
    terminal_error(&program->terminal, "%s is neither waiting nor running, and has no result",
                   self->name.text);
    return EXIT_CLIENT;
  }
  return -1;
}

/* What is wrong, as an exit code; -1: nothing. */
static int look(struct exchange *self) {
  struct program *program = self->program;
  struct error error;
  bool is_alive;
  int64_t now_ms = clock_monotonic_ms();
  if (pipeline_away_ms(self->reader) > PIPELINE_TIMEOUT_MS) {
    pipeline_connection_error(self->reader, &error);
    terminal_error(&program->terminal, "redis is gone: %s", error.text);
    return EXIT_CLIENT;
  }
  if (now_ms < self->looked_ms + LOOK_MS)
    return -1;
  choose_connection(self);
  if (pipeline_away_ms(program->redis) > 0)
    return -1;
  self->looked_ms = now_ms;
  if (job_is_alive(program, &is_alive, &error) == 0 && is_alive)
    self->beat_ms = now_ms;
  if (now_ms - self->beat_ms > AGENT_GONE_MS) {
    terminal_error(&program->terminal, "the agent is gone: %s is not answered", self->name.text);
    return EXIT_CLIENT;
  }
  return look_for_step(self, now_ms);
}

/* --- a step ----------------------------------------------------------------------------------- */

/* A reader that is gone is seen also while nothing is printed. */
static void look_for_reader(struct exchange *self) {
  if (self->handler->turn != NULL && terminal_reader_is_gone())
    self->is_unread = true;
}

/* Its end is waited for, so that its result does not stay. */
static int give_up_unread(struct exchange *self) {
  if (self->discarded_ms == 0) {
    self->discarded_ms = clock_monotonic_ms();
    (void)cancel(self);
  }
  return clock_monotonic_ms() > self->discarded_ms + CANCEL_MS ? 128 + SIGPIPE : -1;
}

static int wait_for_end(struct exchange *self) {
  int code = -1;
  self->beat_ms = self->present_ms = self->looked_ms = clock_monotonic_ms();
  while (code < 0 && !self->is_over) {
    (void)event_base_loop(self->program->base, EVLOOP_ONCE);
    look_for_reader(self);
    if (self->signal != 0)
      code = obey_signal(self);
    else if (self->is_unread && !self->is_over)
      code = give_up_unread(self);
    else if (!self->is_over)
      code = look(self);
  }
  if (self->has_place)
    terminal_status(&self->program->terminal, "");
  if (code >= 0 || self->failed == NULL)
    return code;
  terminal_error(&self->program->terminal, "cannot read the events: %s", self->failed);
  return EXIT_CLIENT;
}

/* Whatever a step needs behind its push is asked for before it, in a way that changes nothing: a
   step whose events cannot be read, or whose result cannot be taken, is not pushed. */
static void take_right(void *owner, const redisReply *reply) {
  struct exchange *self = owner;
  if (reply != NULL && reply->type == REDIS_REPLY_ERROR && self->refusal == NULL)
    self->refusal = memory_copy(reply->str, reply->len);
}

static void ask_for_rights(struct exchange *self) {
  struct pipeline *redis = self->program->redis;
  const struct keys *keys = &self->program->keys;
  pipeline_send(redis, WORDS("XREAD", "COUNT", "1", "STREAMS", keys->events, "$"), take_right,
                self);
  pipeline_send(redis, WORDS("LRANGE", keys->results, "1", "0"), take_right, self);
  pipeline_send(redis, WORDS("LREM", keys->results, "1", ""), take_right, self);
}

/* The events are read from the last one before the first step on. */
static void take_last(void *owner, const redisReply *reply) {
  struct exchange *self = owner;
  self->has_last = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
  if (self->has_last && reply->elements == 1 && reply->element[0]->type == REDIS_REPLY_ARRAY &&
      reply->element[0]->elements > 0)
    (void)snprintf(self->last, sizeof self->last, "%s", reply_text(reply->element[0]->element[0]));
}

#define LAST_EVENT(keys) WORDS("XREVRANGE", (keys)->events, "+", "-", "COUNT", "1")

/* It was asked for at the beginning, ahead of time, and behind the rights. */
static int await_last(struct exchange *self, struct error *error) {
  struct program *program = self->program;
  const bool was_lost = !self->has_last && !self->has_stream;
  if (was_lost)
    ask_for_rights(self);
  if (was_lost &&
      pipeline_call(program->redis, LAST_EVENT(&program->keys), take_last, self, error) != 0)
    return -1;
  return self->refusal == NULL ? 0
                               : error_set(error, "%s: sandbox doctor names what is missing",
                                           error_reply_explain(self->refusal, &program->url).text);
}

static void read_events(struct exchange *self) {
  if (!self->has_stream)
    event_stream_begin(&self->stream, self->reader, self->program->keys.events, self->last,
                       &event_stream_handler, self);
  else if (self->stream.is_paused)
    event_stream_resume(&self->stream);
  self->has_stream = true;
}

static void begin_step(struct exchange *self, const char *id) {
  self->id = id;
  self->name = job_shorten(id);
  self->is_started = self->is_over = self->was_cancelled = self->is_unread = false;
  self->has_place = self->is_ordered = false;
  self->place = (struct job_place){0};
  self->discarded_ms = 0;
  self->exit_code = -1;
  self->timed_out = false;
  self->seq = 0;
  free(self->result);
  self->result = NULL;
}

/* A step leaves the lists with its result: what is in none and has no result was taken by somebody
   else. */
static void take_result(struct exchange *self) {
  struct error error;
  bool is_there = true;
  const int64_t end_ms = clock_monotonic_ms() + LOST_MS;
  while (self->result == NULL &&
         job_take_result(self->program, self->id, &self->result, &error) == 0 &&
         self->result == NULL && is_there && self->signal == 0 && clock_monotonic_ms() < end_ms) {
    pipeline_turn(self->program->redis);
    is_there = is_running(self) || is_somewhere(self);
  }
}

int exchange_step(struct exchange *self, const char *id, const char *json,
                  struct exchange_answer *answer) {
  struct error error;
  *answer = (struct exchange_answer){.exit_code = -1};
  if (exchange_is_interrupted(self) && !self->is_tidying)
    return 128 + self->first_signal;
  begin_step(self, id);
  choose_connection(self);
  if (await_last(self, &error) != 0 || job_push(self->program, id, json, &error) != 0) {
    self->id = NULL;
    terminal_error(&self->program->terminal, "%s", error.text);
    return exchange_is_interrupted(self) ? 128 + self->first_signal : EXIT_CLIENT;
  }
  read_events(self);
  int code = wait_for_end(self);
  choose_connection(self);
  if (code < 0) {
    take_result(self);
    *answer = (struct exchange_answer){.result = self->result,
                                       .exit_code = self->exit_code,
                                       .timed_out = self->timed_out,
                                       .was_cancelled = self->was_cancelled,
                                       .is_unread = self->is_unread};
    self->result = NULL;
  }
  self->id = NULL;
  return code;
}

void exchange_begin(struct exchange *self, struct program *program,
                    const struct exchange_handler *handler, void *owner) {
  *self = (struct exchange){.program = program,
                            .handler = handler,
                            .owner = owner,
                            .signal_fd = -1,
                            .reader = program->redis,
                            .last = "0-0"};
  ask_for_rights(self);
  pipeline_send(program->redis, LAST_EVENT(&program->keys), take_last, self);
  watch_signals(self);
  pipeline_stop_on(program->redis, &self->signal);
}

void exchange_end(struct exchange *self) {
  if (self->has_stream)
    event_stream_end(&self->stream);
  else if (!self->has_last)
    pipeline_discard(self->reader);
  self->program->redis = self->reader;
  pipeline_flush(self->reader);
  pipeline_stop_on(self->reader, NULL);
  pipeline_free(self->spare);
  event_free(self->signals);
  event_free(self->tick);
  (void)close(self->signal_fd);
  free(self->result);
  free(self->refusal);
  free((void *)(uintptr_t)self->failed);
}
