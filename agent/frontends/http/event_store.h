#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/step_report.h"

/*
 * The events that the frontend holds for readers: of each step a log of JSON lines, of all steps
 * together a bounded amount. The hard part is what happens at the bound. The oldest events are
 * dropped, unless a connected reader has yet to read them; then the store is blocked, and the
 * command waits. Pure.
 *
 *   event_log_append             an event of the running step
 *   event_store_is_blocked       the command must wait
 *   event_cursor_open            a reader wants the events after a number
 *     event_cursor_bytes, event_cursor_advance
 *   event_cursor_close
 */
struct event_store {
  struct list blocks; /* of all logs, oldest first */
  size_t bytes;
  uint64_t count; /* of events */
  size_t bytes_max;
  uint64_t count_max; /* 0: no limit */
};

/* The events of one step. The numbers of its events are 1, 2, 3… */
struct event_log {
  struct event_store *store;
  struct list blocks;
  struct list cursors;
  uint64_t first_seq; /* of the oldest event that is held; last_seq + 1 if there is none */
  uint64_t last_seq;  /* 0: there was no event */
};

struct event_block;

/* A reader's position. */
struct event_cursor {
  struct list_node node; /* in the log's cursors */
  struct event_log *log;
  struct event_block *block; /* NULL: the beginning of the log */
  size_t offset;
  uint64_t seq; /* of the event at which it was opened */
};

void event_log_init(struct event_log *self, struct event_store *store);

/* Drops all events. There must be no cursor. */
void event_log_release(struct event_log *self);

/* Appends an event with the next number. Drops the oldest events of the store that no cursor needs
   as long as there are too many. */
void event_log_append(struct event_log *self, const struct step_event *event);

/* Whether the store is full of events that a cursor has yet to read. */
bool event_store_is_blocked(const struct event_store *self);

/* Opens a cursor at the first event after number `after` that is still held. `after` is at most
   last_seq. If `cursor->seq` is above after + 1, the events between them were dropped. */
void event_cursor_open(struct event_cursor *self, struct event_log *log, uint64_t after);

/* The events before its position may be dropped now. */
void event_cursor_close(struct event_cursor *self);

/* Returns the next bytes, which end with the newline of an event. `*length` is 0 if the cursor is
   at the end of the log. They are valid until the next call with this store. */
const char *event_cursor_bytes(struct event_cursor *self, size_t *length);
void event_cursor_advance(struct event_cursor *self, size_t length);
