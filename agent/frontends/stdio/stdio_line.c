#include "agent/frontends/stdio/stdio_line.h"

#include <string.h>

#include "agent/frontends/line_reader.h"
#include "agent/payload_limit.h"
#include "agent/tools/answer.h"
#include "wire/step_field.h"

#define EXECUTE "execute"

/* The tool of `execute` if none is named. */
#define DEFAULT_TOOL "execute_command"

/* Returns NULL if the member is absent or null. */
static cJSON *get(const cJSON *object, const char *name) {
  cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNull(value) ? NULL : value;
}

/* --- errors ---------------------------------------------------------------------------------- */

/* Makes the request invalid, after its error was set. `code` is that of JSON-RPC. Returns -1. */
static int reject(struct stdio_request *self, int code) {
  bool has_codes = self->from.dialect == STDIO_JSON_RPC || code == STDIO_PARSE_ERROR;
  self->method = STDIO_INVALID;
  self->code = has_codes ? code : STDIO_ERROR;
  return -1;
}

static int reject_value(struct stdio_request *self, int code, const char *name,
                        const char *expected, const cJSON *value) {
  (void)step_field_reject(name, expected, value, &self->error);
  return reject(self, code);
}

/* Some readers of JSON-RPC accept only numbers as an id. */
static struct stdio_address unknown_address(bool is_json_rpc) {
  static const struct stdio_address plain = {.id = {.text = "null", .length = 4}};
  static const struct stdio_address json_rpc = {STDIO_JSON_RPC, {.text = "0", .length = 1}};
  return is_json_rpc ? json_rpc : plain;
}

/* Reads how the request is answered. Returns false if it has no valid id. */
static bool read_address(struct stdio_request *self, const char *line, size_t length,
                         bool is_json_rpc) {
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(self->tree, "id");
  bool has_id = cJSON_IsString(id) || cJSON_IsNumber(id) || cJSON_IsNull(id);
  self->from = unknown_address(is_json_rpc);
  if (has_id)
    (void)json_member_find(line, length, "id", &self->from.id);
  return has_id;
}

void stdio_request_init_error(struct stdio_request *self, const struct stdio_rules *rules,
                              const char *outline, size_t length, const struct error *error) {
  struct error ignored;
  *self = (struct stdio_request){0};
  if (length > 0) {
    buffer_add(&self->outline, outline, length);
    self->tree = json_tree_parse(self->outline.bytes, length, &ignored);
  }
  bool is_json_rpc =
      rules->speaks_json_rpc || cJSON_GetObjectItemCaseSensitive(self->tree, "jsonrpc") != NULL;
  (void)read_address(self, self->outline.bytes, length, is_json_rpc);
  (void)error_set(&self->error, "Parse error: %s", error->text);
  (void)reject(self, STDIO_PARSE_ERROR);
}

/* --- a line ---------------------------------------------------------------------------------- */

static int read_envelope(struct stdio_request *self, const struct stdio_rules *rules,
                         const char *line, size_t length) {
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(self->tree, "jsonrpc");
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(self->tree, "id");
  const cJSON *method = get(self->tree, "method");
  bool has_id = read_address(self, line, length, version != NULL);
  if (rules->is_execute && id == NULL && version == NULL)
    self->from.id = (struct json_member){0};
  if (id != NULL && !has_id)
    (void)step_field_reject("id", "a string, a number or null", id, &self->error);
  else if (version != NULL &&
           (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0))
    (void)error_set(&self->error, "jsonrpc: expected \"2.0\"");
  else if (method == NULL && !rules->is_execute)
    (void)error_set(&self->error, "method: required");
  else if (method != NULL && !cJSON_IsString(method))
    (void)step_field_reject("method", "a string", method, &self->error);
  else
    return 0;
  return reject(self, STDIO_INVALID_REQUEST);
}

static enum stdio_method control_named(const char *name) {
  static const char *const controls[] = {[STDIO_INFO] = "info",
                                         [STDIO_PING] = "ping",
                                         [STDIO_CANCEL] = "cancel",
                                         [STDIO_SHUTDOWN] = "shutdown"};
  for (unsigned i = STDIO_INFO; i <= STDIO_SHUTDOWN; i++)
    if (strcmp(controls[i], name) == 0)
      return (enum stdio_method)i;
  return STDIO_INVALID;
}

