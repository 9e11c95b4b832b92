#pragma once

#include "tests/support/http_agent.h"

/*
 * Runs the client under test (SANDBOX, or build/sandbox) with an agent over HTTP. In the script, $S
 * is the client, $U the URL of the agent, and SANDBOX_URL and HTTP_DIRECTORY are set.
 *
 *   http_sandbox_expect(http, "$S run -- sh -c 'echo a; exit 3'", 3, "a\n", "");
 */

/* Runs a shell script. The exit code and the output must be these; NULL allows anything. */
void http_sandbox_expect(struct http_agent *http, const char *script, int code, const char *output,
                         const char *errors);

/* Starts a script in the background. The caller frees it. */
struct agent_process *http_sandbox_start(struct http_agent *http, const char *script);

/* Waits until its output, or its standard error, holds this text. */
void http_sandbox_wait_output(struct agent_process *client, const char *text);

/* Waits for its end, and frees it. */
void http_sandbox_expect_end(struct agent_process *client, int code, const char *output,
                             const char *errors);
