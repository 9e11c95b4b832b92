#ifndef AGENT_FILES_GLOB_GLOB_NAMES_H
#define AGENT_FILES_GLOB_GLOB_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Does a name fit one component of a glob (agent/files/glob.h)? Pure. The components of one glob
 * are compiled into one store.
 *
 *   glob_names_init(&names, bytes)       of all the text that will be added
 *   glob_names_add(&names, &name, text, length, &error)
 *   glob_names_fits(&names, &name, "main.c", 6)
 *   glob_names_release(&names)
 */
struct glob_names {
  struct glob_token *tokens;
  struct glob_range *ranges;
  size_t token_count;
  size_t range_count;
};

struct glob_name {
  size_t token; /* index of the first */
  size_t tokens;
};

void glob_names_init(struct glob_names *self, size_t bytes);
void glob_names_release(struct glob_names *self);

/* A checked text without braces and without "/"; empty is one, too. 0, or -1 with an error for a
   range that runs backwards. */
int glob_names_add(struct glob_names *self, struct glob_name *name, const char *text, size_t length,
                   struct error *error);

/* In which byte every name ends that fits, or -1. */
int glob_names_last_byte(const struct glob_names *self, const struct glob_name *name);

/* Time is at most in proportion to the product of both lengths. */
bool glob_names_fits(const struct glob_names *self, const struct glob_name *name, const char *text,
                     size_t length);

#endif
