#include "agent/doors/mcp/session.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* One request on its way through the rules. */
struct turn {
  struct mcp_session *session;
  const struct mcp_server *server;
  const struct mcp_message *message;
  enum mcp_version version;
  bool in_batch;
  struct buffer *answer;
};

static const struct mcp_order nothing = {.kind = MCP_NOTHING};
static const struct mcp_order answered = {.kind = MCP_ANSWER};

struct mcp_session mcp_session_begin(const struct mcp_server *server) {
  struct mcp_session self = {.server = server};
  self.serves_legacy = mcp_versions_legacy(server->versions, &self.version);
  return self;
}

static struct mcp_order refuse(const struct turn *self, int code, const char *message) {
  mcp_add_error(self->answer, self->message->id, code, message);
  return answered;
}

/* The most of a value that an error repeats, in bytes. */
#define VALUE_SHOWN_MAX 200

static struct mcp_order refuse_value(const struct turn *self, int code, const char *message,
                                     const char *value) {
  char text[256];
  const size_t length = strlen(value);
  const size_t shown = length < VALUE_SHOWN_MAX ? length : utf8_cut(value, VALUE_SHOWN_MAX);
  (void)snprintf(text, sizeof text, "%s: %.*s", message, (int)shown, value);
  return refuse(self, code, text);
}

static bool is_absent(const cJSON *value) {
  return value == NULL || cJSON_IsNull(value);
}

static cJSON *parameter(const struct turn *self, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(self->message->params, name);
}

/* --- methods --------------------------------------------------------------------------------- */

static struct mcp_order initialize(const struct turn *self) {
  const cJSON *asked = parameter(self, "protocolVersion");
  struct mcp_session *session = self->session;
  if (self->in_batch)
    return refuse(self, MCP_ERROR_INVALID_REQUEST, "Invalid Request: initialize in a batch");
  enum mcp_version version;
  (void)mcp_versions_legacy(self->server->versions, &session->version);
  if (cJSON_IsString(asked) && mcp_version_find(asked->valuestring, &version) &&
      version < MCP_MODERN && mcp_versions_have(self->server->versions, version))
    session->version = version;
  session->takes_batches = session->version == MCP_2025_03_26;
  mcp_add_initialized(self->answer, self->message->id, session->version, self->server);
  return answered;
}

static struct mcp_order discover(const struct turn *self) {
  mcp_add_discovered(self->answer, self->message->id, self->server);
  return answered;
}

static struct mcp_order list_tools(const struct turn *self) {
  const cJSON *cursor = parameter(self, "cursor");
  /* There is one page, so that no cursor was ever given out. */
  if (!is_absent(cursor) && !(cJSON_IsString(cursor) && cursor->valuestring[0] == '\0'))
    return refuse(self, MCP_ERROR_INVALID_PARAMS, "Invalid params: unknown cursor");
  mcp_add_tools(self->answer, self->message->id, self->version, self->server);
  return answered;
}

static struct mcp_order call_tool(const struct turn *self) {
  const cJSON *name = parameter(self, "name");
  cJSON *arguments = parameter(self, "arguments");
  if (!cJSON_IsString(name))
    return refuse(self, MCP_ERROR_INVALID_PARAMS, "Invalid params: name: expected a string");
  if (!is_absent(arguments) && !cJSON_IsObject(arguments))
    return refuse(self, MCP_ERROR_INVALID_PARAMS, "Invalid params: arguments: expected an object");
  const struct tool *tool = tool_find(name->valuestring);
  if (tool == NULL)
    return refuse_value(self, MCP_ERROR_INVALID_PARAMS, "Unknown tool", name->valuestring);
  return (struct mcp_order){.kind = MCP_CALL,
                            .id = self->message->id,
                            .version = self->version,
                            .token = self->message->token,
                            .tool = tool,
                            .arguments = is_absent(arguments) ? NULL : arguments};
}

static struct mcp_order answer_empty(const struct turn *self, const char *list) {
  mcp_add_empty(self->answer, self->message->id, list);
  return answered;
}

static struct mcp_order ping(const struct turn *self) {
  return answer_empty(self, NULL);
}

/* Not declared; but some clients take an error for the end of the server. */
static struct mcp_order list_prompts(const struct turn *self) {
  return answer_empty(self, "prompts");
}

static struct mcp_order list_resources(const struct turn *self) {
  return answer_empty(self, "resources");
}

static struct mcp_order list_templates(const struct turn *self) {
  return answer_empty(self, "resourceTemplates");
}

enum era { LEGACY = 1, MODERN = 2, BOTH = LEGACY | MODERN };

static const struct method {
  const char *name;
  enum era eras;
  struct mcp_order (*take)(const struct turn *self);
} methods[] = {
    {"tools/call", BOTH, call_tool},
    {"tools/list", BOTH, list_tools},
    {"ping", LEGACY, ping},
    {"initialize", LEGACY, initialize},
    {"server/discover", MODERN, discover},
    {"prompts/list", LEGACY, list_prompts},
    {"resources/list", LEGACY, list_resources},
    {"resources/templates/list", LEGACY, list_templates},
};

