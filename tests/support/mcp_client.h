#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "tests/support/directory.h"
#include "tests/support/stdio_host.h"

/*
 * A client of `agent --mcp`, which is the program under test in an empty working directory. JSON is
 * written as for quoted(). The test fails if something does not happen within WAIT_BOUND_MS.
 *
 *   MCP_TEST(a_ping_is_answered) {
 *     mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'ping'}");
 *     mcp_client_expect(client, "{'jsonrpc':'2.0','id':1,'result':{}}");
 *   }
 *
 * If MCP_TRANSCRIPTS names a directory, each line is written to a file there, with "> " before
 * lines to the agent and "< " before others. tests/mcp/check_transcripts.mjs reads these files.
 */
struct mcp_client {
  struct stdio_host *host;
  char **lines; /* that were read */
  size_t line_count;
  size_t first; /* the first one of the program that was started last */
  size_t next;  /* the first one that mcp_client_line has not returned */
  struct directory directory;
  FILE *transcript; /* or NULL */
  char *sent;       /* bytes to be recorded that are not yet a whole line */
  size_t sent_length;
  size_t filled; /* for the test */
  int fills;
};

int mcp_client_set_up(void **state);
int mcp_client_tear_down(void **state);
#define MCP_TEST(NAME)                                                                             \
  TEST_WITH(struct mcp_client *client, NAME, mcp_client_set_up, mcp_client_tear_down)

/* Ends the program, which MCP_TEST has started with `--mcp`, and starts it again with `flag` (NULL:
   `--mcp`) and `other` (or NULL). */
void mcp_client_start(struct mcp_client *self, const char *flag, const char *other);

/* Sends the line and a newline. */
void mcp_client_send(struct mcp_client *self, const char *json);

/* Sends bytes unchanged; they must become lines. */
void mcp_client_send_bytes(struct mcp_client *self, const char *bytes, size_t length);
void mcp_client_end_input(struct mcp_client *self);

/* Sends initialize and initialized, and reads the answer. */
void mcp_client_initialize(struct mcp_client *self, const char *version);

/* Calls execute_command with this script, which must not contain quotes. If `progress` is true, the
   progress token is the id in quotes. */
void mcp_client_call(struct mcp_client *self, int id, const char *script, bool progress);

/* Calls a tool with these arguments, written without the braces. */
void mcp_client_call_tool(struct mcp_client *self, int id, const char *tool, const char *arguments);

/* Returns the next line; NULL at the end of the output. Valid until the teardown. */
const char *mcp_client_line(struct mcp_client *self);

/* Fails unless the next line is this one. */
void mcp_client_expect(struct mcp_client *self, const char *json);

/* Fails unless the next line contains this part; returns the line. */
const char *mcp_client_expect_part(struct mcp_client *self, const char *part);

/* Reads lines until the answer to this request, and returns it, to be freed. */
cJSON *mcp_client_answer(struct mcp_client *self, int id);

/* Fails unless the answer is this result of a call. */
void mcp_client_expect_called(struct mcp_client *self, int id, const char *text, bool is_error);

/* Sends a ping and reads until its answer: all earlier requests have been read. */
void mcp_client_sync(struct mcp_client *self);

/* The number of lines so far that contain this part. */
int mcp_client_count(const struct mcp_client *self, const char *part);

/* Reads to the end; returns the exit code, or the negative signal. */
int mcp_client_exit(struct mcp_client *self);

/* Waits until the directory has a file; opens a gate (tests/support/gate.h) in it. */
void mcp_client_await_file(struct mcp_client *self, const char *name);
void mcp_client_open_gate(struct mcp_client *self, const char *name);
bool mcp_client_has_file(const struct mcp_client *self, const char *name);

/* For a test that writes to the descriptor itself. */
void mcp_client_end_transcript(struct mcp_client *self);
