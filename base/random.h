#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* From the kernel's generator; also where that cannot be asked directly. */
uint64_t random_u64(void);

#endif
