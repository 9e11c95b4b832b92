/*
 * Before a call's deadline, the grace and then the time to reap the killed processes take a
 * sixteenth of the whole time each, within bounds:
 *
 *   deadline - grace - kill ahead   SIGTERM
 *   deadline - kill ahead           SIGKILL
 *   deadline - ANSWER_AHEAD_MS      the answer
 */
#include "agent/frontends/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/utf8.h"

/* The memory that a call takes in addition to its text. */
#define CALL_BYTES 1024

/* The longest message of a progress report. */
#define MESSAGE_CHARACTERS 200

#define DEADLINE_SHARE 16
#define KILL_AHEAD_MIN_MS 100
#define KILL_AHEAD_MAX_MS 1000

static struct calls *self_of(struct frontend *frontend) {
  return (struct calls *)frontend;
}

static bool is_leaving(const struct calls *self) {
  return engine_leaving(&self->frontend) != NULL;
}

static struct call *call_of(const struct list_node *node) {
  return LIST_ELEMENT(node, struct call, node);
}

static bool is_ordered(const struct calls *self) {
  return self->type->keeps_order && self->frontend.terms.executions == 1;
}

static struct call *first_of(const struct calls *self) {
  return call_of(self->queue.first);
}

/* --- the queue ------------------------------------------------------------------------------- */

struct call *calls_make(size_t size, struct json_member id, size_t bytes) {
  struct call *call = memory_allocate(size);
  memset(call, 0, size);
  call->id = id;
  if (id.text != NULL)
    call->id.text = memory_copy(id.text, id.length);
  call->bytes = bytes + CALL_BYTES;
  call->arrived_ms = clock_monotonic_ms();
  return call;
}

bool calls_make_step(struct calls *self, struct call *call, const struct tool *tool,
                     cJSON *arguments, struct buffer *text) {
  char id[48];
  (void)snprintf(id, sizeof id, "%s-%llu", self->frontend.type->name,
                 (unsigned long long)++self->number);
  call->tool = tool_call_new(tool, arguments, &self->settings, id, text);
  return call->tool != NULL;
}

void calls_free(struct calls *self, struct call *call) {
  if (self->type->release != NULL)
    self->type->release(self, call);
  tool_call_free(call->tool);
  free((char *)(uintptr_t)call->id.text);
  free(call->scope);
  free(call);
}

static bool has_deadline(const struct call *call) {
  return call->tool != NULL && call->deadline_ms != 0;
}

void calls_add(struct calls *self, struct call *call) {
  list_append(&self->queue, &call->node);
  if (self->waiting == NULL)
    self->waiting = call;
  if (call->tool != NULL && call->id.text != NULL) {
    call_ids_add(&self->ids, &call->entry, call->scope, call->id, call);
    call->bytes += call->entry.length;
  }
  self->waiting_bytes += call->bytes;
  self->timed += has_deadline(call);
  if (call->reports && !event_pending(self->progress, EV_TIMEOUT, NULL))
    loop_timer_start(self->progress, CALLS_PROGRESS_FIRST_MS);
}

bool calls_are_full(const struct calls *self, size_t bytes) {
  return self->waiting != NULL && self->waiting_bytes + bytes > payload_limit();
}

static void remove_call(struct calls *self, struct call *call) {
  if (self->waiting == call)
    self->waiting = call_of(call->node.next);
  list_remove(&self->queue, &call->node);
  if (call->state == CALL_WAITING)
    self->waiting_bytes -= call->bytes;
  self->timed -= has_deadline(call);
  call_ids_remove(&self->ids, &call->entry);
}

/* --- calls that change files --- */

static const char *changed_file(const struct call *call) {
  return call->tool != NULL ? call->tool->changes : NULL;
}

/* Whether the call's change must wait for that of an earlier call. */
static bool has_to_wait(const struct calls *self, const struct call *call, int64_t now_ms) {
  for (const struct call *other = first_of(self); other != call; other = call_of(other->node.next))
    if (changed_file(other) != NULL &&
        (other->changes_from_ms == 0 || now_ms - other->changes_from_ms < CALLS_CHANGE_MS ||
         strcmp(changed_file(call), changed_file(other)) == 0))
      return true;
  return false;
}

