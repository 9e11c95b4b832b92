#include "client/steps/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/access.h"

/* --- where to begin --------------------------------------------------------------------------- */

struct history_search {
  const struct history_query *query;
  struct history *history;
  enum {
    SEARCH_BEGIN,     /* where to begin is unknown */
    SEARCH_OTHER_IDS, /* it is known; another step's id may have the same prefix, or be the query */
    SEARCH_AMBIGUOUS, /* another one has; none is the query so far */
    SEARCH_DONE
  } state;
  uint64_t lines; /* that were found */
  int64_t since_ms;
  bool has_raw[2]; /* a raw event of standard output, and of standard error, was visited … */
  char next[2];    /* … and begins with this */
};

static bool has_prefix(const struct event_view *view, const char *prefix) {
  const size_t length = strlen(prefix);
  return view->step_id_length >= length && strncasecmp(view->step_id, prefix, length) == 0;
}

static void set_id(struct history *history, const struct event_view *view) {
  (void)snprintf(history->id, sizeof history->id, "%.*s", (int)view->step_id_length, view->step_id);
}

static bool is_complete(const struct history_search *self) {
  return self->query->id != NULL && strcasecmp(self->history->id, self->query->id) == 0;
}

/* A complete id wins over longer ones that begin with it. */
static void prefer(struct history_search *self, const struct event_view *view) {
  set_id(self->history, view);
  self->history->is_cut = false;
  self->state = SEARCH_BEGIN;
  self->lines = 0;
}

/* Returns whether the query asks for events of this step. */
static bool match_step(struct history_search *self, const struct event_view *view) {
  const struct history_query *query = self->query;
  if (view->step_id_length >= HISTORY_ID_SIZE ||
      (query->id != NULL && !has_prefix(view, query->id)))
    return false;
  if (self->history->id[0] == '\0')
    set_id(self->history, view);
  if (query->id != NULL && !is_complete(self) && view->step_id_length == strlen(query->id))
    prefer(self, view);
  if (event_is_of(view, self->history->id))
    return true;
  if (is_complete(self))
    return false;
  if (query->id != NULL)
    self->state = SEARCH_AMBIGUOUS;
  else if (query->one_step)
    self->state = SEARCH_DONE;
  return query->id == NULL && !query->one_step;
}

/* Returns how many lines end in this event, as raw_text.h counts them. Nothing follows the newest
   raw event of a stream: what it ends with is a line, too. */
static uint64_t count_lines(const struct history_search *self, const struct event_view *view) {
  const bool is_stderr = view->kind == STEP_EVENT_STDERR;
  uint64_t count = 0;
  if (view->kind != STEP_EVENT_STDOUT && !is_stderr)
    return 0;
  if (!view->is_raw)
    return !view->partial;
  for (size_t i = 0; i < view->line_length; i++) {
    const bool is_last = i + 1 == view->line_length;
    const int next = is_last ? self->next[is_stderr] : view->line[i + 1];
    count += view->line[i] == '\n' || (view->line[i] == '\r' && next != '\n') ||
             (is_last && !self->has_raw[is_stderr]);
  }
  return count;
}

static void note_raw(struct history_search *self, const struct event_view *view) {
  const bool is_stderr = view->kind == STEP_EVENT_STDERR;
  if (!view->is_raw || view->line_length == 0)
    return;
  self->has_raw[is_stderr] = true;
  self->next[is_stderr] = view->line[0];
}

static bool is_before_first(const struct history_search *self, const struct event_view *view) {
  const struct history_query *query = self->query;
  if (view->kind == STEP_EVENT_COMPLETED && query->id != NULL)
    return false; /* `follow ID` needs the exit code */
  if (query->has_age && view->logged_ms < self->since_ms)
    return true;
  return query->has_lines && count_lines(self, view) > 0 && self->lines == query->lines;
}

static bool visit_event(void *owner, const struct event_view *view) {
  struct history_search *self = owner;
  const char *id = self->query->id;
  if (match_step(self, view) && self->state == SEARCH_BEGIN) {
    const bool is_over = is_before_first(self, view);
    self->history->is_cut |= is_over;
    if (is_over)
      (void)snprintf(self->history->after, ENTRY_ID_SIZE, "%s", view->entry);
    else
      entry_before(self->history->after, view->entry);
    self->lines += count_lines(self, view);
    note_raw(self, view);
    if (!is_over && self->query->has_lines && self->lines > self->query->lines) {
      self->history->skip = self->lines - self->query->lines;
      self->lines = self->query->lines;
    }
    if (is_over || (id != NULL && view->kind == STEP_EVENT_STARTED))
      self->state = id != NULL && !is_complete(self) ? SEARCH_OTHER_IDS : SEARCH_DONE;
  }
  return self->state != SEARCH_DONE;
}

/* --- which step ------------------------------------------------------------------------------- */

/* Searches the lists before the events: a step that ends meanwhile has events by then. */
static int find_in_lists(struct program *program, const char *id, struct history *history,
                         struct error *error) {
  struct job_steps steps;
  size_t found = 0;
  int result = program->access->read_steps(program, &steps, error);
  for (size_t i = 0; i < steps.count && result == 0; i++) {
    if (strncasecmp(steps.list[i].id, id, strlen(id)) != 0 ||
        strlen(steps.list[i].id) >= HISTORY_ID_SIZE)
      continue;
    found++;
    (void)snprintf(history->id, sizeof history->id, "%s", steps.list[i].id);
    if (strlen(history->id) == strlen(id)) {
      found = 1;
      break;
    }
  }
  job_steps_release(&steps);
  return found > 1
             ? error_set(error, "%zu steps begin with '%.40s': give more of the ID", found, id)
             : result;
}

int history_find(struct program *program, const struct history_query *query,
                 struct history *history, struct error *error) {
  struct history listed = {0};
  struct history_search search = {.query = query, .history = history};
  const struct job_access *access = program->access;
  *history = listed;
  if ((query->id != NULL && find_in_lists(program, query->id, &listed, error) != 0) ||
      access->events->read_newest(program, history, error) != 0)
    return -1;
  (void)snprintf(history->after, ENTRY_ID_SIZE, "%s", history->newest);
  if (query->id != NULL)
    memcpy(history->id, listed.id, sizeof history->id);
  const bool wants_old_events =
      query->id != NULL || (query->has_lines ? query->lines > 0 : query->has_age);
  if (query->has_age)
    search.since_ms = access->events->read_clock(program) - query->age_ms;
  if (wants_old_events && strcmp(history->newest, "0-0") != 0 &&
      access->events->scan(program, query->id, visit_event, &search, error) != 0)
    return -1;
  history->is_cut |= wants_old_events ? query->has_lines && search.lines >= query->lines
                                      : strcmp(history->newest, "0-0") != 0;
  if (search.state == SEARCH_AMBIGUOUS)
    return error_set(error, "several steps begin with '%.40s': give more of the ID", query->id);
  if (query->id != NULL && history->id[0] == '\0')
    return error_set(error, "no step that waits, runs, or has events begins with '%.40s'",
                     query->id);
  return 0;
}
