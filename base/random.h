#pragma once

#include <stdint.h>

/* Returns a random number from the kernel's generator, even if getrandom(2) is missing. */
uint64_t random_u64(void);