/* Starts the changes that no longer wait for an earlier one. */
static void start_changes(struct calls *self) {
  const int64_t now_ms = clock_monotonic_ms();
  bool waits = false;
  for (struct call *call = first_of(self); call != self->waiting; call = call_of(call->node.next)) {
    if (call->execution == NULL || call->changes_from_ms != 0 || changed_file(call) == NULL)
      continue;
    if (has_to_wait(self, call, now_ms)) {
      waits = true;
    } else {
      call->changes_from_ms = now_ms;
      engine_start(call->execution);
    }
  }
  if (waits && !event_pending(self->changes, EV_TIMEOUT, NULL))
    loop_timer_start(self->changes, CALLS_CHANGE_MS);
}

LOOP_CALLBACK(on_changes, struct calls *self) {
  start_changes(self);
}

/* Answers the call; an execution that it has goes on. */
static void end_call(struct calls *self, struct call *call, const struct execution_result *end) {
  remove_call(self, call);
  start_changes(self);
  self->type->answer(self, call, end);
  if (call->state != CALL_RUNNING) {
    calls_free(self, call);
    return;
  }
  call->state = CALL_HANGING;
  list_append(&self->hanging, &call->node);
}

static void set_outcome(struct calls *self, struct call *call, enum call_outcome outcome) {
  call->outcome = outcome;
  call_ids_remove(&self->ids, &call->entry);
}

void calls_cancel_call(struct calls *self, struct call *call) {
  set_outcome(self, call, CALL_CANCELLED);
  if (call->state == CALL_RUNNING)
    engine_stop(call->execution, self->frontend.terms.grace_ms, STEP_CAUSE_CANCELLED, "cancelled");
  else
    end_call(self, call, NULL);
}

void calls_cancel(struct calls *self, const char *scope, struct json_member id) {
  for (struct call *call; (call = call_ids_find(&self->ids, scope, id)) != NULL;)
    calls_cancel_call(self, call);
}

/* --- deadlines ------------------------------------------------------------------------------- */

static int64_t share_of(const struct call *call) {
  return (call->deadline_ms - call->arrived_ms) / DEADLINE_SHARE;
}

static int64_t deadline_grace_ms(const struct call *call) {
  return share_of(call) < CALLS_GRACE_MS ? share_of(call) : CALLS_GRACE_MS;
}

static int64_t kill_ahead_ms(const struct call *call) {
  int64_t share_ms = share_of(call) > KILL_AHEAD_MIN_MS ? share_of(call) : KILL_AHEAD_MIN_MS;
  return share_ms < KILL_AHEAD_MAX_MS ? share_ms : KILL_AHEAD_MAX_MS;
}

/* Returns when the call's signals or its answer are due. */
static int64_t due_ms(const struct call *call) {
  if (call->state == CALL_RUNNING && call->outcome == CALL_OPEN)
    return call->deadline_ms - kill_ahead_ms(call) - deadline_grace_ms(call);
  return call->deadline_ms - CALLS_ANSWER_AHEAD_MS;
}

/* Returns the call whose signals or answer are due next, or NULL. */
static struct call *first_due(const struct calls *self) {
  struct call *first = NULL;
  if (self->timed == 0)
    return NULL;
  LIST_FOR_EACH (struct call, call, &self->queue, node) {
    if (has_deadline(call) && (first == NULL || due_ms(call) < due_ms(first)))
      first = call;
    if (is_ordered(self))
      break;
  }
  return first;
}

static void stop_expired(struct calls *self, struct call *call, int64_t now_ms) {
  int64_t left_ms = call->deadline_ms - kill_ahead_ms(call) - now_ms;
  set_outcome(self, call, CALL_EXPIRED);
  engine_stop(call->execution, left_ms > 0 ? left_ms : 0, STEP_CAUSE_TIMEOUT, "deadline");
}

