#ifndef AGENT_FRONTENDS_STDIO_CHANNEL_H
#define AGENT_FRONTENDS_STDIO_CHANNEL_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/frontends/line_reader.h"
#include "base/buffer.h"
#include "base/log.h"
#include "wire/json.h"

/*
 * A frontend's host at the other ends of standard input and standard output: what it says, as lines
 * or as one JSON value, and what it is told. The rules are the same for every frontend that speaks
 * there:
 *
 *   nothing is taken   while STDIO_CHANNEL_HOLD_BYTES are not read, or the frontend takes nothing
 *   nobody reads       the program ends, with the exit code that the frontend has for it
 *   close              patient: until all is read, or for as long as the frontend says; prompt: for
 *                      `fast_ms`; now. What is not read then is lost: it is logged, and the exit code is
 *                      that of nobody reading, or AGENT_EXIT_ERROR where that is 0
 *
 * Other processes may share descriptors 0 and 1, so that their flags stay as they are, and neither
 * is made non-blocking. Regular files do, too. That the reader of a pipe, or of a local socket, is
 * gone is noticed at once.
 *
 *   stdio_channel_init(&stdio channel, base, log, frontend, &type)
 *     stdio_channel_go_on(&stdio channel)       line() for each line, value() once; reads on
 *     out = stdio_channel_out(&stdio channel)   whatever is added to this buffer; it has no bound
 *     stdio_channel_flush(&stdio channel)       writes what standard output takes now
 *     stdio_channel_stop(&stdio channel)        nothing more is taken
 *   stdio_channel_close(&stdio channel, how, left_ms)
 *   stdio_channel_release(&stdio channel)
 */
#define STDIO_CHANNEL_HOLD_BYTES ((size_t)16 * 1024 * 1024)

/* With more bytes that are not read, what may be left out is: progress. */
#define STDIO_CHANNEL_HOLD_PROGRESS_BYTES ((size_t)64 * 1024)

/* How long a prompt close of a frontend with calls waits: clients give it some 200 ms. */
#define STDIO_CHANNEL_FAST_MS 100

struct stdio_channel_type {
  void (*line)(struct frontend *frontend,
               const struct input_line *line); /* valid during the call */
  /* In place of lines: one JSON value, to its end; or what has come when the input ends, or when it
     is longer than payload_limit(). */
  void (*value)(struct frontend *frontend, const char *bytes, size_t length);
  bool (*takes)(const struct frontend *frontend); /* NULL: always */
  void (*ended)(struct frontend *frontend); /* the input has; lines may be left. NULL: nothing */
  /* Something has come, or was read: always from the loop, also when a flush has written all of it
     at once. So whoever waits for room is told in this one way. */
  void (*go_on)(struct frontend *frontend);
  int gone;        /* the exit code when nobody reads any more */
  int64_t fast_ms; /* how long a prompt close waits for the reader; 0: as the engine does */
};

enum stdio_channel_input { STDIO_CHANNEL_PAUSED, STDIO_CHANNEL_READING, STDIO_CHANNEL_ENDED };

struct stdio_channel {
  const struct stdio_channel_type *type;
  struct frontend *frontend;
  const struct log *log;
  enum stdio_channel_input input;
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
  struct event *made_capacity; /* calls go_on() from the loop */
  struct event *reader_gone;   /* of a pipe or a socket; NULL: standard output is neither */
  struct event *end;           /* of close */
};

void stdio_channel_init(struct stdio_channel *self, struct event_base *base, const struct log *log,
                        struct frontend *frontend, const struct stdio_channel_type *type);
void stdio_channel_release(struct stdio_channel *self);

/* Takes what has come and reads on, as far as there is room. Nothing happens inside of line(). */
void stdio_channel_go_on(struct stdio_channel *self);
void stdio_channel_stop(struct stdio_channel *self);

/* The input has ended, and all of its lines were taken. */
bool stdio_channel_is_silent(const struct stdio_channel *self);

/* The buffer of the output, to add to its end, until the next call for this `self`. What is added
   when nobody reads any more goes nowhere. */
struct buffer *stdio_channel_out(struct stdio_channel *self);
/* Room for exactly `length` more bytes of it, which count as written there. */
char *stdio_channel_space(struct stdio_channel *self, size_t length);
void stdio_channel_flush(struct stdio_channel *self);
/* Bytes that are held. */
size_t stdio_channel_unread(const struct stdio_channel *self);
bool stdio_channel_has_capacity(const struct stdio_channel *self);

/* See frontend.h. `left_ms`: the longest that a patient one waits; -1: for ever. */
void stdio_channel_close(struct stdio_channel *self, enum frontend_close how, int64_t left_ms);

#endif
