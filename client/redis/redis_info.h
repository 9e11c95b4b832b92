#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/program.h"

/*
 * Asks Redis for its INFO and reads fields of it, for the commands that show them. Redis may refuse
 * it, and the commands then go on without it.
 */

/* Returns Redis' answer to INFO, which the caller frees, or NULL if Redis refuses. */
char *redis_info_read(struct program *program);

/* Copies the value of a field. Returns false if there is none; `info` may be NULL. */
bool redis_info_field(const char *info, const char *name, char *out, size_t size);

/* Copies "7.0.15" or "valkey 8.0.1". Returns false if the version is unknown. */
bool redis_info_version(const char *info, char *out, size_t size);

/* In a cluster, warns that SCAN lists the jobs of a single node. */
void redis_info_warn_of_cluster(struct program *program);
