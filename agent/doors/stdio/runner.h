#ifndef AGENT_DOORS_STDIO_RUNNER_H
#define AGENT_DOORS_STDIO_RUNNER_H

#include "agent/doors/stdio/door.h"

/*
 * `tool-runner NAME`: one call. The input is the JSON object of the tool's arguments, which ends
 * with its last bracket: neither a newline nor the end of the input is waited for. The answer is one
 * line, {"output":…,"metadata":{…}}, and the program exits with
 *
 *   0     the tool succeeded
 *   1     it did not, or its arguments were refused
 *   64    there is no such tool
 *   141   nobody reads standard output any more (128 + SIGPIPE)
 *   3     that cannot be written
 *   128+N signal N
 *
 * The tool of the options need not be one; NULL: none was named. The deadline counts from here.
 */
struct door *runner_new(struct event_base *base, const struct log *log,
                        const struct stdio_door_options *options);
void runner_free(struct door *door);

#endif
