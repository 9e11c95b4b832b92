#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/*
 * Searches a text for many byte strings at once (Aho and Corasick, 1975): tells for each byte of
 * the text which is the longest needle that ends there. A needle has at least NEEDLE_MIN bytes and
 * no line feed.
 *
 * A node stands for the longest suffix of the text that is a prefix of a needle. It is valid until
 * needles_prepare is called after a needle was added; needles_bytes still has its bytes then.
 *
 * The time per byte is bounded on average for any needles and any text. Memory: 13 bytes for each
 * byte of a needle, about 100 for each needle, and a filter of 1 to 64 KiB.
 */
#define NEEDLE_MIN ((size_t)6)
#define NEEDLES_ROOT UINT32_C(0)

struct needle {
  const char *bytes;
  uint32_t start, length;
  uint32_t shared; /* length of the prefix that it shares with the previous needle in sort order */
  uint32_t parent; /* the node of that prefix */
};

/* A prefix of a needle. Its number is the offset in `text` behind the prefix, within the first
   needle in sort order that has it. The next node of this needle therefore has the next number. */
struct needle_node {
  uint32_t fail;    /* the longest proper suffix that is a prefix of a needle */
  uint32_t longest; /* length of the longest needle that is a suffix */
  uint32_t depth : 31;
  uint32_t forks : 1; /* it has edges, because needles differ behind it */
};

/* A transition to a node that is not the next one. */
struct needle_edge {
  uint64_t key;  /* the node where it begins, and the byte */
  uint32_t node; /* NEEDLES_ROOT in a free slot */
};

/* All zeros means no needles. */
struct needles {
  struct buffer text;  /* the needles in the order in which they were added, a "\n" after each */
  struct needle *list; /* sorted and without duplicates after needles_prepare */
  size_t count, capacity;
  size_t prepared; /* the length of `text` that the following members cover */
  struct needle_node *nodes;
  uint32_t *first;           /* the node of depth 1 for each byte */
  struct needle_edge *edges; /* a hash table of 2^(64 - edge_shift) slots */
  unsigned edge_shift;
  /* A bit for the hash of each window: the four bytes at offset 0, 1 and 2 of a needle. */
  uint64_t *filter;
  unsigned filter_shift;
};

void needles_release(struct needles *self);

/* A duplicate is found only once, but takes its memory until needles_release. */
void needles_add(struct needles *self, const char *bytes, size_t length);

/* Call it after needles_add and before the functions below. It does nothing if nothing was added,
   or else takes 50 to 100 ns for each byte of all needles. */
void needles_prepare(struct needles *self);

/* Returns the first offset, at or after `at`, where a needle may begin if the node at `at` is
   NEEDLES_ROOT; `length` or less. */
size_t needles_skip(const struct needles *self, const char *text, size_t at, size_t length);

/* Returns the node after one more byte. */
uint32_t needles_next(const struct needles *self, uint32_t node, char byte);

/* Returns the length of the needle that ends here, or 0. */
static inline size_t needles_ending(const struct needles *self, uint32_t node) {
  return self->nodes[node].longest;
}

/* Returns how many of the last bytes may begin a needle. */
static inline size_t needles_depth(const struct needles *self, uint32_t node) {
  return self->nodes[node].depth;
}

/* Returns the last `length` bytes of a node's prefix, at most its depth. */
static inline const char *needles_bytes(const struct needles *self, uint32_t node, size_t length) {
  return self->text.bytes + node - length;
}