static int reject_method(struct stdio_request *self, const char *name) {
  if (strcmp(name, "initialize") == 0) {
    (void)error_set(&self->error, "this is the stdio frontend; MCP is --mcp");
    (void)reject(self, STDIO_METHOD_NOT_FOUND);
    self->code = STDIO_METHOD_NOT_FOUND;
    return -1;
  }
  (void)error_set(&self->error,
                  "unknown method: %.80s (there are execute, the tools' names, info, ping, cancel "
                  "and shutdown)",
                  name);
  return reject(self, STDIO_METHOD_NOT_FOUND);
}

/* Sets the tool that a method or a parameter names. */
static int choose_tool(struct stdio_request *self, const struct stdio_rules *rules,
                       const struct tool *tool, int code) {
  if (rules->tool != NULL && tool != rules->tool) {
    (void)error_set(&self->error, "%s: this process serves %s only", tool->name, rules->tool->name);
    return reject(self, code);
  }
  self->tool = tool;
  return 0;
}

/* The parameters of `execute` may name the tool; they have the arguments in them, or are these. */
static int read_execute(struct stdio_request *self, const struct stdio_rules *rules,
                        cJSON *params) {
  const cJSON *name = get(params, "tool");
  if (name == NULL) {
    self->tool = rules->tool != NULL ? rules->tool : tool_find(DEFAULT_TOOL);
    return 0;
  }
  if (!cJSON_IsString(name))
    return reject_value(self, STDIO_INVALID_PARAMS, "tool", "a string", name);
  const struct tool *tool = tool_find(name->valuestring);
  if (tool == NULL) {
    (void)error_set(&self->error, "unknown tool: %.80s", name->valuestring);
    return reject(self, STDIO_INVALID_PARAMS);
  }
  cJSON *arguments = get(params, "arguments");
  if (arguments != NULL && !cJSON_IsObject(arguments))
    return reject_value(self, STDIO_INVALID_PARAMS, "arguments", "an object", arguments);
  if (arguments != NULL)
    self->arguments = arguments;
  else
    cJSON_DeleteItemFromObjectCaseSensitive(params, "tool");
  return choose_tool(self, rules, tool, STDIO_INVALID_PARAMS);
}

/* Removes the parameters that are for the frontend. A model may repeat the method among the
   arguments. */
static void remove_own_params(struct stdio_request *self, cJSON *params, const char *method) {
  self->wants_progress = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(params, "_progress"));
  cJSON_DeleteItemFromObjectCaseSensitive(params, "_progress");
  const cJSON *name = get(params, "method");
  if (self->from.dialect == STDIO_PLAIN && cJSON_IsString(name) &&
      strcmp(name->valuestring, method) == 0)
    cJSON_DeleteItemFromObjectCaseSensitive(params, "method");
}

static int read_call(struct stdio_request *self, const struct stdio_rules *rules,
                     const char *method, cJSON *params) {
  const struct tool *tool = tool_find(method);
  if (tool == NULL && strcmp(method, EXECUTE) != 0)
    return reject_method(self, method);
  self->method = STDIO_CALL;
  self->arguments = params;
  if (params != NULL)
    remove_own_params(self, params, method);
  return tool != NULL ? choose_tool(self, rules, tool, STDIO_METHOD_NOT_FOUND)
                      : read_execute(self, rules, params);
}

static int read_cancel(struct stdio_request *self, const char *line, size_t length) {
  struct json_member params;
  if (json_member_find(line, length, "params", &params) &&
      json_member_find(params.text, params.length, "id", &self->cancelled))
    return 0;
  (void)error_set(&self->error, "id: required");
  return reject(self, STDIO_INVALID_PARAMS);
}

