#pragma once

#include <stddef.h>
#include <stdint.h>

/* Writes whole numbers as decimal digits, without a NUL. printf(3) takes ten times as long, and
   each line of output needs several numbers. */

/* The number of digits of 2^64 - 1. */
#define DECIMAL_LENGTH_MAX 20

/* Returns how many digits the number has; 0 has one. */
size_t decimal_length(uint64_t number);

/* Writes decimal_length(number) digits and returns their end. */
char *decimal_write(char *out, uint64_t number);

/* Writes the last `digits` digits of the number, with leading zeros, and returns their end. */
char *decimal_write_padded(char *out, uint64_t number, size_t digits);
