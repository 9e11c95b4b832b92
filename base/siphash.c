#include "base/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
  uint64_t a, b, c, d; /* the paper's v0 to v3 */
};

static uint64_t rotate(uint64_t word, unsigned bits) {
  return word << bits | word >> (64 - bits);
}

static void mix(struct state *v, int rounds) {
  while (rounds-- > 0) {
    v->a += v->b;
    v->b = rotate(v->b, 13) ^ v->a;
    v->a = rotate(v->a, 32);
    v->c += v->d;
    v->d = rotate(v->d, 16) ^ v->c;
    v->a += v->d;
    v->d = rotate(v->d, 21) ^ v->a;
    v->c += v->b;
    v->b = rotate(v->b, 17) ^ v->c;
    v->c = rotate(v->c, 32);
  }
}

static void add_word(struct state *v, uint64_t word) {
  v->d ^= word;
  mix(v, 2);
  v->a ^= word;
}

static uint64_t finish(struct state *v) {
  mix(v, 4);
  return v->a ^ v->b ^ v->c ^ v->d;
}

struct siphash siphash_bytes(struct siphash_key key, const char *bytes, size_t length) {
  /* "somepseudorandomlygeneratedbytes", as the paper says; 0xee and 0xdd are for 128 bits. */
  struct state v = {
      key.low ^ UINT64_C(0x736f6d6570736575), key.high ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
      key.low ^ UINT64_C(0x6c7967656e657261), key.high ^ UINT64_C(0x7465646279746573)};
  struct siphash hash;
  uint64_t word;
  size_t at = 0;
  for (; length - at >= sizeof word; at += sizeof word) {
    memcpy(&word, bytes + at, sizeof word);
    add_word(&v, le64toh(word));
  }
  word = 0;
  if (length > at)
    memcpy(&word, bytes + at, length - at);
  add_word(&v, le64toh(word) | (uint64_t)length << 56);
  v.c ^= 0xee;
  hash.low = finish(&v);
  v.b ^= 0xdd;
  hash.high = finish(&v);
  return hash;
}