/* A client of an older version learns from the text which version to ask for. */
static struct mcp_order refuse_initialize(const struct turn *self) {
  char text[128];
  (void)snprintf(text, sizeof text, "Method not found: initialize (served without it: %s)",
                 mcp_version_name(MCP_MODERN));
  mcp_add_version_error(self->answer, self->message->id, MCP_ERROR_METHOD_NOT_FOUND, text, NULL);
  return answered;
}

static struct mcp_order dispatch(const struct turn *self) {
  const char *name = self->message->method;
  bool is_modern = self->version >= MCP_MODERN;
  if (is_modern && strcmp(name, "initialize") == 0)
    return refuse_initialize(self);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcmp(methods[i].name, name) == 0 &&
        (methods[i].eras & (is_modern ? MODERN : LEGACY)) != 0) {
      if (self->message->params_unusable)
        return refuse(self, MCP_ERROR_INVALID_PARAMS, "Invalid params: expected an object");
      return methods[i].take(self);
    }
  return refuse_value(self, MCP_ERROR_METHOD_NOT_FOUND, "Method not found", name);
}

/* --- eras ------------------------------------------------------------------------------------ */

static const cJSON *meta_of(const struct turn *self, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(self->message->meta, name);
}

static bool is_log_level(const cJSON *value) {
  static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                       "error", "critical", "alert",  "emergency"};
  for (size_t i = 0; cJSON_IsString(value) && i < sizeof levels / sizeof *levels; i++)
    if (strcmp(levels[i], value->valuestring) == 0)
      return true;
  return false;
}

/* Nothing is ever logged to the client; a level is only checked. */
static struct mcp_order take_modern(const struct turn *self) {
  const cJSON *version = meta_of(self, MCP_META_VERSION);
  const cJSON *level = meta_of(self, MCP_META_LOG_LEVEL);
  if (self->in_batch)
    return refuse(self, MCP_ERROR_INVALID_REQUEST, "Invalid Request: in a batch");
  if (strcmp(self->message->method, "initialize") == 0 && version == NULL)
    return refuse_initialize(self);
  if (!cJSON_IsString(version))
    return refuse(self, MCP_ERROR_INVALID_PARAMS,
                  "Missing required _meta field: " MCP_META_VERSION);
  if (strcmp(version->valuestring, mcp_version_name(MCP_MODERN)) != 0) {
    mcp_add_version_error(self->answer, self->message->id, MCP_ERROR_UNSUPPORTED_VERSION,
                          "Unsupported protocol version", version->valuestring);
    return answered;
  }
  if (!cJSON_IsObject(meta_of(self, MCP_META_CAPABILITIES)))
    return refuse(self, MCP_ERROR_INVALID_PARAMS,
                  "Missing required _meta field: " MCP_META_CAPABILITIES);
  if (level != NULL && !is_log_level(level))
    return refuse(self, MCP_ERROR_INVALID_PARAMS, "Invalid params: unknown log level");
  return dispatch(self);
}

static bool is_modern(const struct mcp_session *self, const struct mcp_message *message) {
  if (!self->serves_legacy)
    return true;
  return mcp_versions_have(self->server->versions, MCP_MODERN) &&
         (message->is_modern || strcmp(message->method, "server/discover") == 0);
}

static struct mcp_order take_request(struct mcp_session *self, const struct mcp_message *message,
                                     bool in_batch, struct buffer *answer) {
  bool modern = is_modern(self, message);
  const struct turn turn = {.session = self,
                            .server = self->server,
                            .message = message,
                            .version = modern ? MCP_MODERN : self->version,
                            .in_batch = in_batch,
                            .answer = answer};
  return modern ? take_modern(&turn) : dispatch(&turn);
}

struct mcp_order mcp_session_take(struct mcp_session *self, const struct mcp_message *message,
                                  bool in_batch, struct buffer *answer) {
  if (message->kind == MCP_REQUEST)
    return take_request(self, message, in_batch, answer);
  if (message->kind == MCP_INVALID) {
    char text[128];
    (void)snprintf(text, sizeof text, "Invalid Request: %s", message->reason);
    mcp_add_error(answer, message->id, MCP_ERROR_INVALID_REQUEST, text);
    return answered;
  }
  if (message->kind == MCP_NOTIFICATION && message->target.text != NULL &&
      strcmp(message->method, "notifications/cancelled") == 0)
    return (struct mcp_order){.kind = MCP_CANCEL, .id = message->target};
  return nothing;
}

bool mcp_session_takes_batch(const struct mcp_session *self, int count, struct buffer *answer) {
  char text[128];
  if (self->takes_batches && count > 0 && count <= MCP_BATCH_MAX)
    return true;
  if (!self->takes_batches)
    (void)snprintf(text, sizeof text,
                   "Invalid Request: expected an object; batches are of protocol version %s only",
                   mcp_version_name(MCP_2025_03_26));
  else
    (void)snprintf(text, sizeof text, "Invalid Request: expected a batch of 1 to %d messages",
                   MCP_BATCH_MAX);
  mcp_add_error(answer, (struct json_member){0}, MCP_ERROR_INVALID_REQUEST, text);
  return false;
}