static int read_method(struct stdio_request *self, const struct stdio_rules *rules,
                       const char *line, size_t length) {
  const cJSON *named = get(self->tree, "method");
  const char *method = named != NULL ? named->valuestring : EXECUTE;
  cJSON *params = get(self->tree, "params");
  if (params != NULL && !cJSON_IsObject(params))
    return reject_value(self, STDIO_INVALID_PARAMS, "params", "an object", params);
  if (params != NULL && step_field_names_unique(params, "params", &self->error) != 0)
    return reject(self, STDIO_INVALID_PARAMS);
  self->method = control_named(method);
  if (self->method == STDIO_CANCEL)
    return read_cancel(self, line, length);
  return self->method == STDIO_INVALID ? read_call(self, rules, method, params) : 0;
}

void stdio_request_parse(struct stdio_request *self, const struct stdio_rules *rules,
                         const char *line, size_t length) {
  struct error error;
  cJSON *tree = json_tree_parse(line, length, &error);
  if (tree == NULL || (cJSON_IsObject(tree) && step_field_names_unique(tree, "", &error) != 0)) {
    struct json_outline outline = {.names = line_reader_members};
    cJSON_Delete(tree);
    (void)json_outline_add(&outline, line, length);
    stdio_request_init_error(self, rules, outline.members.bytes, outline.members.length, &error);
    buffer_release(&outline.members);
    return;
  }
  *self = (struct stdio_request){.from = unknown_address(rules->speaks_json_rpc), .tree = tree};
  if (!cJSON_IsObject(tree)) {
    (void)reject_value(self, STDIO_INVALID_REQUEST, "request", "an object", tree);
    return;
  }
  if (read_envelope(self, rules, line, length) != 0 || read_method(self, rules, line, length) != 0)
    self->method = STDIO_INVALID;
  /* A notification has no answer, even if it is invalid. */
  if (self->from.dialect == STDIO_JSON_RPC && self->code != STDIO_INVALID_REQUEST &&
      cJSON_GetObjectItemCaseSensitive(tree, "id") == NULL)
    self->from.id = (struct json_member){0};
}

void stdio_request_parse_arguments(struct stdio_request *self, const struct tool *tool,
                                   const char *text, size_t length) {
  size_t blank = 0;
  while (blank < length && text[blank] != '\0' && strchr(" \t\r\n", text[blank]) != NULL)
    blank++;
  *self =
      (struct stdio_request){.from = {.dialect = STDIO_RUNNER}, .method = STDIO_CALL, .tool = tool};
  if (length > payload_limit()) {
    payload_limit_error(&self->error);
  } else {
    if (blank == length)
      return;
    self->tree = self->arguments = json_tree_parse(text, length, &self->error);
    if (self->tree != NULL && !cJSON_IsObject(self->tree))
      (void)step_field_reject("arguments", "an object", self->tree, &self->error);
    else if (self->tree != NULL && step_field_names_unique(self->tree, "", &self->error) == 0)
      return;
  }
  (void)reject(self, STDIO_ERROR);
}

void stdio_request_release(struct stdio_request *self) {
  cJSON_Delete(self->tree);
  buffer_release(&self->outline);
  *self = (struct stdio_request){0};
}

/* --- answers --------------------------------------------------------------------------------- */

/* Begins the line of an answer; returns false if there is none. */
static bool begin_line(struct buffer *out, const struct stdio_address *to, const char *member) {
  if (to->dialect == STDIO_RUNNER)
    return true;
  if (to->dialect == STDIO_JSON_RPC && to->id.text == NULL)
    return false;
  buffer_add_string(out, to->dialect == STDIO_JSON_RPC ? "{\"jsonrpc\":\"2.0\"," : "{");
  if (to->id.text != NULL)
    buffer_add_format(out, "\"id\":%.*s,", (int)to->id.length, to->id.text);
  buffer_add_format(out, "\"%s\":", member);
  return true;
}

static void end_line(struct buffer *out, const struct stdio_address *to) {
  buffer_add_string(out, to->dialect == STDIO_RUNNER ? "\n" : "}\n");
}

