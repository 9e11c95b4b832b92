#ifndef AGENT_DOORS_SPEAKER_H
#define AGENT_DOORS_SPEAKER_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/doors/line_reader.h"
#include "agent/engine/door.h"
#include "base/buffer.h"
#include "base/log.h"
#include "wire/json.h"

/*
 * A door's host at the other ends of standard input and standard output: what it says, as lines or
 * as one JSON value, and what it is told. The rules are the same for every door that speaks there:
 *
 *   nothing is taken   while SPEAKER_HOLD_BYTES are not read, or the door takes nothing
 *   nobody reads       the program ends, with the exit code that the door has for it
 *   close              patient: until all is read, or for as long as the door says; prompt: for
 *                      `prompt_ms`; now. What is not read then is lost: it is logged, and the exit code is
 *                      that of nobody reading, or AGENT_EXIT_ERROR where that is 0
 *
 * Other processes may share descriptors 0 and 1, so that their flags stay as they are, and neither is
 * made non-blocking. Regular files do, too. That the reader of a pipe, or of a local socket, is gone is
 * noticed at once.
 *
 *   speaker_init(&speaker, base, log, door, &type)
 *     speaker_go_on(&speaker)       line() for each line, value() once; reads on
 *     out = speaker_out(&speaker)   whatever is added to this buffer; it has no bound
 *     speaker_flush(&speaker)       writes what standard output takes now
 *     speaker_stop(&speaker)        nothing more is taken
 *   speaker_close(&speaker, how, left_ms)
 *   speaker_release(&speaker)
 */
#define SPEAKER_HOLD_BYTES ((size_t)16 * 1024 * 1024)

/* With more bytes that are not read, what may be left out is: progress. */
#define SPEAKER_HOLD_PROGRESS_BYTES ((size_t)64 * 1024)

/* How long a prompt close of a door with calls waits: clients give it some 200 ms. */
#define SPEAKER_PROMPT_MS 100

struct speaker_type {
  void (*line)(struct door *door, const struct input_line *line); /* valid during the call */
  /* In place of lines: one JSON value, to its end; or what has come when the input ends, or when it
     is longer than payload_limit(). */
  void (*value)(struct door *door, const char *bytes, size_t length);
  bool (*takes)(const struct door *door); /* NULL: always */
  void (*ended)(struct door *door);       /* the input has; lines may be left. NULL: nothing */
  /* Something has come, or was read: always from the loop, also when a flush has written all of it at
     once. So whoever waits for room is told in this one way. */
  void (*go_on)(struct door *door);
  int gone;          /* the exit code when nobody reads any more */
  int64_t prompt_ms; /* how long a prompt close waits for the reader; 0: as the engine does */
};

enum speaker_input { SPEAKER_PAUSED, SPEAKER_READING, SPEAKER_ENDED };

struct speaker {
  const struct speaker_type *type;
  struct door *door;
  const struct log *log;
  enum speaker_input input;
  bool unpollable; /* standard input: epoll(7) refuses regular files */
  struct line_reader lines;
  struct buffer value;
  struct json_text extent; /* of the value */
  bool is_taking;          /* lines */
  bool all_taken;          /* of those that were read */
  bool stopped, closing;
  bool broken;          /* standard output takes nothing more */
  int lost;             /* the exit code of that */
  struct buffer output; /* from `written` on not yet written */
  size_t written;
  struct event *readable, *read_on; /* standard input; from the loop, where it cannot be polled */
  struct event *writable;
  struct event *made_room;   /* calls go_on() from the loop */
  struct event *reader_gone; /* of a pipe or a socket; NULL: standard output is neither */
  struct event *end;         /* of close */
};

void speaker_init(struct speaker *self, struct event_base *base, const struct log *log,
                  struct door *door, const struct speaker_type *type);
void speaker_release(struct speaker *self);

/* Takes what has come and reads on, as far as there is room. Nothing happens inside of line(). */
void speaker_go_on(struct speaker *self);
void speaker_stop(struct speaker *self);

/* The input has ended, and all of its lines were taken. */
bool speaker_is_silent(const struct speaker *self);

/* The buffer of the output, to add to its end, until the next call for this `self`. What is added when
   nobody reads any more goes nowhere. */
struct buffer *speaker_out(struct speaker *self);
/* Room for exactly `length` more bytes of it, which count as written there. */
char *speaker_space(struct speaker *self, size_t length);
void speaker_flush(struct speaker *self);
/* Bytes that are held. */
size_t speaker_unread(const struct speaker *self);
bool speaker_has_room(const struct speaker *self);

/* See door.h. `left_ms`: the longest that a patient one waits; -1: for ever. */
void speaker_close(struct speaker *self, enum door_close how, int64_t left_ms);

#endif
