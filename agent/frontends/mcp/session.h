#ifndef AGENT_FRONTENDS_MCP_SESSION_H
#define AGENT_FRONTENDS_MCP_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/execution_result.h"
#include "agent/frontends/mcp/message.h"
#include "agent/tools/tool.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * What each message asks for, by the rules of the protocol, and what is answered. Nothing is pinned
 * to an era: each request says whether it is modern (message.h), and the others are of the version
 * that the last initialize has negotiated, before it of the newest legacy one. Pure.
 */

/* The revisions of the Model Context Protocol that are served. Those before MCP_MODERN are
   "legacy": initialize negotiates one. MCP_MODERN has no session: each request names its
   version. */
enum mcp_version {
  MCP_2024_11_05,
  MCP_2025_03_26, /* + annotations of tools, messages of progress, batches */
  MCP_2025_06_18, /* + titles of tools, structured results; no batches */
  MCP_2025_11_25,
  MCP_2026_07_28, /* no initialize */
  MCP_VERSIONS
};

#define MCP_MODERN MCP_2026_07_28

/* Sets of versions: bit 1 << version. */
#define MCP_VERSIONS_ALL ((1U << MCP_VERSIONS) - 1)

/* "VERSION[,VERSION]…" Returns -1 when one is not known. */
int mcp_versions_parse(const char *text, unsigned *set, struct error *error);

/* Nothing is owned. */
struct mcp_session {
  /* The same for all that is sent: */
  const char *program_version;
  unsigned versions; /* that are served */
  bool structured;   /* results of commands in members, too, where the version has that */
  const struct tool_settings *tools;
  /* The session's own: */
  bool serves_legacy;
  enum mcp_version version; /* of legacy requests */
  bool takes_batches;
};

/* The first members are set. */
void mcp_session_begin(struct mcp_session *self);

enum mcp_order_kind {
  MCP_NOTHING, /* and no answer */
  MCP_ANSWER,  /* it was added to the buffer */
  MCP_CALL,    /* to be answered when the tool has ended */
  MCP_CANCEL   /* of the call with this id, if there is one */
};

/* All of it belongs to the message. */
struct mcp_order {
  enum mcp_order_kind kind;
  struct json_member id; /* of the call; of a cancel: whom */
  /* Of a call: */
  enum mcp_version version;
  struct json_member token;
  const struct tool *tool;
  cJSON *arguments;        /* an object, or NULL */
  const char *traceparent; /* NULL: none */
};

struct mcp_order mcp_session_take(struct mcp_session *self, const struct mcp_message *message,
                                  bool in_batch, struct buffer *answer);

/* Whether a line may be this batch; else the error was added. */
bool mcp_session_takes_batch(const struct mcp_session *self, int count, struct buffer *answer);

/* The most messages of a batch, whose answers leave together. */
#define MCP_BATCH_MAX 100

/* The others add one message each, without a line ending and without a newline inside of it: the
   error of a line that cannot be read, under its id where that can; */
void mcp_add_parse_error(struct buffer *out, struct json_member id, const struct error *reason);

/* the result of a call that has not run, with the reason for the model; of one that has; */
void mcp_add_refusal(const struct mcp_session *self, struct buffer *out, struct json_member id,
                     enum mcp_version version, const struct buffer *reason);
void mcp_add_result(const struct mcp_session *self, struct buffer *out, struct json_member id,
                    enum mcp_version version, const struct tool_call *call,
                    const struct execution_result *end);

/* the notification, whose message is left out where the version has none or it is empty. */
void mcp_add_progress(struct buffer *out, struct json_member token, enum mcp_version version,
                      int64_t elapsed_ms, const char *message, size_t length);

#endif
