#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * SipHash-2-4 with 128 bits, by its authors' paper and reference (Aumasson, Bernstein: SipHash, a
 * fast short-input PRF). With a random key, nobody outside the process can construct two texts with
 * the same hash, so that a text can be recognized by it. Pure.
 */
struct siphash_key {
  uint64_t low, high;
};

struct siphash {
  uint64_t low, high;
};

struct siphash siphash_bytes(struct siphash_key key, const char *bytes, size_t length);
