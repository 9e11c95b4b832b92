#include "agent/frontends/mcp/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/tools/answer.h"
#include "base/memory.h"
#include "base/utf8.h"

#define SERVER "{\"name\":\"sandbox-agent\",\"version\":\"%s\"}"
#define CACHE_MEMBERS ",\"ttlMs\":3600000,\"cacheScope\":\"public\""

/* Instructions for the model. Clients cut those of 2 KB or more. */
static const char instructions[] =
    "Commands and files of one Linux sandbox, with no state between calls but its files and what "
    "runs in the background. Relative paths start at the working directory of this server.\n\n"
    "- execute_command runs a shell command line and returns stdout, stderr and the exit code. "
    "Each call is a new shell: `cd` and `export` do not last, so pass workdir and env. With args "
    "it runs the program itself, without a shell and without quoting. It has no terminal; standard "
    "input is empty unless stdin is given.\n"
    "- A command that exceeds its timeout is ended, with all that it started. Pass a higher "
    "timeout for builds and tests. To keep a server running, start it in the background with its "
    "output in a file: `server >log 2>&1 &`.\n"
    "- Of a stream of more than 50 KB the first and the last 25 KB are returned. Filter the "
    "output, or write it to a file and read the part that matters.\n"
    "- Prefer read_file (offset and limit page through long files), edit_file, grep, "
    "list_directory and directory_tree to cat, sed, find and ls: they need no quoting, and say "
    "exactly what is wrong. edit_file replaces text that occurs exactly once, all edits or none.\n"
    "- Calls run at the same time when they are sent together: wait for a result that the next "
    "call needs.";

/* --- versions -------------------------------------------------------------------------------- */

static const char *const version_names[MCP_VERSIONS] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                                        "2025-11-25", "2026-07-28"};

static enum mcp_version find_version(const char *name, size_t length) {
  unsigned i = 0;
  while (i < MCP_VERSIONS &&
         (strlen(version_names[i]) != length || memcmp(version_names[i], name, length) != 0))
    i++;
  return (enum mcp_version)i;
}

enum mcp_version mcp_version_find(const char *name) {
  return find_version(name, strlen(name));
}

const char *mcp_version_name(enum mcp_version version) {
  return version_names[version];
}

int mcp_versions_parse(const char *text, unsigned *set, struct error *error) {
  unsigned found = 0;
  for (;; text++) {
    size_t length = strcspn(text, ",");
    enum mcp_version version = find_version(text, length);
    if (version == MCP_VERSIONS)
      return error_set(error,
                       "expected versions of MCP (%s, %s, %s, %s, %s) and commas, got '%.*s'",
                       version_names[0], version_names[1], version_names[2], version_names[3],
                       version_names[4], (int)(length < 40 ? length : 40), text);
    found |= 1U << version;
    text += length;
    if (*text == '\0')
      break;
  }
  *set = found;
  return 0;
}

bool mcp_session_serves(const struct mcp_session *self, enum mcp_version version) {
  return (self->versions >> version & 1) != 0;
}

/* Selects the newest legacy version; returns false if none is served. */
static bool use_newest_legacy(struct mcp_session *self) {
  for (unsigned i = MCP_MODERN; i-- > 0;)
    if (mcp_session_serves(self, (enum mcp_version)i)) {
      self->version = (enum mcp_version)i;
      return true;
    }
  return false;
}

void mcp_session_begin(struct mcp_session *self) {
  self->serves_legacy = use_newest_legacy(self);
  self->named = 1U << MCP_MODERN;
}

void mcp_session_use(struct mcp_session *self, enum mcp_version version) {
  if (version == MCP_MODERN) {
    self->serves_legacy = false;
    return;
  }
  self->versions &= ~(1U << MCP_MODERN);
  self->version = version;
  self->takes_batches = version == MCP_2025_03_26;
}

/* --- answers --------------------------------------------------------------------------------- */

static void add_text(struct buffer *out, const char *name, const char *text) {
  buffer_add_string(out, name);
  buffer_add_json(out, text, strlen(text));
}