static void answer_expired(struct calls *self, struct call *call, int64_t now_ms) {
  const struct execution_result end = {.outcome = EXECUTION_TIMED_OUT,
                                       .exit_code = EXECUTION_EXIT_TIMED_OUT,
                                       .duration_ms = now_ms - call->arrived_ms};
  end_call(self, call, call->outcome == CALL_CANCELLED ? NULL : &end);
}

/* Sends one signal or answer that is due. Returns false if none is. */
static bool expire_next(struct calls *self) {
  struct call *call = first_due(self);
  int64_t now_ms = clock_monotonic_ms();
  if (call == NULL)
    return false;
  if (due_ms(call) > now_ms) {
    loop_timer_start(self->deadline, due_ms(call) - now_ms);
    return false;
  }
  if (call->state == CALL_RUNNING && call->outcome == CALL_OPEN)
    stop_expired(self, call, now_ms);
  else
    answer_expired(self, call, now_ms);
  return true;
}

/* --- executions ------------------------------------------------------------------------------ */

static bool has_capacity(const struct calls *self, const struct call *call) {
  return (self->type->has_capacity == NULL || self->type->has_capacity(self)) &&
         payload_limit_has_capacity(self->running_bytes, call->bytes);
}

static void begin_call(struct calls *self, struct call *call) {
  struct request request = {.user_data = call};
  tool_call_request(call->tool, &request);
  call->state = CALL_RUNNING;
  call->begun_ms = clock_monotonic_ms();
  self->waiting = call_of(call->node.next);
  self->waiting_bytes -= call->bytes;
  self->running_bytes += call->bytes;
  self->running++;
  self->wanted--;
  engine_submit(&self->frontend, &request);
}

/* Begins or answers one call; returns false if there is none whose turn has come. */
static bool serve_next(struct calls *self) {
  struct call *first = first_of(self), *call = self->waiting;
  if (expire_next(self))
    return true;
  if (call == NULL || is_leaving(self))
    return false;
  if (call->tool == NULL && call == first) {
    end_call(self, call, NULL);
    return true;
  }
  if (call->tool == NULL || self->wanted == 0 || !has_capacity(self, call))
    return false;
  begin_call(self, call);
  return true;
}

void calls_serve(struct calls *self) {
  if (self->is_serving)
    return;
  self->is_serving = true;
  (void)event_del(self->deadline);
  while (serve_next(self))
    continue;
  self->is_serving = false;
}

static void serve(struct calls *self) {
  calls_serve(self);
  if (self->type->served != NULL)
    self->type->served(self);
}

LOOP_CALLBACK(on_deadline, struct calls *self) {
  serve(self);
}

/* --- progress -------------------------------------------------------------------------------- */

/* Returns the earliest time of the next report. */
static int64_t next_report_ms(const struct call *call) {
  return call->reported_ms > 0 ? call->reported_ms + CALLS_PROGRESS_PACE_MS
                               : call->arrived_ms + CALLS_PROGRESS_FIRST_MS;
}

static uint64_t output_of(const struct call *call) {
  return call->execution != NULL ? execution_output_total(call->execution) : 0;
}

static bool is_report_due(const struct call *call, int64_t now_ms) {
  bool is_new = call->reported_ms == 0 || output_of(call) != call->reported_output;
  return now_ms >= (is_new ? next_report_ms(call) : call->reported_ms + CALLS_PROGRESS_BEAT_MS);
}

/* Returns the length of the line's beginning that the message has. */
static size_t cut_message(const char *line, size_t length) {
  size_t at = 0;
  for (int i = 0; i < MESSAGE_CHARACTERS && at < length; i++) {
    size_t n = utf8_sequence(line + at, length - at);
    at += n > 0 ? n : utf8_broken(line + at, length - at);
  }
  return at;
}

/* A report that its frontend leaves out counts as made. */
static void report_progress(struct calls *self, struct call *call, int64_t now_ms) {
  static const char waits[] = "waiting for other calls to end";
  char line[4 * MESSAGE_CHARACTERS];
  size_t length;
  call->reported_ms = now_ms;
  call->reported_output = output_of(call);
  if (call->execution == NULL) {
    self->type->report(self, call, waits, sizeof waits - 1);
    return;
  }
  length = execution_last_line(call->execution, line, sizeof line);
  self->type->report(self, call, line, cut_message(line, length));
}

