#ifndef AGENT_ENGINE_CAPTURED_STREAM_H
#define AGENT_ENGINE_CAPTURED_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is kept of one stream of a run, and how much of it is shown. Pure; nothing is owned.
 *
 *   |------------------------- total -------------------------|
 *   |----- bytes -----|                         |--- tail ----|
 *
 * `bytes` and `tail` may overlap.
 */
struct captured_stream {
  const char *bytes; /* NULL when it is empty */
  size_t length;
  bool truncated;   /* more came after it, of raw output more than newlines; it ends at a UTF-8
                       boundary */
  const char *tail; /* of one that was cut: its end; NULL where that is not kept */
  size_t tail_length;
  uint64_t total; /* of one that was cut: the bytes of all */
};

/* Its beginning as it is shown: at most so many bytes, and when it is whole without the newlines at
   its end. */
struct captured_stream captured_stream_shown(struct captured_stream self, size_t max);

/* Its first and its last `side` bytes, up to the end of a line and from the beginning of one where
   there are such, else up to and from a UTF-8 boundary; or all of it, when that is kept and has at
   most 2 * `side` bytes. Of one that was cut so many bytes of both ends must have been kept. */
struct captured_stream captured_stream_ends(struct captured_stream self, size_t side);

/* Of one that captured_stream_ends has cut: the bytes between the two parts. */
uint64_t captured_stream_left_out(const struct captured_stream *self);

/* Where the last `max` bytes of a text begin: at the first line that begins in them, else at a
   UTF-8 boundary. 0 when the text has no more bytes; the byte before them decides whether they
   begin with a line. "\n", "\r\n" and a lone "\r" end a line. */
size_t captured_stream_tail_at(const char *text, size_t length, size_t max);

#endif