/* Begins an answer up to its `error` or `result`. Without a valid id, the answer has none. */
static void open_response(struct buffer *out, struct json_member id, const char *member) {
  buffer_add_string(out, "{\"jsonrpc\":\"2.0\",");
  if (id.text != NULL)
    buffer_add_format(out, "\"id\":%.*s,", (int)id.length, id.text);
  buffer_add_format(out, "\"%s\":{", member);
}

/* Ends a result, with the members that the version requires. */
static void close_result(const struct mcp_session *self, struct buffer *out,
                         enum mcp_version version) {
  if (version >= MCP_MODERN)
    buffer_add_format(out,
                      ",\"resultType\":\"complete\",\"_meta\":{"
                      "\"io.modelcontextprotocol/serverInfo\":" SERVER "}",
                      self->program_version);
  buffer_add_string(out, "}}");
}

static void open_error(struct buffer *out, struct json_member id, enum mcp_error code,
                       const char *message) {
  open_response(out, id, "error");
  buffer_add_format(out, "\"code\":%d,\"message\":", code);
  add_text(out, "", message);
}

void mcp_add_error(struct buffer *out, struct json_member id, enum mcp_error code,
                   const char *message) {
  open_error(out, id, code, message);
  buffer_add_string(out, "}}");
}

void mcp_add_parse_error(struct buffer *out, struct json_member id, const struct error *reason) {
  char text[300];
  (void)snprintf(text, sizeof text, "Parse error: %s", reason->text);
  mcp_add_error(out, id, MCP_PARSE_ERROR, text);
}

/* Adds the versions that need no initialize, the newest first. */
static void add_named(const struct mcp_session *self, struct buffer *out) {
  const char *separator = "";
  buffer_add_string(out, "[");
  for (unsigned i = MCP_VERSIONS; i-- > 0;)
    if ((self->named >> i & 1) != 0) {
      buffer_add_format(out, "%s\"%s\"", separator, version_names[i]);
      separator = ",";
    }
  buffer_add_string(out, "]");
}

/* `requested` may be NULL. */
static void add_version_error(const struct mcp_session *self, struct buffer *out,
                              struct json_member id, enum mcp_error code, const char *message,
                              const char *requested) {
  open_error(out, id, code, message);
  buffer_add_string(out, ",\"data\":{\"supported\":");
  add_named(self, out);
  if (requested != NULL)
    add_text(out, ",\"requested\":", requested);
  buffer_add_string(out, "}}}");
}

void mcp_add_version_error(const struct mcp_session *self, struct buffer *out,
                           struct json_member id, const char *requested) {
  add_version_error(self, out, id, MCP_UNSUPPORTED_VERSION, "Unsupported protocol version",
                    requested);
}

static void open_text_result(struct buffer *out, struct json_member id, const struct buffer *text) {
  open_response(out, id, "result");
  buffer_add_string(out, "\"content\":[{\"type\":\"text\",\"text\":");
  buffer_add_json(out, text->length > 0 ? text->bytes : "", text->length);
}

/* Base64 and media types need no escapes. */
static void open_image_result(struct buffer *out, struct json_member id,
                              const struct tool_image *image) {
  open_response(out, id, "result");
  buffer_add_string(out, "\"content\":[{\"type\":\"image\",\"data\":\"");
  buffer_add(out, image->base64, image->length);
  buffer_add_format(out, "\",\"mimeType\":\"%.*s\"", (int)image->type_length, image->type);
}

void mcp_add_refusal(const struct mcp_session *self, struct buffer *out, struct json_member id,
                     enum mcp_version version, const struct buffer *reason) {
  open_text_result(out, id, reason);
  buffer_add_string(out, "}],\"isError\":true");
  close_result(self, out, version);
}

static bool has_structured(const struct mcp_session *self, enum mcp_version version) {
  return self->structured && version >= MCP_2025_06_18;
}

void mcp_add_result(const struct mcp_session *self, struct buffer *out, struct json_member id,
                    enum mcp_version version, const struct tool_call *call,
                    const struct execution_result *end) {
  struct tool_image image;
  struct buffer text = {0};
  bool is_error = tool_call_answer(call, end, &text);
  if (tool_call_image(call, end, &image))
    open_image_result(out, id, &image);
  else
    open_text_result(out, id, &text);
  buffer_add_string(out, "}]");
  if (has_structured(self, version) && tool_is_command(call->tool)) {
    buffer_add_string(out, ",\"structuredContent\":");
    answer_outcome(ANSWER_STRUCTURED, end, out);
  }
  buffer_add_string(out, is_error ? ",\"isError\":true" : ",\"isError\":false");
  close_result(self, out, version);
  buffer_release(&text);
}