/* Appends {"output":…}, with `success` in JSON-RPC, and with the outcome unless `end` is NULL. */
static void add_output(struct buffer *out, const struct stdio_address *to, const char *text,
                       size_t length, bool failed, const struct execution_result *end) {
  if (!begin_line(out, to, "result"))
    return;
  buffer_add_string(out, "{\"output\":");
  buffer_add_json(out, text != NULL ? text : "", length);
  if (to->dialect == STDIO_JSON_RPC)
    buffer_add_string(out, failed ? ",\"success\":false" : ",\"success\":true");
  if (end != NULL) {
    buffer_add_string(out, ",\"metadata\":");
    answer_outcome(ANSWER_METADATA, end, out);
  }
  buffer_add_string(out, "}");
  end_line(out, to);
}

void stdio_answer_error(struct buffer *out, const struct stdio_address *to, int code,
                        const char *message, size_t length) {
  if (!begin_line(out, to, "error"))
    return;
  buffer_add_format(out, "{\"code\":%d,\"message\":", code);
  buffer_add_json(out, message, length);
  buffer_add_string(out, "}");
  end_line(out, to);
}

void stdio_answer_json(struct buffer *out, const struct stdio_address *to, const char *json) {
  if (!begin_line(out, to, "result"))
    return;
  buffer_add_string(out, json);
  end_line(out, to);
}

/* A plain request gets an error without the prefix of texts for models. */
void stdio_answer_refusal(struct buffer *out, const struct stdio_address *to, const char *reason,
                          size_t length) {
  size_t prefix = strlen(TOOL_ERROR);
  if (to->dialect != STDIO_PLAIN)
    add_output(out, to, reason, length, true, NULL);
  else if (length >= prefix && memcmp(reason, TOOL_ERROR, prefix) == 0)
    stdio_answer_error(out, to, STDIO_ERROR, reason + prefix, length - prefix);
  else
    stdio_answer_error(out, to, STDIO_ERROR, reason, length);
}

/* A plain request gets the streams of a command, whatever its exit code is. */
bool stdio_answer_result(struct buffer *out, const struct stdio_address *to,
                         const struct tool_call *call, const struct execution_result *end) {
  struct buffer text = {0};
  bool failed = tool_call_answer(call, end, &text);
  bool is_plain = to->dialect == STDIO_PLAIN;
  if (is_plain && tool_is_command(call->tool) && execution_result_was_executed(end)) {
    if (begin_line(out, to, "result")) {
      answer_outcome(ANSWER_STREAMS, end, out);
      end_line(out, to);
    }
  } else if (is_plain && failed) {
    stdio_answer_refusal(out, to, text.bytes, text.length);
  } else {
    add_output(out, to, text.bytes, text.length, failed, is_plain ? NULL : end);
  }
  buffer_release(&text);
  return failed;
}

static void add_text(struct buffer *out, const char *name, const char *text) {
  buffer_add_string(out, name);
  buffer_add_json(out, text, strlen(text));
}

static void add_tool(struct buffer *out, const struct tool *tool,
                     const struct tool_settings *settings) {
  add_text(out, "\"name\":", tool->name);
  add_text(out, ",\"description\":", tool->description);
  buffer_add_string(out, ",\"parameters_schema\":");
  argument_table_schema(&tool->arguments, &settings->limits, out);
}

void stdio_answer_info(struct buffer *out, const struct stdio_address *to, const struct tool *tool,
                       const struct tool_settings *settings, const char *version) {
  if (!begin_line(out, to, "result"))
    return;
  buffer_add_string(out, "{");
  add_tool(out, tool != NULL ? tool : tool_at(0), settings);
  add_text(out, ",\"version\":", version);
  for (size_t i = 0; tool == NULL && tool_at(i) != NULL; i++) {
    buffer_add_string(out, i == 0 ? ",\"tools\":[{" : "},{");
    add_tool(out, tool_at(i), settings);
  }
  buffer_add_string(out, tool == NULL ? "}]}" : "}");
  end_line(out, to);
}

void stdio_answer_progress(struct buffer *out, const struct stdio_address *to, unsigned percent,
                           const char *message, size_t length) {
  if (!begin_line(out, to, "progress"))
    return;
  buffer_add_format(out, "{\"percent\":%u,\"message\":", percent);
  buffer_add_json(out, message, length);
  buffer_add_string(out, "}");
  end_line(out, to);
}
