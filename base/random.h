#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* A random number from the kernel's generator, also where getrandom(2) is missing. */
uint64_t random_u64(void);

#endif