void mcp_add_progress(struct buffer *out, struct json_member token, enum mcp_version version,
                      int64_t elapsed_ms, const char *message, size_t length) {
  const int64_t positive_ms = elapsed_ms > 0 ? elapsed_ms : 0;
  buffer_add_format(out,
                    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                    "\"progressToken\":%.*s,\"progress\":%" PRId64 ".%03d",
                    (int)token.length, token.text, positive_ms / 1000, (int)(positive_ms % 1000));
  if (version >= MCP_2025_03_26 && length > 0) {
    buffer_add_string(out, ",\"message\":");
    buffer_add_json(out, message, length);
  }
  buffer_add_string(out, "}}");
}

/* --- requests -------------------------------------------------------------------------------- */

struct request_context {
  struct mcp_session *session;
  const struct mcp_message *message;
  enum mcp_version version;
  bool in_batch;
  struct buffer *answer;
};

static const struct mcp_action answered = {.kind = MCP_ANSWER};

static struct mcp_action refused(enum mcp_error code) {
  return (struct mcp_action){.kind = MCP_ANSWER, .error = code};
}

static struct mcp_action refuse(const struct request_context *self, enum mcp_error code,
                                const char *message) {
  mcp_add_error(self->answer, self->message->id, code, message);
  return refused(code);
}

/* The most bytes of a value that an error repeats. */
#define VALUE_SHOWN_MAX 200

static struct mcp_action refuse_value(const struct request_context *self, enum mcp_error code,
                                      const char *message, const char *value) {
  char text[256], *masked = memory_copy(value, strlen(value));
  mask_string(self->session->tools->masker, masked, false);
  const size_t length = strlen(masked);
  const size_t shown = length < VALUE_SHOWN_MAX ? length : utf8_cut(masked, VALUE_SHOWN_MAX);
  (void)snprintf(text, sizeof text, "%s: %.*s", message, (int)shown, masked);
  free(masked);
  return refuse(self, code, text);
}

static bool is_absent(const cJSON *value) {
  return value == NULL || cJSON_IsNull(value);
}

static cJSON *parameter(const struct request_context *self, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(self->message->params, name);
}

/* --- methods --------------------------------------------------------------------------------- */

static struct mcp_action end_result(const struct request_context *self) {
  close_result(self->session, self->answer, self->version);
  return answered;
}

static void add_capabilities(struct buffer *out) {
  add_text(out, ",\"capabilities\":{\"tools\":{}},\"instructions\":", instructions);
}

static struct mcp_action initialize(const struct request_context *self) {
  const cJSON *asked = parameter(self, "protocolVersion");
  struct mcp_session *session = self->session;
  if (self->in_batch)
    return refuse(self, MCP_INVALID_REQUEST, "Invalid Request: initialize in a batch");
  (void)use_newest_legacy(session);
  unsigned version = cJSON_IsString(asked)
                         ? find_version(asked->valuestring, strlen(asked->valuestring))
                         : MCP_VERSIONS;
  if (version < MCP_MODERN && mcp_session_serves(session, version))
    session->version = (enum mcp_version)version;
  session->takes_batches = session->version == MCP_2025_03_26;
  open_response(self->answer, self->message->id, "result");
  buffer_add_format(self->answer, "\"protocolVersion\":\"%s\"", version_names[session->version]);
  add_capabilities(self->answer);
  buffer_add_format(self->answer, ",\"serverInfo\":" SERVER, session->program_version);
  return end_result(self);
}

static struct mcp_action discover(const struct request_context *self) {
  open_response(self->answer, self->message->id, "result");
  buffer_add_string(self->answer, "\"supportedVersions\":");
  add_named(self->session, self->answer);
  add_capabilities(self->answer);
  buffer_add_string(self->answer, CACHE_MEMBERS);
  return end_result(self);
}

