#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/needles.h"

/*
 * Replaces secret values in output with MASK, in whatever form a program prints them.
 *
 * The definition: from a value, and from each of its lines ("\n" or "\r" ends one), blanks and line
 * ends at both ends are removed. If at least NEEDLE_MIN bytes are left, the text has the forms of
 * secret_forms.h, and each form without a line end is a needle. Every byte of the output that lies
 * in an occurrence of a needle is secret, and MASK replaces each longest run of secret bytes.
 * Occurrences that overlap or touch therefore become a single MASK, which never spans a line end.
 *
 * A stream yields the same as the whole text. It holds back what may still become part of an
 * occurrence: at most as many bytes as the longest needle has, and never a complete line.
 */
#define MASK "***"
#define MASK_LENGTH (sizeof MASK - 1)
static_assert(MASK_LENGTH <= NEEDLE_MIN, "masks in place");

#define MASKER_VALUES_MAX ((size_t)256)
#define MASKER_VALUE_MAX ((size_t)64 * 1024)

/* Limits on the bytes of all values and of all their needles. A value of letters and digits has
   nine needle bytes for each of its own, or 18 if it has several lines; one of JSON up to 60. */
#define MASKER_BYTES_MAX ((size_t)128 * 1024)
#define MASKER_BYTES_MIN ((size_t)256)
#define MASKER_NEEDLES_MAX ((size_t)2 * 1024 * 1024)

struct masker_value {
  char *bytes;
  size_t length;
  size_t needles; /* the bytes of its needles */
  unsigned holds; /* masker_add calls without a masker_let_go; at 0 it may be dropped */
};

/* A masker that is all zeros has no values. A value stays while it is held, and then until its
   memory is needed. */
struct masker {
  struct needles needles;
  struct masker_value *values; /* in the order in which they were added or held again */
  size_t value_count;
  size_t bytes; /* of all values */
  /* Returns the maximum of `bytes`: less if memory is short, but at least MASKER_BYTES_MIN, up to
     which it is not called. NULL stands for MASKER_BYTES_MAX. */
  size_t (*bytes_max)(void);
  unsigned drops; /* how often values were dropped */
};

enum masker_answer {
  MASKER_MASKED,
  MASKER_TOO_SHORT, /* no line of it has NEEDLE_MIN bytes */
  MASKER_TOO_LONG,  /* it has more than MASKER_VALUE_MAX bytes */
  MASKER_FULL       /* another limit is reached, and too little can be dropped */
};

void masker_release(struct masker *self);

/* Overwrites every value and needle, in a child that does not mask. */
void masker_erase(struct masker *self);

/* Adds a value and holds it; does nothing unless the answer is MASKER_MASKED. Lines that are too
   short are not masked: "{" is no secret. If capacity is needed, the oldest values that nobody
   holds are dropped. */
enum masker_answer masker_add(struct masker *self, const char *value, size_t length);

/* Ends the hold of one masker_add. The value is masked until it is dropped. */
void masker_let_go(struct masker *self, const char *value, size_t length);

static inline bool masker_is_empty(const struct masker *self) {
  return self->needles.count == 0;
}

/* Masks a whole string in place; it never grows. `is_cut`: the string is the beginning of a longer
   one, so that the beginning of a needle at its end is removed, too. A masker of NULL masks
   nothing. */
void mask_string(struct masker *self, char *text, bool is_cut);

/* A run of secret bytes, by offsets in the whole text. */
struct mask_run {
  uint64_t begin, end;
};

/* Masks in the buffer that the caller reads into. If nothing is held and nothing is found, the
   bytes are neither moved nor copied. The stream keeps its own copy of held bytes, so that each
   call may have another buffer. A needle that is added between two chunks is found if it begins in
   the held bytes or later, or in a run that was masked and may continue. */
struct mask_stream {
  struct masker *masker;
  uint64_t read;    /* the offset in the text behind the last chunk */
  uint64_t decided; /* everything before this offset was output */
  uint32_t node;
  size_t depth; /* of the node */
  char *tail;   /* the last `depth` bytes of the text so far */
  size_t tail_capacity;
  size_t known;          /* bytes of the needles when `node` was found, */
  unsigned drops;        /* and the masker's drops at that time */
  bool masked;           /* the output ends with a MASK, to which a run that begins now belongs */
  struct mask_run *runs; /* after `decided`, in order; each may still grow to the left */
  size_t run_count, run_capacity;
};

/* The masker must outlive the stream, and may be empty. */
void mask_stream_init(struct mask_stream *self, struct masker *masker);
void mask_stream_release(struct mask_stream *self);

static inline size_t mask_stream_held(const struct mask_stream *self) {
  return (size_t)(self->read - self->decided);
}

/* `text` has space for mask_stream_held bytes, whose content does not matter, and the `length`
   bytes of the chunk after them. Returns how many bytes at `text` are output. */
size_t mask_stream_put(struct mask_stream *self, char *text, size_t length);

/* Outputs the held bytes in the same way, and resets the stream. */
size_t mask_stream_end(struct mask_stream *self, char *text);
