#ifndef WIRE_JSON_NAMES_H
#define WIRE_JSON_NAMES_H

#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/error.h"

/*
 * The names of a JSON object's members: each is there once, and an error tells them on one short
 * line. Pure.
 */

/* 0, or -1 with "<path>.<name>: expected once, got it twice"; an object at the top has the path "".
   Which of several is told is not defined. Takes n log n time, whatever the names are. */
int json_names_unique(const cJSON *object, const char *path, struct error *error);

/* "<path>.<name>", such as env.PATH. What is behind a "=" in a name may be meant as a value, and
   values are not shown. */
#define JSON_NAMES_PATH_SIZE 80
void json_names_path(char out[JSON_NAMES_PATH_SIZE], const char *path, const char *name);

/* A name, or what else is short: its ASCII, one question mark for each other character, and "..."
   when that is not all. The size is with its NUL. */
#define JSON_NAMES_SHOWN_SIZE 41
void json_names_show(char out[JSON_NAMES_SHOWN_SIZE], const char *text, size_t length);

#endif
