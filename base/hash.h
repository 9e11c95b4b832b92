#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/*
 * A number that stands for these bytes, where they themselves are too many to keep. It is the same
 * in every process, and no defence: who wants two texts with one number can make them.
 */
uint64_t hash_bytes(const char *bytes, size_t length);

#endif
