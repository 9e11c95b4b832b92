#ifndef TESTS_SUPPORT_MCP_CLIENT_H
#define TESTS_SUPPORT_MCP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "tests/support/directory.h"
#include "tests/support/stdio_host.h"

/*
 * A client of `agent --mcp`: the program under test, its standard input and output in the test's
 * hands, its working directory empty. JSON is written as for quoted(). Whatever does not happen
 * within WAIT_BOUND_MS fails the test.
 *
 *   MCP_TEST(a_ping_is_answered) {
 *     mcp_client_start(client, NULL);
 *     mcp_client_send(client, "{'jsonrpc':'2.0','id':1,'method':'ping'}");
 *     mcp_client_expect(client, "{'jsonrpc':'2.0','id':1,'result':{}}");
 *   }
 *
 * Where MCP_TRANSCRIPTS names a directory, every line is written to a file there, with "> " before
 * those to the agent and "< " before the others: tests/mcp/check_transcripts.mjs reads them.
 */
struct mcp_client {
  struct stdio_host *host; /* NULL: not started */
  char **lines;            /* that were read */
  size_t line_count;
  size_t first; /* of the program that was started last */
  size_t next;  /* the first that mcp_client_line has not returned */
  struct directory directory;
  FILE *transcript; /* or NULL */
  char *sent;       /* to be recorded: of bytes that are no whole line yet */
  size_t sent_length;
  size_t filled; /* the test's own */
  int fills;
};

int mcp_client_set_up(void **state);
int mcp_client_tear_down(void **state);
#define MCP_TEST(NAME)                                                                             \
  TEST_WITH(struct mcp_client *client, NAME, mcp_client_set_up, mcp_client_tear_down)

/* `flag`: `--mcp` when NULL; `other`: one more, or NULL. May be called again after
   mcp_client_exit. */
void mcp_client_start(struct mcp_client *self, const char *flag, const char *other);

/* The line, and a newline. */
void mcp_client_send(struct mcp_client *self, const char *json);

/* Bytes as they are, which are lines in the end. */
void mcp_client_send_bytes(struct mcp_client *self, const char *bytes, size_t length);
void mcp_client_end_input(struct mcp_client *self);

/* initialize and initialized; the answer is read. */
void mcp_client_initialize(struct mcp_client *self, const char *version);

/* tools/call of execute_command with this script, which holds no quote. The progress token is the
   id, in quotes, when `progress` says so. */
void mcp_client_call(struct mcp_client *self, int id, const char *script, bool progress);

/* tools/call with these arguments: what is between the braces. */
void mcp_client_call_tool(struct mcp_client *self, int id, const char *tool, const char *arguments);

/* The next line; NULL at the end of the output. Valid until the client is torn down. */
const char *mcp_client_line(struct mcp_client *self);

/* The next line is this one. */
void mcp_client_expect(struct mcp_client *self, const char *json);

/* The next line has this part. */
const char *mcp_client_expect_part(struct mcp_client *self, const char *part);

/* Reads until the answer to the request with this id, also beyond other lines. To be freed. */
cJSON *mcp_client_answer(struct mcp_client *self, int id);

/* The answer is the result of a call. */
void mcp_client_expect_called(struct mcp_client *self, int id, const char *text, bool is_error);

/* ping: whatever was sent before it has been taken, and what follows is not of that. */
void mcp_client_sync(struct mcp_client *self);

/* How many of the lines that were read have this part. */
int mcp_client_count(const struct mcp_client *self, const char *part);

/* Reads to the end; its exit code, or minus the signal. */
int mcp_client_exit(struct mcp_client *self);

/* A file of its directory: waits until it is there. A gate (tests/support/gate.h) in it: opens
   it. */
void mcp_client_await_file(struct mcp_client *self, const char *name);
void mcp_client_open_gate(struct mcp_client *self, const char *name);
bool mcp_client_has_file(const struct mcp_client *self, const char *name);

/* For a test that writes to the descriptor itself. */
void mcp_client_end_transcript(struct mcp_client *self);

#endif
