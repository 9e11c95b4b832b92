#ifndef AGENT_TOOLS_ANSWER_H
#define AGENT_TOOLS_ANSWER_H

#include <stddef.h>

#include "agent/engine/run_result.h"
#include "base/buffer.h"

/*
 * What models read of a run that has ended. Pure. All of them add to a `text` that is empty, but for
 * answer_warnings, which comes last.
 */

/* The most bytes of an answer, but for the line that says that it was cut: "... (truncated at 100
   KB)" after the last whole line. */
#define ANSWER_MAX ((size_t)102400)

/* Stands at the end of a command's stream that was cut. */
#define ANSWER_CUT_MARK "...(truncated)"

/* The end of a command: those of stdout, "STDERR: " and stderr, "(command timed out)" and "(exit
   code: 3)" that are not empty, a line each; "(no output)" when all are. */
void answer_command(const struct run_result *result, struct buffer *text);

/* "... (the warning)", a line for each warning of a file kind. Where a warning begins with
   `subject`, that is left out. */
void answer_warnings(const struct run_result *result, const char *subject, struct buffer *text);

/* Of listFiles: type, size and name of each entry, a line each, or "(empty directory)". */
void answer_listing(const struct run_result *result, struct buffer *text);

/* Of grep: "path:12:text", for context "path-11-text"; "path"; or "path:3"; or "(no matches)". */
void answer_matches(const struct run_result *result, struct buffer *text);

/* Of readFile with its media type: what follows that line; the line itself is in front of it. */
struct run_stream answer_body(const struct run_result *result);

/* An image of so many bytes, for those who cannot show it. */
void answer_image(const char *type, size_t type_length, size_t bytes, struct buffer *text);

/* The content as it is. */
void answer_content(const struct run_result *result, struct buffer *text);

#endif