static void add_tool(const struct request_context *self, const struct tool *tool) {
  struct buffer *out = self->answer;
  buffer_add_format(out, "{\"name\":\"%s\"", tool->name);
  if (self->version >= MCP_2025_06_18)
    buffer_add_format(out, ",\"title\":\"%s\"", tool->title);
  add_text(out, ",\"description\":", tool->description);
  buffer_add_string(out, ",\"inputSchema\":");
  argument_table_schema(&tool->arguments, &self->session->tools->limits, out);
  if (self->version >= MCP_2025_03_26)
    buffer_add_format(out, ",\"annotations\":{\"title\":\"%s\",%s}", tool->title, tool->hints);
  if (tool_is_command(tool) && has_structured(self->session, self->version))
    buffer_add_format(out, ",\"outputSchema\":%s", answer_outcome_schema);
  buffer_add_string(out, "}");
}

static struct mcp_action list_tools(const struct request_context *self) {
  const cJSON *cursor = parameter(self, "cursor");
  /* There is one page, so that no cursor was ever given out. */
  if (!is_absent(cursor) && !(cJSON_IsString(cursor) && cursor->valuestring[0] == '\0'))
    return refuse(self, MCP_INVALID_PARAMS, "Invalid params: unknown cursor");
  open_response(self->answer, self->message->id, "result");
  for (size_t i = 0; tool_at(i) != NULL; i++) {
    buffer_add_string(self->answer, i > 0 ? "," : "\"tools\":[");
    add_tool(self, tool_at(i));
  }
  buffer_add_string(self->answer, self->version >= MCP_MODERN ? "]" CACHE_MEMBERS : "]");
  return end_result(self);
}

static struct mcp_action call_tool(const struct request_context *self) {
  const cJSON *name = parameter(self, "name");
  cJSON *arguments = parameter(self, "arguments");
  if (!cJSON_IsString(name))
    return refuse(self, MCP_INVALID_PARAMS, "Invalid params: name: expected a string");
  if (!is_absent(arguments) && !cJSON_IsObject(arguments))
    return refuse(self, MCP_INVALID_PARAMS, "Invalid params: arguments: expected an object");
  const struct tool *tool = tool_find(name->valuestring);
  if (tool == NULL)
    return refuse_value(self, MCP_INVALID_PARAMS, "Unknown tool", name->valuestring);
  return (struct mcp_action){.kind = MCP_CALL,
                             .id = self->message->id,
                             .version = self->version,
                             .token = self->message->token,
                             .tool = tool,
                             .arguments = is_absent(arguments) ? NULL : arguments,
                             .traceparent = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
                                 self->message->meta, "traceparent"))};
}

/* Answers {}, or an empty list for a capability that is not declared: some clients take an error
   for the end of the server. */
static struct mcp_action answer_empty(const struct request_context *self, const char *list) {
  open_response(self->answer, self->message->id, "result");
  if (list != NULL)
    buffer_add_format(self->answer, "\"%s\":[]", list);
  return end_result(self);
}

enum era { LEGACY = 1, MODERN = 2, BOTH = LEGACY | MODERN };

static const struct method {
  const char *name;
  enum era eras;
  struct mcp_action (*handle)(const struct request_context *self); /* NULL: answer_empty */
  const char *list;
} methods[] = {
    {"tools/call", BOTH, call_tool, NULL},
    {"tools/list", BOTH, list_tools, NULL},
    {"ping", LEGACY, NULL, NULL},
    {"initialize", LEGACY, initialize, NULL},
    {"server/discover", MODERN, discover, NULL},
    {"prompts/list", LEGACY, NULL, "prompts"},
    {"resources/list", LEGACY, NULL, "resources"},
    {"resources/templates/list", LEGACY, NULL, "resourceTemplates"},
};

/* The text tells a client of an older version which version it must ask for. */
static struct mcp_action refuse_initialize(const struct request_context *self) {
  char text[128];
  (void)snprintf(text, sizeof text, "Method not found: initialize (served without it: %s)",
                 version_names[MCP_MODERN]);
  add_version_error(self->session, self->answer, self->message->id, MCP_METHOD_NOT_FOUND, text,
                    NULL);
  return refused(MCP_METHOD_NOT_FOUND);
}

