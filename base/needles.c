#include "base/needles.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/*
 * Nearly all bytes of a text are far from any needle. needles_skip therefore looks only at windows
 * of four bytes, WINDOW_STRIDE bytes apart, and at one bit of the filter for each. A needle has
 * windows at the offsets 0, 1 and 2, one of which is always among those, so that no needle is
 * skipped. A bit that is set by chance, or by part of a needle, costs a few bytes that are followed
 * one by one.
 *
 * needles_next follows bytes in the trie of all needles. Almost all nodes have a single child, the
 * next byte of the same needle, and the text of the needles is the table of these. Only where
 * needles part is there an edge.
 */
#define WINDOW ((size_t)4)
#define WINDOW_STRIDE (NEEDLE_MIN - WINDOW + 1)

/* The filter has this many bits for each window, which sets one of them, but at least 1 KiB and at
   most 64 KiB, about the size of a first-level cache. */
#define BITS_PER_WINDOW 256
#define FILTER_BITS_MIN 13
#define FILTER_BITS_MAX 19

void needles_release(struct needles *self) {
  buffer_release(&self->text);
  free(self->list);
  free(self->nodes);
  free(self->first);
  free(self->edges);
  free(self->filter);
  *self = (struct needles){0};
}

void needles_add(struct needles *self, const char *bytes, size_t length) {
  CHECK(length >= NEEDLE_MIN && length < INT32_MAX - self->text.length);
  CHECK(memchr(bytes, '\n', length) == NULL);
  if (self->count == self->capacity) {
    self->capacity = self->capacity > 0 ? 2 * self->capacity : 16;
    self->list = memory_resize(self->list, self->capacity * sizeof *self->list);
  }
  self->list[self->count++] =
      (struct needle){.start = (uint32_t)self->text.length, .length = (uint32_t)length};
  buffer_add(&self->text, bytes, length);
  buffer_add(&self->text, "\n", 1);
}

/* --- following ------------------------------------------------------------------------------- */

static uint64_t edge_key(uint32_t node, char byte) {
  return (uint64_t)node << 8 | (unsigned char)byte;
}

/* Returns the edge with this key, or the free slot for it. The factor is that of Fibonacci hashing,
   2^64 divided by the golden ratio. */
static struct needle_edge *find_edge(const struct needles *self, uint64_t key) {
  size_t slot = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> self->edge_shift);
  size_t last = (size_t)(UINT64_MAX >> self->edge_shift);
  while (self->edges[slot].key != key && self->edges[slot].node != NEEDLES_ROOT)
    slot = (slot + 1) & last;
  return &self->edges[slot];
}

uint32_t needles_next(const struct needles *self, uint32_t node, char byte) {
  if (byte == '\n') /* follows each needle in `text`, and is in none */
    return NEEDLES_ROOT;
  for (; node != NEEDLES_ROOT; node = self->nodes[node].fail) {
    if (self->text.bytes[node] == byte)
      return node + 1;
    if (self->nodes[node].forks) {
      uint32_t child = find_edge(self, edge_key(node, byte))->node;
      if (child != NEEDLES_ROOT)
        return child;
    }
  }
  return self->first[(unsigned char)byte];
}

/* --- skipping -------------------------------------------------------------------------------- */

/* Likewise, with 2^32. */
static inline uint32_t window_hash(const char *window, unsigned shift) {
  uint32_t word;
  memcpy(&word, window, sizeof word);
  return (word * UINT32_C(0x9E3779B1)) >> shift;
}

static inline uint64_t filter_bit(const uint64_t *filter, unsigned shift, const char *window) {
  uint32_t hash = window_hash(window, shift);
  return filter[hash / 64] >> (hash % 64) & 1;
}

size_t needles_skip(const struct needles *self, const char *text, size_t at, size_t length) {
  const uint64_t *filter = self->filter;
  unsigned shift = self->filter_shift;
  size_t window = at + WINDOW_STRIDE - 1;
  for (; window + 3 * WINDOW_STRIDE + WINDOW <= length; window += 4 * WINDOW_STRIDE) {
    const char *here = text + window;
    if (filter_bit(filter, shift, here) || filter_bit(filter, shift, here + WINDOW_STRIDE) ||
        filter_bit(filter, shift, here + 2 * WINDOW_STRIDE) ||
        filter_bit(filter, shift, here + 3 * WINDOW_STRIDE))
      break;
  }
  while (window + WINDOW <= length && filter_bit(filter, shift, text + window) == 0)
    window += WINDOW_STRIDE;
  size_t found = window - (WINDOW_STRIDE - 1);
  return found < length ? found : length;
}

/* --- preparing ------------------------------------------------------------------------------- */

