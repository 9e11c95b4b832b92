#ifndef AGENT_DOORS_MCP_SESSION_H
#define AGENT_DOORS_MCP_SESSION_H

#include <stdbool.h>

#include "agent/doors/mcp/message.h"
#include "agent/doors/mcp/reply.h"
#include "agent/doors/mcp/version.h"
#include "agent/tools/tool.h"
#include "base/buffer.h"

/*
 * Says what each message asks for, by the rules of the protocol. Nothing is pinned to an era: each
 * request says whether it is modern (message.h), and the others are of the version that the last
 * initialize has negotiated, before it of the newest legacy one. Pure.
 */
struct mcp_session {
  const struct mcp_server *server;
  bool serves_legacy;
  enum mcp_version version; /* of legacy requests */
  bool takes_batches;
};

struct mcp_session mcp_session_begin(const struct mcp_server *server);

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
  cJSON *arguments; /* an object, or NULL */
};

struct mcp_order mcp_session_take(struct mcp_session *self, const struct mcp_message *message,
                                  bool in_batch, struct buffer *answer);

/* Whether a line may be this batch; else the error was added. */
bool mcp_session_takes_batch(const struct mcp_session *self, int count, struct buffer *answer);

/* The most messages of a batch, whose answers leave together. */
#define MCP_BATCH_MAX 100

#endif
