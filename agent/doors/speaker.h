#ifndef AGENT_DOORS_SPEAKER_H
#define AGENT_DOORS_SPEAKER_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/doors/line_reader.h"
#include "agent/doors/standard_io.h"
#include "agent/engine/door.h"
#include "base/log.h"
#include "wire/json_text.h"

/*
 * A door's host at the other ends of standard input and standard output: what it says, as lines or
 * as one JSON value, and what it is told. The rules are the same for every door that speaks there:
 *
 *   nothing is taken   while SPEAKER_HOLD_BYTES are not read, or the door takes nothing
 *   nobody reads       the program ends, with the exit code that the door has for it
 *   close              patient: until all is read, or for as long as the door says; prompt: for
 *                      `prompt_ms`; now: what is not read is logged, and counts as nobody reading
 *
 *   speaker_init(&speaker, base, log, door, &type)
 *     speaker_go_on(&speaker)       line() for each line, value() once; reads on
 *     out = speaker_out(&speaker)   whatever is added to this buffer
 *     speaker_flush(&speaker)
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
  void (*go_on)(struct door *door);       /* from the loop: something has come, or was read */
  int gone;                               /* the exit code when nobody reads any more */
  int64_t prompt_ms; /* how long a prompt close waits for the reader; 0: as the engine does */
};

struct speaker {
  const struct speaker_type *type;
  struct door *door;
  const struct log *log;
  struct standard_io *io;
  struct line_reader lines;
  struct buffer value;
  struct json_text extent; /* of the value */
  struct event *end;       /* of close */
  bool is_taking;          /* lines */
  bool all_taken;          /* of those that were read */
  bool ended, stopped, closing;
  bool broken; /* standard output takes nothing more */
  int lost;    /* the exit code of that */
};

void speaker_init(struct speaker *self, struct event_base *base, const struct log *log,
                  struct door *door, const struct speaker_type *type);
void speaker_release(struct speaker *self);

/* Takes what has come and reads on, as far as there is room. Nothing happens inside of line(). */
void speaker_go_on(struct speaker *self);
void speaker_stop(struct speaker *self);

/* The input has ended, and all of its lines were taken. */
bool speaker_is_silent(const struct speaker *self);

struct buffer *speaker_out(struct speaker *self);
/* See standard_io_space. */
char *speaker_space(struct speaker *self, size_t length);
void speaker_flush(struct speaker *self);
size_t speaker_unread(const struct speaker *self);
bool speaker_has_room(const struct speaker *self);

/* See door.h. `left_ms`: the longest that a patient one waits; -1: for ever. */
void speaker_close(struct speaker *self, enum door_close how, int64_t left_ms);

#endif
