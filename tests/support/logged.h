#pragma once

#include "base/log.h"

/* A log in memory, so that a unit test can count the lines that a module writes. */

/* Opens the log, which is closed with its descriptor; counts a text in it. */
struct log logged_open(enum log_level least);
int logged_count(const struct log *log, const char *text);

/* Counts the occurrences of the part in the text. */
int logged_count_in(const char *text, const char *part);
