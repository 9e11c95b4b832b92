/* The loop runs in wait_for_end. Callbacks only record and show events; whatever needs an answer of
   the peer is done between two turns, by the table `actions`, while more events arrive. */
#include "client/steps/exchange.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/exit_code.h"
#include "wire/json.h"

/* Events are acknowledged when there are this many, when they have this many bytes, or after this
   time. If the output is blocked, the last acknowledgement is repeated as a sign of life
   (wire/PROTOCOL.md, Flow control). */
#define READ_EVENTS 1000
#define READ_BYTES ((size_t)1024 * 1024)
#define READ_MS 250
#define SIGN_MS 2000

/* A step that is in no list for this time, and has no result, is lost. */
#define LOST_MS 10000

/* An agent ends a cancelled step within 10 s. */
#define CANCEL_MS 12000

/* What an action returns if the wait continues. */
#define GO_ON (-1)

/* --- events ----------------------------------------------------------------------------------- */

static bool has_step(const struct exchange *self) {
  return self->state == EXCHANGE_WAITS || self->state == EXCHANGE_RUNS ||
         self->state == EXCHANGE_DISCARDS;
}

static void on_event(void *owner, const struct event_view *view) {
  struct exchange *self = owner;
  if (!has_step(self) || !event_is_of(view, self->watch.id) || view->seq <= self->seq)
    return;
  const uint64_t missed = view->seq - self->seq - 1;
  self->seq = view->seq;
  self->missed += missed;
  self->unacknowledged_bytes += view->length;
  step_watch_set_started(&self->watch);
  if (self->state == EXCHANGE_DISCARDS)
    self->has_discarded |= view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR;
  else if (self->handler->event != NULL)
    self->handler->event(self->owner, view, missed);
  if (self->state == EXCHANGE_WAITS)
    self->state = EXCHANGE_RUNS;
  if (event_read_completed(view, &self->completion))
    self->state = EXCHANGE_ENDED;
}

static void on_turn(void *owner) {
  struct exchange *self = owner;
  if (self->handler->turn != NULL && !self->handler->turn(self->owner))
    self->watch.output = WATCH_OUTPUT_LOST;
}

static void on_failed(void *owner, const char *why) {
  struct exchange *self = owner;
  if (!has_step(self))
    return;
  self->failure = memory_copy(why, strlen(why));
  self->state = EXCHANGE_FAILED;
}

static const struct step_watch_handler watch_handler = {
    .event = on_event, .turn = on_turn, .failed = on_failed, .pushes = true};

/* --- cancel ----------------------------------------------------------------------------------- */

static int cancel(struct exchange *self) {
  struct job_agent agent;
  struct error error;
  const struct job_access *access = self->program->access;
  int result = access->read_agent(self->program, &agent, &error);
  if (result == 0)
    result = access->cancel(self->program, &agent, self->watch.id, &error);
  job_agent_release(&agent);
  self->cancel = result == 0 ? CANCEL_SENT : CANCEL_UNSENT;
  step_watch_check_soon(&self->watch); /* a step that waited has a result soon, but no events */
  if (result == 0 || self->program->signal != 0)
    return GO_ON;
  terminal_error(&self->program->terminal, "cannot cancel %s: %s", self->name.text, error.text);
  return EXIT_CLIENT;
}

static void say_unsent(struct exchange *self) {
  terminal_say(&self->program->terminal, COLOR_YELLOW,
               "%s does not answer, so %s may still run: sandbox cancel %s",
               self->program->access->peer, self->name.text, self->name.text);
}

static int obey_interrupt(struct exchange *self) {
  struct terminal *terminal = &self->program->terminal;
  const unsigned interrupts = ++self->interrupts;
  const bool is_cleaning = self->policy == EXCHANGE_IS_CLEANING;
  if (is_cleaning && interrupts < 3) {
    terminal_say(terminal, COLOR_YELLOW, "cleaning up");
    return GO_ON;
  }
  if (interrupts == 1)
    terminal_say(terminal, COLOR_YELLOW, "cancelling %s%s", self->name.text,
                 self->policy == EXCHANGE_LEAVES ? "  (^\\ leaves it running)" : "");
  else if (self->cancel == CANCEL_SENT || is_cleaning)
    terminal_say(terminal, COLOR_YELLOW, "%s is being cancelled: its agent kills it within 10 s",
                 self->name.text);
  else if (interrupts == 2)
    terminal_say(terminal, COLOR_YELLOW, "%s does not answer  (^C again leaves)",
                 self->program->access->peer);
  else
    say_unsent(self);
  if (interrupts >= 3)
    return 128 + self->first_signal;
  return self->cancel == CANCEL_SENT ? GO_ON : cancel(self);
}

/* --- actions ---------------------------------------------------------------------------------- */

