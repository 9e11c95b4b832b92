#ifndef AGENT_ENGINE_CAPTURE_H
#define AGENT_ENGINE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/run_end.h"
#include "base/buffer.h"

/*
 * Keeps of a step's output what its end shows. Its memory is bounded whatever the command prints. It is
 * filled in one of three ways:
 *
 *   lines     capture_add: the beginning of stdout (outputContent), and the end of both streams in the
 *             order in which they were read (errorMessage)
 *   content   capture_content_space, capture_content_filled: outputContent as a kind has written it;
 *             the lines of its stderr by capture_add
 *   raw       capture_raw_space, capture_raw_filled: the beginning of each stream, apart and as it came,
 *             but without NUL; and the last line, for progress
 */

/* A command's outputContent takes lines until it has so many UTF-16 units (wire/PROTOCOL.md): a
   server knows by its length that it was cut. Before JSON encoding it has at most three times as
   many bytes, and those of a piece of a line. */
#define CAPTURE_HEAD_UNITS ((size_t)1000000)

/* The same for content: more than any kind writes. What is beyond it is dropped. */
#define CAPTURE_CONTENT_MAX ((size_t)32 * 1024 * 1024)

/* The longest errorMessage, in bytes before JSON encoding (wire/PROTOCOL.md). */
#define CAPTURE_TAIL_MAX ((size_t)8192)

struct capture {
  struct buffer heads[2]; /* stdout and, of raw output, stderr */
  struct capture_tail {
    char *bytes; /* when it is full, its last ones move to the front */
    size_t length;
  } tails[2];          /* of raw output of each stream, else of both in the first */
  size_t head_counted; /* lines: bytes of the head whose units were counted */
  size_t head_units;
  bool head_full;
  size_t raw_limit; /* of each head */
  bool truncated[2];
  bool newest;    /* which stream was written to last */
  uint64_t total; /* raw: bytes that were printed */
  char *raw_space;
};

/* `raw_limit`: the bytes that are kept of each raw stream. */
void capture_init(struct capture *self, size_t raw_limit);
void capture_release(struct capture *self);

/* Adds the text of a line and, unless it is partial, a "\n". */
void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial);

/* Return room, at least CAPTURE_READ bytes, to read into; `length` bytes were written there. */
#define CAPTURE_READ ((size_t)64 * 1024)
char *capture_content_space(struct capture *self, size_t *size);
void capture_content_filled(struct capture *self, size_t length);
char *capture_raw_space(struct capture *self);
void capture_raw_filled(struct capture *self, bool is_stderr, size_t length);

/* What these return is valid until the next call that adds. */

/* The beginning of stdout, which ends with a line or a piece of one; NULL when there was none. */
const char *capture_head(const struct capture *self, size_t *length);

/* The end of both streams, without the last "\n", cut at a UTF-8 boundary; NULL when there was no
   output. */
const char *capture_tail(const struct capture *self, size_t *length);

struct run_stream capture_raw_stream(const struct capture *self, bool is_stderr);

/* See run_last_line. */
size_t capture_last_line(const struct capture *self, char *out, size_t size);

#endif
