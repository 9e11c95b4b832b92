#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What libFuzzer calls with one input; 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold, whatever the input is. */
static inline void demand(bool promise) {
  if (!promise)
    abort();
}

#endif
