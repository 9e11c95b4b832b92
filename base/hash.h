#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A hash of the bytes, to recognize texts that are too long to keep: FNV-1a for 64 bits, with the
   offset basis and the prime of its authors (draft-eastlake-fnv). It is the same in every process.
   Not for use against an adversary: collisions are easy to make. */
static inline uint64_t hash_bytes(const char *bytes, size_t length) {
  uint64_t value = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; i++)
    value = (value ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
  return value;
}

#endif
