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

/* An agent without a heartbeat for this time is away, or gone. */
#define AGENT_AWAY_MS 12000
#define AGENT_GONE_MS 60000

/* The heartbeat expires after this time. One that lasts longer is refreshed without a new value,
   because Redis is out of memory. */
#define HEARTBEAT_LIFE_MS 10000

/* The most bytes of a command in a message. */
#define COMMAND_MAX 20

/* The most entries of one reply. If they are too large for it, fewer are read. */
#define COUNT_MAX 1000

/* After a reply with this many entries, or with all that were requested, the next ones are
   requested before these are shown, so that Redis does not wait for the client. */
#define AHEAD_MIN 100

/* How long Redis waits for the first entry, in milliseconds. */
#define BLOCK_MS "1000"

/* --- events ----------------------------------------------------------------------------------- */

static void on_reply(void *owner, const struct reply *reply);

static void start_read(struct step_watch *self) {
  char count[16];
  (void)snprintf(count, sizeof count, "%u", self->count);
  self->is_reading = true;
  pipeline_send(self->reader,
                WORDS("XREAD", "COUNT", count, "BLOCK", BLOCK_MS, "STREAMS",
                      self->program->keys.events, self->last),
                on_reply, self);
}

/* Returns NULL if the reply to XREAD has no entries. */
static const struct reply *find_entries(const struct reply *reply) {
  const struct reply *streams =
      reply->type == REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : NULL;
  const struct reply *entries =
      streams != NULL && streams->type == REPLY_ARRAY && streams->elements == 2
          ? streams->element[1]
          : NULL;
  return entries != NULL && entries->type == REPLY_ARRAY && entries->elements > 0 ? entries : NULL;
}

static void deliver(struct step_watch *self, const struct reply *entries) {
  struct event_view view;
  const char *last = event_entry_id(entries->element[entries->elements - 1]);
  if (last[0] != '\0')
    (void)snprintf(self->last, sizeof self->last, "%s", last);
  if (entries->elements >= AHEAD_MIN || entries->elements == self->count)
    step_watch_read(self);
  for (size_t i = 0; i < entries->elements; i++)
    if (event_read(&view, entries->element[i], &self->space))
      self->handler->event(self->owner, &view);
}

static void on_reply(void *owner, const struct reply *reply) {
  struct step_watch *self = owner;
  const bool is_truncated = reply != NULL && reply->is_truncated;
  const struct reply *entries = NULL;
  const char *failure = NULL;
  self->is_reading = false;
  if (is_truncated && self->count == 1)
    failure = "an event is larger than this program reads";
  else if (is_truncated)
    self->count = self->count / 4 > 0 ? self->count / 4 : 1;
  else if (reply != NULL && reply->type == REPLY_ERROR)
    failure = reply->str;
  else if (reply != NULL)
    entries = find_entries(reply);
  self->wants_events &= failure == NULL;
  if (failure != NULL)
    self->handler->failed(self->owner, failure);
  if (entries != NULL)
    deliver(self, entries);
  if (reply != NULL)
    self->handler->turn(self->owner);
  if (failure == NULL)
    step_watch_read(self);
}

/* Returns the descriptor for which the output of events waits, or -1. */
static int behind(const struct step_watch *self) {
  return self->output == WATCH_OUTPUT_READ ? terminal_behind(&self->program->terminal) : -1;
}

void step_watch_read(struct step_watch *self) {
  self->wants_events = true;
  if (!self->is_reading && behind(self) < 0)
    start_read(self);
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
  *self = (struct step_watch){.program = program,
                              .reader = pipeline_new(program->base, &program->url, "sandbox"),
                              .handler = handler,
                              .owner = owner,
                              .count = COUNT_MAX,
                              .signal_fd = -1};
  self->tick = loop_timer_new(program->base, on_tick, self);
  loop_timer_start(self->tick, TICK_MS);
}

