#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/frontends/line_reader.h"
#include "base/buffer.h"
#include "base/log.h"
#include "wire/json.h"

/*
 * Standard input and standard output, for the frontends that serve one host there. The channel
 * reads lines, or one JSON value, and writes what the frontend adds to its buffer. The hard part is
 * that other processes may share descriptors 0 and 1: their flags must not change, so neither can
 * be made non-blocking.
 *
 *   stdio_channel_init(&channel, base, log, frontend, &type)
 *     stdio_channel_go_on(&channel)       calls line() for each line, or value() once; reads on
 *     out = stdio_channel_out(&channel)   the frontend adds its output to this buffer
 *     stdio_channel_flush(&channel)       writes as much as standard output takes now
 *     stdio_channel_stop(&channel)        reads no more
 *   stdio_channel_close(&channel, how, left_ms)
 *   stdio_channel_release(&channel)
 *
 * The channel reads nothing while more than STDIO_CHANNEL_HOLD_BYTES of output are unread or the
 * frontend's may_take() is false. It notices at once if the reader of a pipe or a local socket is
 * gone; the program then ends with the exit code `gone`.
 */
#define STDIO_CHANNEL_HOLD_BYTES ((size_t)16 * 1024 * 1024)

/* While more bytes than these are unread, progress reports are left out. */
#define STDIO_CHANNEL_HOLD_PROGRESS_BYTES ((size_t)64 * 1024)

/* How long a fast close waits for the reader of calls: clients allow about 200 ms. */
#define STDIO_CHANNEL_FAST_MS 100

struct stdio_channel_type {
  /* One line, which is valid during the call. */
  void (*line)(struct frontend *frontend, const struct input_line *line);
  /* Instead of line(): the whole JSON value; or what has arrived when the input ends or exceeds
     payload_limit(). */
  void (*value)(struct frontend *frontend, const char *bytes, size_t length);
  bool (*may_take)(const struct frontend *frontend); /* NULL: always */
  void (*ended)(struct frontend *frontend); /* end of input; lines may be left. May be NULL */
  /* Input has arrived, or output was written. It comes from the loop, also if one flush has written
     everything, so that a frontend that waits for capacity needs no other wake-up. */
  void (*go_on)(struct frontend *frontend);
  int gone;         /* the exit code if the reader of standard output is gone */
  int64_t fast_ms;  /* how long a fast close waits for the reader; 0: without a bound */
  int64_t stall_ms; /* how long a graceful close waits for the next byte to be read; 0: no bound */
};

struct stdio_channel {
  const struct stdio_channel_type *type;
  struct frontend *frontend;
  const struct log *log;
  enum { INPUT_PAUSED, INPUT_READING, INPUT_ENDED, INPUT_STOPPED } input;
  enum { LINES_LEFT, LINES_TAKING, LINES_TAKEN } taking; /* of the bytes that were read */
  enum { OUTPUT_OPEN, OUTPUT_CLOSING, OUTPUT_CLOSED, OUTPUT_BROKEN } state;
  bool is_unpollable; /* standard input is a regular file, which epoll(7) refuses */
  int exit_code;      /* for engine_frontend_closed: not 0 once output was lost */
  int64_t stall_ms;   /* of a graceful close */
  struct line_reader lines;
  struct buffer value;
  struct json_text extent; /* of the value */
  struct buffer output;    /* from `written` on not written yet */
  size_t written;
  struct event *readable, *writable;
  struct event *turn;        /* calls go_on(), and reads if the input is unpollable */
  struct event *reader_gone; /* NULL unless standard output is a pipe or a socket */
  struct event *end;         /* of close */
};

void stdio_channel_init(struct stdio_channel *self, struct event_base *base, const struct log *log,
                        struct frontend *frontend, const struct stdio_channel_type *type);
void stdio_channel_release(struct stdio_channel *self);

/* Calls line() for the lines that have arrived and reads on, as far as may_take() and the unread
   output allow. Does nothing inside line(). */
void stdio_channel_go_on(struct stdio_channel *self);
void stdio_channel_stop(struct stdio_channel *self);

/* Returns true if the input has ended and the frontend got all of its lines. */
bool stdio_channel_has_ended(const struct stdio_channel *self);

/* Returns the output buffer, which the caller may append to until the next call with this `self`.
   It has no bound. Output for a reader that is gone is discarded. */
struct buffer *stdio_channel_out(struct stdio_channel *self);
/* Appends `length` bytes to the output, which the caller must fill in. */
char *stdio_channel_space(struct stdio_channel *self, size_t length);
void stdio_channel_flush(struct stdio_channel *self);
/* Returns the number of bytes that are not written yet. */
size_t stdio_channel_unread(const struct stdio_channel *self);
bool stdio_channel_has_capacity(const struct stdio_channel *self);

/* Writes the rest and calls engine_frontend_closed. A graceful close waits for the reader at most
   `left_ms` (-1: without a bound), or until it reads nothing for `stall_ms`; a fast one waits
   `fast_ms`. Output that is lost is logged, and the exit code is `gone`, or AGENT_EXIT_ERROR if
   that is 0. */
void stdio_channel_close(struct stdio_channel *self, enum frontend_close how, int64_t left_ms);