static int compare_needles(const void *left, const void *right) {
  const struct needle *a = left, *b = right;
  int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
  return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static void sort_needles(struct needles *self) {
  for (size_t i = 0; i < self->count; i++)
    self->list[i].bytes = self->text.bytes + self->list[i].start;
  qsort(self->list, self->count, sizeof *self->list, compare_needles);
  size_t kept = 0;
  for (size_t i = 0; i < self->count; i++)
    if (kept == 0 || compare_needles(&self->list[kept - 1], &self->list[i]) != 0)
      self->list[kept++] = self->list[i];
  self->count = kept;
}

static uint32_t count_shared(const struct needle *a, const struct needle *b) {
  uint32_t shared = 0;
  while (shared < a->length && shared < b->length && a->bytes[shared] == b->bytes[shared])
    shared++;
  return shared;
}

/* Leaves at least half of the slots free. */
static void make_edges(struct needles *self) {
  unsigned bits = 1;
  while (self->count * 2 >> bits > 0)
    bits++;
  self->edge_shift = 64 - bits;
  self->edges = memory_zeros(sizeof *self->edges << bits);
}

/* Adds an edge where each needle leaves the previous ones. `path` has the needles that own a part
   of the way to the previous needle, the deepest part last. */
static void link_edges(struct needles *self) {
  uint32_t *path = memory_allocate(self->count * sizeof *path);
  size_t deep = 0;
  for (size_t i = 0; i < self->count; i++) {
    struct needle *needle = &self->list[i];
    needle->shared = i > 0 ? count_shared(needle - 1, needle) : 0;
    while (deep > 0 && self->list[path[deep - 1]].shared >= needle->shared)
      deep--;
    char byte = needle->bytes[needle->shared];
    uint32_t child = needle->start + needle->shared + 1;
    if (needle->shared == 0) {
      needle->parent = NEEDLES_ROOT;
      self->first[(unsigned char)byte] = child;
    } else {
      needle->parent = self->list[path[deep - 1]].start + needle->shared;
      self->nodes[needle->parent].forks = 1;
      uint64_t key = edge_key(needle->parent, byte);
      *find_edge(self, key) = (struct needle_edge){key, child};
    }
    path[deep++] = (uint32_t)i;
  }
  free(path);
}

/* Sets one node; all nodes of smaller depth are complete. */
static void set_node(struct needles *self, const struct needle *needle, uint32_t depth) {
  uint32_t number = needle->start + depth;
  uint32_t parent = depth - 1 > needle->shared ? number - 1 : needle->parent;
  struct needle_node *node = &self->nodes[number];
  node->depth = depth & INT32_MAX;
  if (depth > 1)
    node->fail = needles_next(self, self->nodes[parent].fail, needle->bytes[depth - 1]);
  node->longest = depth == needle->length ? depth : self->nodes[node->fail].longest;
}

static void set_nodes(struct needles *self) {
  uint32_t *longer = memory_allocate(self->count * sizeof *longer);
  size_t left = self->count;
  for (size_t i = 0; i < left; i++)
    longer[i] = (uint32_t)i;
  for (uint32_t depth = 1; left > 0; depth++) {
    size_t kept = 0;
    for (size_t i = 0; i < left; i++) {
      const struct needle *needle = &self->list[longer[i]];
      if (depth > needle->shared)
        set_node(self, needle, depth);
      if (depth < needle->length)
        longer[kept++] = longer[i];
    }
    left = kept;
  }
  free(longer);
}

static void fill_filter(struct needles *self) {
  unsigned bits = FILTER_BITS_MIN;
  while (bits < FILTER_BITS_MAX && self->count * WINDOW_STRIDE * BITS_PER_WINDOW >> bits > 0)
    bits++;
  self->filter_shift = 32 - bits;
  self->filter = memory_zeros(((size_t)1 << bits) / 8);
  for (size_t i = 0; i < self->count; i++)
    for (size_t offset = 0; offset < WINDOW_STRIDE; offset++) {
      uint32_t hash = window_hash(self->list[i].bytes + offset, self->filter_shift);
      self->filter[hash / 64] |= UINT64_C(1) << (hash % 64);
    }
}

void needles_prepare(struct needles *self) {
  if (self->prepared == self->text.length)
    return;
  free(self->nodes);
  free(self->first);
  free(self->edges);
  free(self->filter);
  sort_needles(self);
  self->nodes = memory_zeros((self->text.length + 1) * sizeof *self->nodes);
  self->first = memory_zeros(256 * sizeof *self->first);
  make_edges(self);
  link_edges(self);
  set_nodes(self);
  fill_filter(self);
  self->prepared = self->text.length;
}
