#ifndef AGENT_DOORS_STANDARD_IO_H
#define AGENT_DOORS_STANDARD_IO_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/*
 * Standard input and standard output of a door that speaks there. Other processes may share
 * descriptors 0 and 1, so that their flags stay as they are, and neither is made non-blocking.
 *
 *   io = standard_io_new(base, &handler, owner)
 *   standard_io_read(io, true)           input(...) from the loop, then input_ended() once
 *   space = standard_io_space(io, n)     exactly n bytes are to be written there; or
 *   out = standard_io_output(io)         whatever is added to this buffer
 *   standard_io_flush(io)                writes what standard output takes now
 *   standard_io_free(io)
 *
 * What standard output does not take is held, without a bound: the owner asks
 * standard_io_unwritten, and does with less input or with less output.
 */
struct standard_io;

struct standard_io_handler {
  /* Bytes that have arrived; valid during the call. */
  void (*input)(void *owner, const char *bytes, size_t length);
  /* End-of-file, or an error, of standard input. Once; not while reading is paused. */
  void (*input_ended)(void *owner);
  /* Some of what was held is written: always from the loop, also when a standard_io_flush has
     written all of it at once. So whoever waits for room is told in this one way. */
  void (*written)(void *owner);
  /* Nothing is taken any more, and what is held is dropped. `error`: an errno, EPIPE when nobody
     reads. Once; from the loop, or from inside of standard_io_flush. */
  void (*broken)(void *owner, int error);
};

/* Reads nothing yet, and notices at once when the reader of a pipe, or of a local socket, is gone. */
struct standard_io *standard_io_new(struct event_base *base,
                                    const struct standard_io_handler *handler, void *owner);

/* Not from inside of a handler. What is held is dropped. */
void standard_io_free(struct standard_io *self);

/* Reads, or pauses. Works for what epoll(7) refuses, too: regular files. */
void standard_io_read(struct standard_io *self, bool on);

/* Room for exactly `length` more bytes of output, which count as written there. After broken() they
   go nowhere. */
char *standard_io_space(struct standard_io *self, size_t length);

/* The buffer of the output, to add to its end, until the next call for this `self`. */
struct buffer *standard_io_output(struct standard_io *self);

void standard_io_flush(struct standard_io *self);

/* Bytes that are held. */
size_t standard_io_unwritten(const struct standard_io *self);

#endif
