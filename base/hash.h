#pragma once

#include <stddef.h>
#include <stdint.h>

/* Hashes bytes, to recognize texts that are too long to keep: FNV-1a with 64 bits, by the constants
   of its authors (draft-eastlake-fnv), the same in every process. Collisions are easy to construct,
   so it does not protect against an adversary. */
static inline uint64_t hash_bytes(const char *bytes, size_t length) {
  uint64_t value = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; i++)
    value = (value ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
  return value;
}