static struct mcp_action dispatch(const struct request_context *self) {
  const char *name = self->message->method;
  bool is_modern = self->version >= MCP_MODERN;
  if (is_modern && strcmp(name, "initialize") == 0)
    return refuse_initialize(self);
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcmp(methods[i].name, name) == 0 &&
        (methods[i].eras & (is_modern ? MODERN : LEGACY)) != 0) {
      if (self->message->params_unusable)
        return refuse(self, MCP_INVALID_PARAMS, "Invalid params: expected an object");
      return methods[i].handle != NULL ? methods[i].handle(self)
                                       : answer_empty(self, methods[i].list);
    }
  return refuse_value(self, MCP_METHOD_NOT_FOUND, "Method not found", name);
}

/* --- eras ------------------------------------------------------------------------------------ */

static const cJSON *meta_of(const struct request_context *self, const char *name) {
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

/* A log level is only checked, because nothing is logged to the client. */
static struct mcp_action handle_modern(const struct request_context *self) {
  const cJSON *version = meta_of(self, MCP_META_VERSION);
  const cJSON *level = meta_of(self, MCP_META_LOG_LEVEL);
  if (self->in_batch)
    return refuse(self, MCP_INVALID_REQUEST, "Invalid Request: in a batch");
  if (strcmp(self->message->method, "initialize") == 0 && version == NULL)
    return refuse_initialize(self);
  if (!cJSON_IsString(version))
    return refuse(self, MCP_INVALID_PARAMS, "Missing required _meta field: " MCP_META_VERSION);
  if (strcmp(version->valuestring, version_names[MCP_MODERN]) != 0) {
    mcp_add_version_error(self->session, self->answer, self->message->id, version->valuestring);
    return refused(MCP_UNSUPPORTED_VERSION);
  }
  if (!cJSON_IsObject(meta_of(self, MCP_META_CAPABILITIES)))
    return refuse(self, MCP_INVALID_PARAMS, "Missing required _meta field: " MCP_META_CAPABILITIES);
  if (level != NULL && !is_log_level(level))
    return refuse(self, MCP_INVALID_PARAMS, "Invalid params: unknown log level");
  return dispatch(self);
}

static bool is_modern(const struct mcp_session *self, const struct mcp_message *message) {
  if (!self->serves_legacy)
    return true;
  return mcp_session_serves(self, MCP_MODERN) &&
         (message->is_modern || strcmp(message->method, "server/discover") == 0);
}

static struct mcp_action handle_request(struct mcp_session *self, const struct mcp_message *message,
                                        bool in_batch, struct buffer *answer) {
  bool modern = is_modern(self, message);
  const struct request_context context = {.session = self,
                                          .message = message,
                                          .version = modern ? MCP_MODERN : self->version,
                                          .in_batch = in_batch,
                                          .answer = answer};
  return modern ? handle_modern(&context) : dispatch(&context);
}

struct mcp_action mcp_session_handle(struct mcp_session *self, const struct mcp_message *message,
                                     bool in_batch, struct buffer *answer) {
  if (message->kind == MCP_REQUEST)
    return handle_request(self, message, in_batch, answer);
  if (message->kind == MCP_INVALID) {
    char text[128];
    (void)snprintf(text, sizeof text, "Invalid Request: %s", message->reason);
    mcp_add_error(answer, message->id, MCP_INVALID_REQUEST, text);
    return refused(MCP_INVALID_REQUEST);
  }
  if (message->kind == MCP_NOTIFICATION && message->target.text != NULL &&
      strcmp(message->method, "notifications/cancelled") == 0)
    return (struct mcp_action){.kind = MCP_CANCEL, .id = message->target};
  return (struct mcp_action){.kind = MCP_NOTHING};
}

bool mcp_session_accept_batch(const struct mcp_session *self, int count, struct buffer *answer) {
  char text[128];
  if (self->takes_batches && count > 0 && count <= MCP_BATCH_MAX)
    return true;
  if (!self->takes_batches)
    (void)snprintf(text, sizeof text,
                   "Invalid Request: expected an object; batches are of protocol version %s only",
                   version_names[MCP_2025_03_26]);
  else
    (void)snprintf(text, sizeof text, "Invalid Request: expected a batch of 1 to %d messages",
                   MCP_BATCH_MAX);
  mcp_add_error(answer, (struct json_member){0}, MCP_INVALID_REQUEST, text);
  return false;
}
