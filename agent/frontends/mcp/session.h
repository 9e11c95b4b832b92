#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/execution_result.h"
#include "agent/frontends/mcp/message.h"
#include "agent/tools/tool.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * Decides what each message asks for, by the rules of the Model Context Protocol, and writes
 * answers. The hard part is that one process serves all versions: each request tells whether it is
 * modern (message.h), and other requests have the version that the last initialize has negotiated,
 * or before it the newest legacy one. Pure.
 */

/* The supported versions of the protocol. initialize negotiates a "legacy" one, which is any before
   MCP_MODERN. MCP_MODERN has no session: each request names its version. */
enum mcp_version {
  MCP_2024_11_05,
  MCP_2025_03_26, /* + annotations of tools, messages of progress, batches */
  MCP_2025_06_18, /* + titles of tools, structured results; no batches */
  MCP_2025_11_25,
  MCP_2026_07_28, /* no initialize */
  MCP_VERSIONS
};

#define MCP_MODERN MCP_2026_07_28

/* A set of versions has the bits 1 << version. */
#define MCP_VERSIONS_ALL ((1U << MCP_VERSIONS) - 1)

/* Returns MCP_VERSIONS if the name is unknown. */
enum mcp_version mcp_version_find(const char *name);
const char *mcp_version_name(enum mcp_version version);

/* Parses "VERSION[,VERSION]…". Returns -1 if one is unknown. */
int mcp_versions_parse(const char *text, unsigned *set, struct error *error);

/* Nothing is owned. The first four members are set by the owner, before mcp_session_begin. */
struct mcp_session {
  const char *program_version;
  unsigned versions; /* the set that is served */
  bool structured;   /* results of commands also have structuredContent, if the version knows it */
  const struct tool_settings *tools;
  unsigned named; /* the set that a request may name without initialize */
  bool serves_legacy;
  enum mcp_version version; /* of legacy requests */
  bool takes_batches;
};

void mcp_session_begin(struct mcp_session *self);

bool mcp_session_serves(const struct mcp_session *self, enum mcp_version version);

/* For a transport without sessions: gives all further messages this version, which is served. It is
   called for a copy of the session, which serves the messages of one request. */
void mcp_session_use(struct mcp_session *self, enum mcp_version version);

/* Codes of JSON-RPC and of MCP. */
enum mcp_error {
  MCP_NO_ERROR = 0,
  MCP_PARSE_ERROR = -32700,
  MCP_INVALID_REQUEST = -32600,
  MCP_METHOD_NOT_FOUND = -32601,
  MCP_INVALID_PARAMS = -32602,
  MCP_HEADER_MISMATCH = -32020,
  MCP_UNSUPPORTED_VERSION = -32022
};

enum mcp_action_kind {
  MCP_NOTHING,
  MCP_ANSWER, /* the answer was appended to the buffer; the caller ends it */
  MCP_CALL,   /* the caller runs the tool and answers when it has ended */
  MCP_CANCEL  /* the caller cancels the call with this id, if there is one */
};

/* What the owner of a session must do. The message owns all members. */
struct mcp_action {
  enum mcp_action_kind kind;
  enum mcp_error error;  /* of an answer */
  struct json_member id; /* of the call, or of the call to cancel */
  /* Of a call: */
  enum mcp_version version;
  struct json_member token;
  const struct tool *tool;
  cJSON *arguments;        /* an object, or NULL */
  const char *traceparent; /* NULL: none */
};

struct mcp_action mcp_session_handle(struct mcp_session *self, const struct mcp_message *message,
                                     bool in_batch, struct buffer *answer);

/* Returns true if a line may be a batch of `count` messages; otherwise appends the error. */
bool mcp_session_accept_batch(const struct mcp_session *self, int count, struct buffer *answer);

/* The most messages of a batch. */
#define MCP_BATCH_MAX 100

/* Each of these appends one message, without a line ending and without a newline in it: */

void mcp_add_error(struct buffer *out, struct json_member id, enum mcp_error code,
                   const char *message);

/* Adds the error for a version that is not served. It names those of `named`. */
void mcp_add_version_error(const struct mcp_session *self, struct buffer *out,
                           struct json_member id, const char *requested);

/* Adds the error for a line that cannot be parsed. */
void mcp_add_parse_error(struct buffer *out, struct json_member id, const struct error *reason);

/* The result of a call that was not executed, with the reason for the model; of one that was. */
void mcp_add_refusal(const struct mcp_session *self, struct buffer *out, struct json_member id,
                     enum mcp_version version, const struct buffer *reason);
void mcp_add_result(const struct mcp_session *self, struct buffer *out, struct json_member id,
                    enum mcp_version version, const struct tool_call *call,
                    const struct execution_result *end);

/* Adds a notification of progress. Its message is left out if it is empty or the version has
   none. */
void mcp_add_progress(struct buffer *out, struct json_member token, enum mcp_version version,
                      int64_t elapsed_ms, const char *message, size_t length);
