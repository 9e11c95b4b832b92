#pragma once

#include <stdint.h>

/*
 * Random numbers, for ids and tokens that no other process must guess or repeat. The kernel makes
 * them, so that a forked process does not get the same ones.
 */

/* Returns a random number from the kernel's generator, even if getrandom(2) is missing. */
uint64_t random_u64(void);
