#ifndef TESTS_SUPPORT_LOGGED_H
#define TESTS_SUPPORT_LOGGED_H

#include "base/log.h"

/* A log in memory, which is closed with its descriptor; how often it has this text. */
struct log logged_open(enum log_level least);
int logged_count(const struct log *log, const char *text);

/* How often the part is in the text. */
int logged_count_in(const char *text, const char *part);

#endif
