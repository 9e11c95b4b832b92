#pragma once

#include "base/log.h"

/* Opens a log in memory, which is closed with its descriptor; counts a text in it. */
struct log logged_open(enum log_level least);
int logged_count(const struct log *log, const char *text);

/* Counts the occurrences of the part in the text. */
int logged_count_in(const char *text, const char *part);
