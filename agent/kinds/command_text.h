#ifndef AGENT_KINDS_COMMAND_TEXT_H
#define AGENT_KINDS_COMMAND_TEXT_H

#include <stddef.h>

/*
 * A command for a log line: its words with single quotes where they need them, or, for `sh -c` and
 * its like, the script alone. Cut at the buffer's end, marked with "...", so that `size`
 * is at least 4. Pure.
 */
void command_text(const char *command, char *const *args, char *out, size_t size);

#endif