static int obey_signal(struct exchange *self) {
  const int signal = step_watch_take_signal(&self->watch);
  if (self->first_signal == 0)
    self->first_signal = signal;
  if (signal == SIGINT || signal == SIGQUIT)
    terminal_skip_key(&self->program->terminal);
  if (signal != SIGQUIT || self->policy != EXCHANGE_LEAVES)
    return obey_interrupt(self);
  terminal_say(&self->program->terminal, COLOR_NONE, "%s keeps running: sandbox follow %s",
               self->name.text, self->name.text);
  return 128 + signal;
}

/* A step that runs has a result within CANCEL_MS, and one that waits at once. */
static int discard_output(struct exchange *self) {
  self->state = EXCHANGE_DISCARDS;
  self->discarded_ms = clock_monotonic_ms();
  if (self->cancel != CANCEL_SENT)
    (void)cancel(self);
  step_watch_read(&self->watch);
  return GO_ON;
}

static int limit_discard(struct exchange *self) {
  const int signal = self->first_signal != 0 ? self->first_signal : SIGPIPE;
  return clock_monotonic_ms() > self->discarded_ms + CANCEL_MS ? 128 + signal : GO_ON;
}

/* The step is not in the lists, and no more events follow: its result is there, or it is lost. */
static int conclude(struct exchange *self) {
  struct error error;
  const bool is_late = clock_monotonic_ms() - self->watch.present_ms > LOST_MS;
  if (self->result == NULL)
    (void)self->program->access->take_result(self->program, self->watch.id, &self->result, &error);
  if (!has_step(self)) /* its last event arrived meanwhile */
    return GO_ON;
  /* Another client may have taken the result of a cancelled step. */
  if (self->result != NULL || (is_late && self->cancel != CANCEL_NONE)) {
    self->state = EXCHANGE_ENDED;
  } else if (is_late) {
    terminal_error(&self->program->terminal, "%s is neither waiting nor running, and has no result",
                   self->name.text);
    return EXIT_CLIENT;
  }
  return GO_ON;
}

static int warn(struct exchange *self) {
  step_watch_warn_of_agent(&self->watch);
  return GO_ON;
}

static int fail_agent(struct exchange *self) {
  return step_watch_fail_agent(&self->watch);
}

static int fail_peer(struct exchange *self) {
  return step_watch_fail_peer(&self->watch);
}

typedef int action(struct exchange *self);

/* Without an action, the wait goes on, or the step is over. */
/* clang-format off */
static action *const actions[EXCHANGE_STATES][WATCH_REPORTS] = {
    /*                 nothing signal       output gone     absent   away  gone       peer gone */
    [EXCHANGE_WAITS] = {NULL, obey_signal, discard_output, conclude, warn, fail_agent, fail_peer},
    [EXCHANGE_RUNS] =  {NULL, obey_signal, discard_output, conclude, warn, fail_agent, fail_peer},
    [EXCHANGE_DISCARDS] = {limit_discard, obey_signal, NULL, conclude, limit_discard, limit_discard,
                           limit_discard},
};
/* clang-format on */

static void acknowledge(struct exchange *self) {
  const int64_t now_ms = clock_monotonic_ms(), passed_ms = now_ms - self->acknowledged_ms;
  const uint64_t events = self->seq - self->watch.acknowledged;
  const bool is_blocked = terminal_behind(&self->program->terminal) >= 0 &&
                          !self->watch.is_away_reported; /* nobody would read the sign */
  const bool is_over = !has_step(self);
  if (!self->acknowledges || self->state == EXCHANGE_DISCARDS || self->seq == 0)
    return;
  const bool is_much = events >= READ_EVENTS || self->unacknowledged_bytes >= READ_BYTES;
  if (events > 0 ? !is_much && passed_ms < READ_MS && !is_over : !is_blocked || passed_ms < SIGN_MS)
    return;
  self->watch.acknowledged = self->seq;
  self->program->access->events->acknowledge(self->watch.source, self->seq);
  self->unacknowledged_bytes = 0;
  self->acknowledged_ms = now_ms;
}

static int wait_for_end(struct exchange *self) {
  int code = GO_ON;
  while (code == GO_ON && has_step(self)) {
    const enum watch_report report = step_watch_turn(&self->watch);
    acknowledge(self);
    action *const act = actions[self->state][report];
    code = act != NULL ? act(self) : GO_ON;
  }
  if (self->state != EXCHANGE_FAILED)
    return code;
  if (self->cancel != CANCEL_SENT)
    (void)cancel(self);
  terminal_error(&self->program->terminal, "cannot read the events: %s%s", self->failure,
                 self->cancel == CANCEL_SENT ? "; the step is cancelled" : "");
  return EXIT_CLIENT;
}

/* --- a step ----------------------------------------------------------------------------------- */

