#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/*
 * Keeps the part of a step's output that its result shows. An execution adds the output, and the
 * execution_result has the part. The hard part is to keep both ends of a stream of any length in
 * bounded memory, and to cut it at the end of a line.
 */

/*
 * The part of one output stream that was kept.
 *
 *   |------------------------- total -------------------------|
 *   |----- bytes -----|                         |--- tail ----|
 *
 * `bytes` and `tail` may overlap. Nothing is owned.
 */
struct captured_stream {
  const char *bytes; /* NULL if it is empty */
  size_t length;
  bool truncated;   /* more output followed, of raw output more than newlines; `bytes` ends at a
                       UTF-8 boundary */
  const char *tail; /* the end of a truncated stream; NULL if that is not kept */
  size_t tail_length;
  uint64_t total; /* the size of a truncated stream */
};

/* Returns its first `max` bytes at most; if that is all, without the newlines at its end. */
struct captured_stream captured_stream_shown(struct captured_stream self, size_t max);

/* Returns the first and the last `side` bytes, cut at the ends of lines if there are any, else at
   UTF-8 boundaries; or all of it if it is whole and has at most 2 * `side` bytes. A truncated
   stream must have this many bytes of both ends. */
struct captured_stream captured_stream_ends(struct captured_stream self, size_t side);

/* Returns the number of bytes between the two parts that captured_stream_ends has cut. */
uint64_t captured_stream_left_out(const struct captured_stream *self);

/* Returns the offset of the last `max` bytes of a text: of the first line that begins in them, else
   of a UTF-8 boundary. Returns 0 if the text is not longer. The byte before them tells whether they
   begin with a line. "\n", "\r\n" and a lone "\r" end a line. */
size_t captured_stream_tail_at(const char *text, size_t length, size_t max);

/*
 * Keeps the part of a step's output that its result shows: the beginning of each stream, and the
 * end of one that is longer. An execution fills it in one of three ways:
 *
 *   lines     capture_add: stdout (outputContent, outputTail), and the end of both streams in the
 *             order in which they were read (errorMessage)
 *   content   capture_content_space, capture_content_filled: outputContent as a file kind writes
 *             it; capture_add adds the lines of its stderr
 *   raw       capture_raw_space, capture_raw_filled: each stream by itself, without NUL bytes
 */

/* A command's outputContent takes lines until it has this many UTF-16 units (wire/PROTOCOL.md), so
   that a server knows by its length that it was cut. Before JSON encoding it has at most three
   times as many bytes, and those of one line or partial line. */
#define CAPTURE_HEAD_UNITS ((size_t)1000000)

/* The longest outputTail and the longest errorMessage, in bytes before JSON encoding
   (wire/PROTOCOL.md). */
#define CAPTURE_OUTPUT_TAIL_MAX ((size_t)65536)
#define CAPTURE_ERRORS_MAX ((size_t)8192)

/* The longest content; no kind writes more. The rest is discarded. */
#define CAPTURE_CONTENT_MAX ((size_t)32 * 1024 * 1024)

/* A ring of the last bytes that were added, and the byte before them, which tells whether they
   begin with a line. */
struct capture_tail {
  size_t max;   /* 0: none are kept */
  char *bytes;  /* NULL until something is added */
  size_t size;  /* of the ring: 0, then `max` + 1 */
  size_t at;    /* where the next byte goes */
  bool is_full; /* the whole ring was written, else only the bytes before `at` */
};

struct capture_stream {
  struct buffer head;
  uint64_t behind;          /* bytes that came after the head was full */
  struct capture_tail tail; /* from then on, with the end of the head */
  bool truncated;
};

struct capture {
  struct capture_stream streams[2]; /* stdout and, of raw output, stderr */
  struct capture_tail errors;       /* of both, as lines */
  size_t head_counted;              /* lines: bytes of the head whose units were counted */
  size_t head_units;
  bool head_full;
  size_t raw_limit; /* of each head */
  bool newest;      /* raw: the stream that was written to last */
  uint64_t total;   /* raw: the bytes of both streams so far */
  char *raw_space;
  size_t raw_space_size;
};

/* Keeps `raw_limit` bytes of the beginning of each raw stream and, if it is longer, `raw_tail`
   bytes of its end, at most `raw_limit`. 0 and 0: lines or content. */
void capture_init(struct capture *self, size_t raw_limit, size_t raw_tail);
void capture_release(struct capture *self);

/* Adds the text of a line and, unless it is partial, a "\n". */
void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial);

/* Return space for `before` bytes and, behind them, for CAPTURE_READ bytes (content: for `size`)
   to read into. The caller has written `length` bytes there; raw ones without NUL. */
#define CAPTURE_READ ((size_t)64 * 1024)
char *capture_content_space(struct capture *self, size_t before, size_t *size);
void capture_content_filled(struct capture *self, size_t length);
char *capture_raw_space(struct capture *self, size_t before);
void capture_raw_filled(struct capture *self, bool is_stderr, size_t length);

/* Returns what is kept of a stream, valid until more is added. Of lines and content only stdout is
   kept; its beginning ends with a line or a partial line. */
struct captured_stream capture_stream(struct capture *self, bool is_stderr);

/* Of lines, and of stderr beside content: returns the end of both streams without the last "\n",
   cut at a UTF-8 boundary, valid until more is added; NULL if there was no output. */
const char *capture_errors(struct capture *self, size_t *length);

/* Copies the last line for execution_last_line, which describes the result. */
size_t capture_last_line(const struct capture *self, char *out, size_t size);
