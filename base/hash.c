#include "base/hash.h"

/* FNV-1a for 64 bits, with the offset basis and the prime of its authors: G. Fowler, L. C. Noll,
   K.-P. Vo, "The FNV Non-Cryptographic Hash Algorithm" (draft-eastlake-fnv). */
#define OFFSET_BASIS UINT64_C(0xcbf29ce484222325)
#define PRIME UINT64_C(0x100000001b3)

uint64_t hash_bytes(const char *bytes, size_t length) {
  uint64_t value = OFFSET_BASIS;
  for (size_t i = 0; i < length; i++)
    value = (value ^ (unsigned char)bytes[i]) * PRIME;
  return value;
}