LOOP_CALLBACK(on_progress, struct calls *self) {
  int64_t now_ms = clock_monotonic_ms(), wait_ms = 0;
  LIST_FOR_EACH (struct call, call, &self->queue, node) {
    if (!call->reports || call->outcome != CALL_OPEN)
      continue;
    if (is_report_due(call, now_ms))
      report_progress(self, call, now_ms);
    int64_t left_ms = next_report_ms(call) - now_ms;
    int64_t call_ms = left_ms > 0 ? left_ms : CALLS_PROGRESS_PACE_MS;
    wait_ms = wait_ms == 0 || call_ms < wait_ms ? call_ms : wait_ms;
  }
  if (wait_ms > 0)
    loop_timer_start(self->progress, wait_ms);
  if (self->frontend.type->flush != NULL)
    self->frontend.type->flush(&self->frontend);
}

/* --- the frontend ----------------------------------------------------------------------------- */

/* The engine wants no more executions. If answers keep the order of the calls, a waiting call is
   dropped only once it is the first. */
static void drop_waiting(struct calls *self) {
  while (self->waiting != NULL && (!is_ordered(self) || self->waiting == first_of(self))) {
    self->waiting->outcome = CALL_DROPPED;
    end_call(self, self->waiting, NULL);
  }
}

void calls_frontend_want(struct frontend *frontend, unsigned requests) {
  struct calls *self = self_of(frontend);
  self->wanted = requests > 0 ? self->wanted + requests : 0;
  if (requests > 0) {
    serve(self);
    return;
  }
  (void)event_del(self->deadline);
  drop_waiting(self);
}

void calls_frontend_begin(struct frontend *frontend, struct execution *execution) {
  struct call *call = execution_user_data(execution);
  call->execution = execution;
  if (changed_file(call) != NULL)
    start_changes(self_of(frontend));
  else
    engine_start(execution);
}

void calls_frontend_result(struct frontend *frontend, const struct execution *execution,
                           const struct execution_result *end) {
  struct calls *self = self_of(frontend);
  struct call *call = execution_user_data(execution);
  struct execution_result ended = *end;
  self->running--;
  self->running_bytes -= call->bytes;
  call->execution = NULL;
  if (call->state == CALL_HANGING) {
    list_remove(&self->hanging, &call->node);
    calls_free(self, call);
    return;
  }
  if (end->outcome == EXECUTION_STOPPED && call->outcome == CALL_EXPIRED) {
    ended.outcome = EXECUTION_TIMED_OUT;
    ended.exit_code = EXECUTION_EXIT_TIMED_OUT;
  }
  remove_call(self, call);
  start_changes(self);
  self->type->answer(self, call, call->outcome == CALL_CANCELLED ? NULL : &ended);
  calls_free(self, call);
  if (is_leaving(self))
    drop_waiting(self);
}

bool calls_are_over(const struct calls *self) {
  return self->queue.first == NULL && self->running == 0;
}

size_t calls_waiting(const struct calls *self) {
  size_t waiting = 0;
  for (const struct call *call = self->waiting; call != NULL; call = call_of(call->node.next))
    waiting++;
  return waiting;
}

size_t calls_bytes(const struct calls *self) {
  return self->waiting_bytes + self->running_bytes;
}

void calls_init(struct calls *self, struct event_base *base, const struct calls_type *type) {
  self->type = type;
  self->deadline = loop_timer_new(base, on_deadline, self);
  self->progress = loop_timer_new(base, on_progress, self);
  self->changes = loop_timer_new(base, on_changes, self);
}

void calls_release(struct calls *self) {
  LIST_FOR_EACH (struct call, call, &self->queue, node) {
    remove_call(self, call);
    calls_free(self, call);
  }
  LIST_FOR_EACH (struct call, hanging, &self->hanging, node)
    calls_free(self, hanging);
  event_free(self->deadline);
  event_free(self->progress);
  event_free(self->changes);
}
