#ifndef AGENT_KINDS_COMMAND_TEXT_H
#define AGENT_KINDS_COMMAND_TEXT_H

#include <stddef.h>

/*
 * Writes a command for a log line, with a NUL: its words in single quotes where they need them; of
 * `sh -c` and its like only the script. Ends with "..." when it was cut at the buffer's end;
 * `size` is at least 4. Pure.
 */
void command_text(const char *command, char *const *args, char *out, size_t size);

#endif
