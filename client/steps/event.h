#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/reply_parser.h"
#include "base/buffer.h"
#include "wire/step_report.h"

/*
 * Reads the events of a job from its stream. `run`, `follow` and the recordings use it. The hard
 * part is that others may write to the stream, too: an entry may be anything.
 */

/* An entry of the stream of events has an id such as "1700000000000-0". */
#define ENTRY_ID_SIZE 48

/* Returns a number below, at or above 0, as strcmp does, for the order of two ids in the stream. */
int entry_compare(const char *entry, const char *other);

/* Sets the largest id below this one: the range "(ID" needs Redis 6.2. */
void entry_before(char out[ENTRY_ID_SIZE], const char *entry);

/* A StepEvent. Texts are borrowed from the reply, or from the space that event_read was given. */
struct event_view {
  const char *entry; /* the id of its entry */
  const char *json;
  size_t length;
  enum step_event_kind kind; /* perhaps none of those that this program knows */
  const char *step_id;
  size_t step_id_length;
  const char *line; /* without its line end, unless it is raw */
  size_t line_length;
  bool is_raw;  /* the line has bytes of the output, which were base64; it is then partial, too */
  bool partial; /* the line continues in the next event of this kind */
  int64_t logged_ms; /* when Redis, or else the agent, got it: milliseconds since 1970 */
  const char *timestamp;
  size_t timestamp_length;
  uint64_t seq;
};

/* Reads an entry of XREAD or XREVRANGE. `space` holds the line if it was encoded, until the next
   call. Returns false if the entry is no StepEvent: anyone may write to the stream. */
bool event_read(struct event_view *self, const struct reply *entry, struct buffer *space);

/* Reads the JSON of an event, to which `entry` gives its place. Returns false if it is none. */
bool event_read_json(struct event_view *self, const char *entry, const char *json, size_t length,
                     struct buffer *space);

/* The kind of an event over HTTP that stands for events which are no longer held. */
#define EVENT_GAP ((enum step_event_kind)(STEP_EVENT_COMPLETED + 1))

/* Called for each event, the newest first. Returns whether to go on. */
typedef bool event_visitor(void *owner, const struct event_view *view);

/* Returns the id of an entry, or "" if the reply is none. */
const char *event_entry_id(const struct reply *entry);

/* Whether the event belongs to this step. Case does not matter: servers write GUIDs in both. */
bool event_is_of(const struct event_view *self, const char *step_id);

/* What an event `completed` says. An exit code of -1 means that no process exited. */
struct completion {
  int exit_code;
  bool timed_out;
};

/* Parses "exit=N timedOut=True". Returns false for any event but `completed`. */
bool event_read_completed(const struct event_view *self, struct completion *completion);

/* Converts the timestamp to milliseconds since 1970. Returns false if there is none. */
bool event_read_time(const struct event_view *self, int64_t *unix_ms);
bool event_parse_time(const char *timestamp, size_t length, int64_t *unix_ms);
