#pragma once

#include "base/error.h"

/*
 * The form of the key of an agent with `--http` (docs/http.md, "With a key"), which the agent and
 * its clients check.
 */
#define HTTP_KEY_MIN 16
#define HTTP_KEY_MAX 256

/* Returns 0, or -1 with what is wrong: a key has 16 to 256 visible ASCII characters. The error does
   not repeat it. */
int http_key_check(const char *key, struct error *error);
