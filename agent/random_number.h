#ifndef AGENT_RANDOM_NUMBER_H
#define AGENT_RANDOM_NUMBER_H

#include <stdint.h>

/* From the kernel's generator; also where that cannot be asked directly. */
uint64_t random_number(void);

#endif