LOOP_CALLBACK(on_signals, struct step_watch *self) {
  struct signalfd_siginfo info;
  if (read(self->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
    return;
  self->signal = (int)info.ssi_signo;
  self->program->terminal.hurries = true;
}

void step_watch_catch_signals(struct step_watch *self) {
  self->signal_fd = signals_catch(&self->mask);
  self->signals =
      loop_event_new(self->program->base, self->signal_fd, EV_READ | EV_PERSIST, on_signals, self);
  pipeline_stop_on(self->program->redis, &self->signal);
}

int step_watch_take_signal(struct step_watch *self) {
  if (self->signal == 0)
    on_signals_of(self);
  const int signal = self->signal;
  self->signal = 0;
  return signal;
}

void step_watch_end(struct step_watch *self) {
  pipeline_free(self->reader);
  buffer_release(&self->space);
  pipeline_stop_on(self->program->redis, NULL);
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
  self->gone[0] = '\0';
  self->checked_ms = self->alive_ms = self->present_ms = clock_monotonic_ms();
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
  self->command = job_describe_taken(self->program, id);
  (void)history_find_started(self->program, self->program->keys.events, id, &self->started,
                             &ignored);
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

/* While the step runs, the lists, which may be long, need not be read. */
bool step_watch_look(struct step_watch *self) {
  struct error ignored;
  size_t before = 0;
  char *running = job_read_running(self->program);
  const bool runs = running != NULL && strcmp(running, self->id) == 0;
  bool is_found = runs;
  if (!runs && job_find_step(self->program, self->id, &before, &is_found, &ignored) != 0)
    is_found = true;
  else if (!runs && is_found && self->step != WATCH_STEP_STARTED)
    show_place(self, before, running);
  free(running);
  return is_found;
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

int step_watch_fail_redis(struct step_watch *self) {
  struct error error;
  pipeline_connection_error(self->reader, &error);
  terminal_error(&self->program->terminal, "redis is gone: %s", error.text);
  return EXIT_CLIENT;
}

/* The time counts from the last new heartbeat, not from the end of its key. */
static void check_agent(struct step_watch *self, int64_t now_ms) {
  struct error ignored;
  struct job_agent agent;
  int result = job_read_agent(self->program, self->program->keys.heartbeat, &agent, &ignored);
  const double time = job_agent_figure(&agent, "Ts");
  if (result != 0 || (agent.is_alive &&
                      (time != self->heartbeat || now_ms - self->alive_ms > HEARTBEAT_LIFE_MS))) {
    self->alive_ms = now_ms;
    self->is_away_reported = false;
  }
  self->heartbeat = time;
  job_agent_release(&agent);
}

/* The stream was deleted or lost if no new entry has arrived and its newest one is older than the
   last one. XREAD would not return its entries until their ids are higher. An older copy of the
   stream looks the same, so some entries may be read twice. */
static void check_stream(struct step_watch *self) {
  struct error ignored;
  char newest[ENTRY_ID_SIZE];
  const bool is_idle = strcmp(self->before, self->last) == 0;
  memcpy(self->before, self->last, sizeof self->before);
  if (!is_idle || history_newest(self->program, newest, &ignored) != 0 ||
      strcmp(newest, "0-0") == 0 || entry_compare(newest, self->before) >= 0)
    return;
  memcpy(self->again, newest, sizeof self->again);
  (void)snprintf(self->last, sizeof self->last, "0-0");
  terminal_say(&self->program->terminal, COLOR_YELLOW,
               "the stream of events begins again: lines may be missing");
}

/* The last event of a step that has left the lists is in the stream. If the newest entry is older
   than the last one that was read, check_stream comes first. */
static bool has_read_all(struct step_watch *self) {
  struct error ignored;
  char newest[ENTRY_ID_SIZE];
  if (self->gone[0] == '\0') {
    if (history_newest(self->program, newest, &ignored) != 0 ||
        (strcmp(newest, "0-0") != 0 && entry_compare(newest, self->last) < 0))
      return false;
    memcpy(self->gone, newest, sizeof self->gone);
  }
  return entry_compare(self->last, self->gone) >= 0;
}

static enum watch_report check(struct step_watch *self) {
  const int64_t now_ms = clock_monotonic_ms();
  if (pipeline_away_ms(self->reader) > PIPELINE_TIMEOUT_MS)
    return WATCH_REDIS_GONE;
  pipeline_report_away(self->program->redis);
  if (pipeline_away_ms(self->program->redis) > 0) {
    self->alive_ms = now_ms; /* the agent cannot reach it either */
    return WATCH_NOTHING;
  }
  if (now_ms >= self->checked_ms + CHECK_MS) {
    self->checked_ms = now_ms;
    check_agent(self, now_ms);
    check_stream(self);
    if (self->id != NULL && !step_watch_look(self))
      return has_read_all(self) ? WATCH_STEP_ABSENT : WATCH_NOTHING;
    self->present_ms = now_ms;
    self->gone[0] = '\0';
  }
  if (now_ms - self->alive_ms >= AGENT_GONE_MS)
    return WATCH_AGENT_GONE;
  if (now_ms - self->alive_ms < AGENT_AWAY_MS || self->is_away_reported)
    return WATCH_NOTHING;
  self->is_away_reported = true;
  return WATCH_AGENT_AWAY;
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
  if (self->signal != 0)
    return WATCH_SIGNAL;
  if (self->output != WATCH_OUTPUT_LOST || self->is_loss_reported)
    return check(self);
  self->is_loss_reported = true;
  return WATCH_OUTPUT_GONE;
}
