#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/*
 * A hash of the bytes (FNV-1a, 64 bits), to recognize texts that are too long to keep. It is the
 * same in every process. Not for use against an adversary: collisions are easy to make.
 */
uint64_t hash_bytes(const char *bytes, size_t length);

#endif
