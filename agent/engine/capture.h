#ifndef AGENT_ENGINE_CAPTURE_H
#define AGENT_ENGINE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/execution_result.h"
#include "base/buffer.h"

/*
 * Keeps of a step's output what its end shows: the beginning of a stream, and when that is not all
 * the end, too. Its memory is bounded whatever the command prints. It is filled in one of three
 * ways:
 *
 *   lines     capture_add: stdout (outputContent, outputTail), and the end of both streams in the
 *             order in which they were read (errorMessage)
 *   content   capture_content_space, capture_content_filled: outputContent as a kind has written it;
 *             the lines of its stderr by capture_add
 *   raw       capture_raw_space, capture_raw_filled: each stream, apart, without NUL; and the last
 *             line, for progress
 */

/* A command's outputContent takes lines until it has so many UTF-16 units (wire/PROTOCOL.md): a
   server knows by its length that it was cut. Before JSON encoding it has at most three times as
   many bytes, and those of a piece of a line. */
#define CAPTURE_HEAD_UNITS ((size_t)1000000)

/* The longest outputTail, in bytes before JSON encoding (wire/PROTOCOL.md). */
#define CAPTURE_OUTPUT_TAIL_MAX ((size_t)65536)

/* The same for content: more than any kind writes. What is beyond it is dropped. */
#define CAPTURE_CONTENT_MAX ((size_t)32 * 1024 * 1024)

/* The longest errorMessage, in bytes before JSON encoding (wire/PROTOCOL.md). */
#define CAPTURE_ERRORS_MAX ((size_t)8192)

/* The last bytes of what was added, in a ring; and the one before them, which tells whether they
   begin with a line. */
struct capture_tail {
  size_t max;   /* 0: none are kept */
  char *bytes;  /* NULL while nothing was added */
  size_t size;  /* of the ring: 0, then `max` + 1 */
  size_t at;    /* where the next byte goes */
  bool is_full; /* all of the ring was written to, else what lies before `at` */
};

struct capture_stream {
  struct buffer head;
  uint64_t behind;          /* bytes that came when the head was full */
  struct capture_tail tail; /* of all, since then */
  bool truncated;
};

struct capture {
  struct capture_stream streams[2]; /* stdout and, of raw output, stderr */
  struct capture_tail errors;       /* of both, as lines */
  size_t head_counted;              /* lines: bytes of the head whose units were counted */
  size_t head_units;
  bool head_full;
  size_t raw_limit; /* of each head */
  bool newest;      /* which stream was written to last */
  uint64_t total;   /* raw: bytes that were shown, of both streams */
  char *raw_space;
  size_t raw_space_size;
};

/* Of each raw stream `raw_limit` bytes of the beginning are kept and, when that is not all,
   `raw_tail` bytes of the end, at most `raw_limit`. 0 and 0: the output is no raw one. */
void capture_init(struct capture *self, size_t raw_limit, size_t raw_tail);
void capture_release(struct capture *self);

/* Adds the text of a line and, unless it is partial, a "\n". */
void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial);

/* Return room for `before` bytes and behind them CAPTURE_READ bytes, of content `size`, to read
   into; `length` bytes were written there, without NUL where they are raw. */
#define CAPTURE_READ ((size_t)64 * 1024)
char *capture_content_space(struct capture *self, size_t before, size_t *size);
void capture_content_filled(struct capture *self, size_t length);
char *capture_raw_space(struct capture *self, size_t before);
void capture_raw_filled(struct capture *self, bool is_stderr, size_t length);

/* What these return is valid until the next call that adds. */

/* The streams: of lines and content stdout alone, whose beginning ends with a line or a piece of
   one. */
struct captured_stream capture_stream(struct capture *self, bool is_stderr);

/* The end of both streams, without the last "\n", cut at a UTF-8 boundary; NULL when there was no
   output. Of lines, and of stderr beside content. */
const char *capture_errors(struct capture *self, size_t *length);

/* See execution_last_line. */
size_t capture_last_line(const struct capture *self, char *out, size_t size);

#endif