void exchange_begin(struct exchange *self, struct program *program,
                    const struct exchange_handler *handler, void *owner) {
  *self = (struct exchange){.program = program, .handler = handler, .owner = owner};
  step_watch_begin(&self->watch, program, &watch_handler, self);
  step_watch_catch_signals(&self->watch);
}

void exchange_end(struct exchange *self) {
  step_watch_end(&self->watch);
  free(self->result);
  free(self->failure);
}

static void begin_step(struct exchange *self, const char *id) {
  self->name = job_shorten(id);
  self->cancel = CANCEL_NONE;
  self->completion = (struct completion){.exit_code = -1};
  self->seq = self->watch.acknowledged = self->missed = 0;
  self->has_discarded = false;
  self->acknowledged_ms = clock_monotonic_ms(); /* a short step is acknowledged once, at its end */
  free(self->result);
  self->result = NULL;
  self->watch.output = self->handler->turn != NULL ? WATCH_OUTPUT_READ : WATCH_OUTPUT_IGNORED;
  step_watch_expect(&self->watch, id);
}

/* Counts the events after the last one that was read. */
static void count_last_missed(struct exchange *self) {
  struct json_member count;
  const char *result = self->result;
  if (result == NULL || !json_member_find(result, strlen(result), "eventCount", &count) ||
      count.text[0] < '0' || count.text[0] > '9')
    return;
  const uint64_t events = strtoull(count.text, NULL, 10);
  self->missed += events > self->seq ? events - self->seq : 0;
}

/* A step leaves the lists when its result is pushed. If there is none, another client has taken
   it. */
static void take_result(struct exchange *self) {
  struct program *program = self->program;
  struct error ignored;
  bool is_there = true;
  const int64_t end_ms = clock_monotonic_ms() + LOST_MS;
  while (self->result == NULL &&
         program->access->take_result(program, self->watch.id, &self->result, &ignored) == 0 &&
         self->result == NULL && is_there && program->signal == 0 &&
         clock_monotonic_ms() < end_ms) {
    program_turn(program);
    is_there = step_watch_look(&self->watch);
  }
}

int exchange_step(struct exchange *self, const char *id, const char *json) {
  struct error error;
  int code = exchange_check_signals(self);
  if (code != 0 && self->policy != EXCHANGE_IS_CLEANING)
    return code;
  begin_step(self, id);
  if (self->program->access->push(self->program, self->watch.source, id, json, &error) != 0) {
    terminal_error(&self->program->terminal, "%s", error.text);
    code = exchange_check_signals(self);
    return code != 0 ? code : EXIT_CLIENT;
  }
  self->state = EXCHANGE_WAITS;
  step_watch_read(&self->watch);
  code = wait_for_end(self);
  if (code == GO_ON) {
    acknowledge(self);
    take_result(self);
    count_last_missed(self);
    self->outcome = outcome_make(self->result, self->completion, self->cancel != CANCEL_NONE);
    if (self->outcome.code == EXIT_CANCELLED && self->first_signal != 0)
      self->outcome.code = 128 + self->first_signal;
  }
  self->state = EXCHANGE_IDLE;
  step_watch_expect(&self->watch, NULL);
  return code;
}

int exchange_check_signals(struct exchange *self) {
  const int signal = step_watch_take_signal(&self->watch);
  if (signal != 0) {
    self->first_signal = self->first_signal != 0 ? self->first_signal : signal;
    self->interrupts++;
  }
  return self->first_signal != 0 ? 128 + self->first_signal : 0;
}

int exchange_wait_for(struct exchange *self, int fd, short events) {
  struct pollfd fds[] = {{.fd = fd, .events = events},
                         {.fd = self->watch.signal_fd, .events = POLLIN}};
  int code;
  while ((code = exchange_check_signals(self)) == 0)
    if (poll(fds, 2, -1) > 0 && fds[0].revents != 0)
      return 0;
  return code;
}

int exchange_flush(struct exchange *self) {
  struct terminal *terminal = &self->program->terminal;
  int code = 0, result;
  while ((result = terminal_flush(terminal)) == 0 && terminal_behind(terminal) >= 0 && code == 0)
    code = exchange_wait_for(self, terminal_behind(terminal), POLLOUT);
  return result == 0 ? code : 128 + SIGPIPE;
}

int exchange_read_input(struct exchange *self, struct buffer *input, size_t size,
                        struct error *error) {
  ssize_t length = 1;
  input->length = 0;
  while (length != 0 && input->length < size) {
    const size_t left = size - input->length, count = left < 65536 ? left : 65536;
    const int code = exchange_wait_for(self, STDIN_FILENO, POLLIN);
    if (code != 0)
      return code;
    length = read(STDIN_FILENO, buffer_space(input, count), count);
    if (length > 0)
      input->length += (size_t)length;
    else if (length < 0 && errno != EINTR && errno != EAGAIN)
      return error_set(error, "cannot read standard input: %s", strerror(errno));
  }
  return 0;
}
