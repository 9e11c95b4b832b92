#ifndef CLIENT_REDIS_REDIS_INFO_H
#define CLIENT_REDIS_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>

#include "client/program.h"

/* What the server says of itself, in answer to INFO. */

/* To be freed; NULL where it does not say. */
char *redis_info_read(struct program *program);

/* The value of a field; false: it has none. `info` may be NULL. */
bool redis_info_field(const char *info, const char *name, char *out, size_t size);

/* "7.0.15", "valkey 8.0.1"; false: it is not known. */
bool redis_info_version(const char *info, char *out, size_t size);

/* Warns that SCAN finds the jobs of one node alone, where that is so. */
void redis_info_warn_of_cluster(struct program *program);

#endif
