#ifndef AGENT_TOOLS_ANSWER_H
#define AGENT_TOOLS_ANSWER_H

#include <stddef.h>

#include "agent/engine/run_end.h"
#include "base/buffer.h"

/*
 * What models read of a command that has ended, or of a file that was read. Pure.
 */

/* The end of a command: those of stdout, "STDERR: " and stderr, "(command timed out)" and "(exit
   code: 3)" that are not empty, a line each; "(no output)" when all are. */
void answer_command(const struct run_end *end, struct buffer *text);

/* Of readFile with its media type: what follows that line; the line itself is in front of it. */
struct run_stream answer_body(const struct run_end *end);

/* An image of so many bytes, for those who cannot show it. */
void answer_image(const char *type, size_t type_length, size_t bytes, struct buffer *text);

#endif
