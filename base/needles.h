#ifndef BASE_NEEDLES_H
#define BASE_NEEDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/*
 * Searches a text for many byte strings at once: for each of its bytes, whether a needle ends
 * there, and the longest that does. A needle has at least NEEDLE_MIN bytes and no line feed.
 *
 *   needles_add(&needles, …)
 *   needles_prepare(&needles)
 *   node = NEEDLES_ROOT
 *   for each byte                                    where node is NEEDLES_ROOT, needles_skip
 *     node = needles_next(&needles, node, byte)      steps over what cannot matter
 *     needles_ending(&needles, node)                 the length of that needle; 0: none
 *     needles_depth(&needles, node)                  so many of the last bytes may still become one
 *
 * A node stands for the longest end of the text that a needle begins with. It is valid until
 * needles_prepare is called after a needle was added; needles_bytes still has its bytes then.
 *
 * The time for a byte is bounded on average, whatever needles and text are: following them takes as
 * many steps back as forth (Aho and Corasick, 1975). Memory: NEEDLES_MEMORY bytes for each byte of
 * a needle, about 100 for each needle, and a filter of 1 to 64 KiB.
 */
#define NEEDLE_MIN ((size_t)6)
#define NEEDLES_MEMORY 13
#define NEEDLES_ROOT UINT32_C(0)

struct needle {
  const char *bytes;
  uint32_t start, length;
  uint32_t shared; /* bytes that it has in common with the one before it, in order */
  uint32_t parent; /* the node of these */
};

/* A prefix of a needle. Its number is the offset in `text` after its last byte, in the first
   needle, in order, that has it: so the next node of this needle has the next number. */
struct needle_node {
  uint32_t fail;    /* the longest end of it, but not all, that a needle begins with */
  uint32_t longest; /* needle that it ends with */
  uint32_t depth : 31;
  uint32_t forks : 1; /* needles part behind it: it has edges */
};

/* To a node that is not the next one. */
struct needle_edge {
  uint64_t key;  /* where it begins, and the byte */
  uint32_t node; /* NEEDLES_ROOT: a free place */
};

/* All zeros is none. */
struct needles {
  struct buffer text;  /* each needle and a "\n" after it, in the order in which they were added */
  struct needle *list; /* prepared: in order, each once */
  size_t count, capacity;
  size_t prepared; /* the length of `text` that is known to what follows */
  struct needle_node *nodes;
  uint32_t *first;           /* of each byte the node of depth 1 */
  struct needle_edge *edges; /* a hash table, of 2^(64 - edge_shift) places */
  unsigned edge_shift;
  /* A bit for each hash of a window: four bytes of a needle at the offsets 0, 1 and 2. */
  uint64_t *filter;
  unsigned filter_shift;
};

void needles_release(struct needles *self);

/* One that is there already counts once; but until needles_release it takes its memory again. */
void needles_add(struct needles *self, const char *bytes, size_t length);

/* After needles_add and before anything below; does nothing when nothing was added. Takes 50 to
   100 ns for each byte of all needles. */
void needles_prepare(struct needles *self);

/* The first place at or after `at` where a needle may begin, seen from NEEDLES_ROOT, in the text or
   beyond its end. */
size_t needles_skip(const struct needles *self, const char *text, size_t at, size_t length);

/* The node after one more byte. */
uint32_t needles_next(const struct needles *self, uint32_t node, char byte);

static inline size_t needles_ending(const struct needles *self, uint32_t node) {
  return self->nodes[node].longest;
}

static inline size_t needles_depth(const struct needles *self, uint32_t node) {
  return self->nodes[node].depth;
}

/* The last `length` bytes of a node, at most its depth. */
static inline const char *needles_bytes(const struct needles *self, uint32_t node, size_t length) {
  return self->text.bytes + node - length;
}

#endif
