#ifndef BASE_MASK_H
#define BASE_MASK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/needles.h"

/*
 * Writes MASK in place of secret values, wherever a text has one of their forms.
 *
 * The definition. A value, and each of its lines ("\n" or "\r" ends one), counts without blanks and
 * line ends at its beginning and its end. Each that has at least NEEDLE_MIN bytes has the forms of
 * secret_forms.h, and each form without a line end is a needle. Every byte of a text that lies in
 * an occurrence of a needle is secret, and MASK takes the place of each longest run of secret
 * bytes. So occurrences that overlap or touch become one MASK, and what is on both sides of a line
 * end never does.
 *
 * A stream has the result of its whole text, however it is cut into chunks. It holds back what may
 * still become part of an occurrence: of the bytes after the last line end at most as many as the
 * longest needle has. What makes a line is never held.
 */
#define MASK "***"
#define MASK_LENGTH (sizeof MASK - 1)
static_assert(MASK_LENGTH <= NEEDLE_MIN, "masks in place");

/* --- what is masked -------------------------------------------------------------------------- */

#define MASKER_VALUES_MAX ((size_t)256)
#define MASKER_VALUE_MAX ((size_t)64 * 1024)

/* The bytes of all values, and of all their needles, of which each takes NEEDLES_MEMORY bytes: a
   value of letters and digits has nine needle bytes for each of its own, or 18 where it has several
   lines; JSON has up to 60. */
#define MASKER_BYTES_MAX ((size_t)128 * 1024)
#define MASKER_BYTES_MIN ((size_t)256)
#define MASKER_NEEDLES_MAX ((size_t)2 * 1024 * 1024)

struct masker_value {
  char *bytes;
  size_t length;
  size_t needles; /* the bytes of its needles */
  unsigned holds; /* calls of masker_add without masker_let_go; 0: it may be dropped */
};

/* All zeros is an empty one. A value stays while it is held, and after that until its room is
   needed. */
struct masker {
  struct needles needles;
  struct masker_value *values; /* the one that was added last is the last */
  size_t value_count;
  size_t bytes; /* of all values */
  /* Returns the most that `bytes` may be: fewer where there is little memory, but at least
     MASKER_BYTES_MIN, up to which it is not called. NULL: MASKER_BYTES_MAX. */
  size_t (*bytes_max)(void);
  unsigned drops; /* how often values were dropped */
};

enum masker_answer {
  MASKER_MASKED,
  MASKER_TOO_SHORT, /* no line of it has NEEDLE_MIN bytes */
  MASKER_TOO_LONG,  /* more than MASKER_VALUE_MAX bytes */
  MASKER_FULL       /* one of the other limits, and too little of it can be dropped */
};

void masker_release(struct masker *self);

/* Overwrites every value and needle. The masker must not be used afterwards: for a child that does
   not mask. */
void masker_erase(struct masker *self);

/* Adds a value and holds it; nothing of it unless the answer is MASKER_MASKED. A value that is
   there already is found by comparing it with the others, and costs nothing else. Short lines of a
   value stay as they are: "{" is no secret. Where room is needed, the oldest values that nobody
   holds are dropped. */
enum masker_answer masker_add(struct masker *self, const char *value, size_t length);

/* Ends the hold of one masker_add. The value is still masked, until it is dropped. */
void masker_let_go(struct masker *self, const char *value, size_t length);

static inline bool masker_is_empty(const struct masker *self) {
  return self->needles.count == 0;
}

/* Masks a whole text in place. Returns its length, which is never greater. */
size_t mask_text(struct masker *self, char *text, size_t length);

/* The same with a NUL at its end. `is_cut`: it is the beginning of a longer one; what a needle
   begins with at its end goes then, too. A masker of NULL masks nothing. */
void mask_string(struct masker *self, char *text, bool is_cut);

/* --- a stream -------------------------------------------------------------------------------- */

/* Secret bytes, by their places in the text. */
struct mask_run {
  uint64_t begin, end;
};

/*
 * Masks where the caller has read to:
 *
 *   space = room for mask_stream_held bytes and what is read
 *   n = read(fd, space + mask_stream_held(&stream), …)
 *   length = mask_stream_put(&stream, space, n)         so many bytes from space on are handed out
 *   …
 *   length = mask_stream_end(&stream, space)            room for mask_stream_held bytes
 *
 * Where nothing is held and nothing found, the bytes are neither moved nor copied. The stream keeps
 * a copy of what is held, so the next room may be another one. If its needle is dropped, it is
 * handed out with the next chunk.
 *
 * A needle that is added to the masker between two chunks counts for an occurrence that begins in
 * what is held, or later. It may also begin in a run that was masked and may go on.
 */
struct mask_stream {
  struct masker *masker;
  uint64_t read;    /* the place in the text after what was put */
  uint64_t decided; /* the place before which everything was handed out */
  uint32_t node;
  size_t depth; /* of the node */
  char *tail;   /* the last `depth` bytes that were put */
  size_t tail_capacity;
  size_t known;   /* the needles' bytes, when the node was found, */
  unsigned drops; /* and the masker's */
  bool masked;    /* what was handed out ends with a MASK: a run that begins here belongs to it */
  struct mask_run *runs; /* after `decided`, in order: each may still grow to the left */
  size_t run_count, run_capacity;
};

/* The masker must outlive the stream, and may be empty. */
void mask_stream_init(struct mask_stream *self, struct masker *masker);
void mask_stream_release(struct mask_stream *self);

static inline size_t mask_stream_held(const struct mask_stream *self) {
  return (size_t)(self->read - self->decided);
}

/* `text` has room for mask_stream_held bytes, whose content does not matter, and `length` bytes
   after them. Returns how many bytes at `text` are handed out; what is behind them is undefined. */
size_t mask_stream_put(struct mask_stream *self, char *text, size_t length);

/* Hands out what is held, at most as many bytes. The stream is as it was in the beginning. */
size_t mask_stream_end(struct mask_stream *self, char *text);

#endif
