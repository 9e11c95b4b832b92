#include "agent/doors/stdio/stdio_request.h"

#include <string.h>

#include "wire/json_tree.h"
#include "wire/step_field.h"

/* The tool of `execute` where none is named. */
#define DEFAULT_TOOL "execute_command"

static const struct json_member id_null = {.text = "null", .length = 4};
static const struct json_member id_zero = {.text = "0", .length = 1};

/* --- JSON ------------------------------------------------------------------------------------ */

cJSON *stdio_request_parse_object(const char *text, size_t length, struct error *error) {
  cJSON *tree = json_tree_parse(text, length, error);
  if (tree != NULL && !cJSON_IsObject(tree))
    (void)step_field_reject("arguments", "an object", tree, error);
  else if (tree == NULL || step_field_names_unique(tree, "", error) == 0)
    return tree;
  cJSON_Delete(tree);
  return NULL;
}

/* The member of this name; NULL when it is absent or null. */
static cJSON *get(const cJSON *object, const char *name) {
  cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNull(value) ? NULL : value;
}

/* --- what is wrong --------------------------------------------------------------------------- */

/* To be called after the error was set. `code`: as in JSON-RPC. Returns -1. */
static int reject(struct stdio_request *self, int code) {
  bool has_codes = self->dialect == STDIO_JSON_RPC || code == STDIO_PARSE_ERROR;
  self->method = STDIO_INVALID;
  self->code = has_codes ? code : STDIO_ERROR;
  return -1;
}

/* A reader of JSON-RPC may want a number, and nothing but a number. */
static struct json_member unknown_id(const struct stdio_request *self) {
  return self->dialect == STDIO_JSON_RPC ? id_zero : id_null;
}

void stdio_request_init_error(struct stdio_request *self, const struct stdio_rules *rules,
                              const struct error *error) {
  *self = (struct stdio_request){.dialect = rules->speaks_json_rpc ? STDIO_JSON_RPC : STDIO_PLAIN};
  self->id = unknown_id(self);
  (void)error_set(&self->error, "Parse error: %s", error->text);
  (void)reject(self, STDIO_PARSE_ERROR);
}

/* --- a line ---------------------------------------------------------------------------------- */

static int read_envelope(struct stdio_request *self, const char *line, size_t length) {
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(self->tree, "jsonrpc");
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(self->tree, "id");
  const cJSON *method = get(self->tree, "method");
  self->dialect = version != NULL ? STDIO_JSON_RPC : STDIO_PLAIN;
  self->id = unknown_id(self);
  bool has_id = cJSON_IsString(id) || cJSON_IsNumber(id) || cJSON_IsNull(id);
  if (has_id)
    (void)json_member_find(line, length, "id", &self->id);
  if (id != NULL && !has_id)
    (void)step_field_reject("id", "a string, a number or null", id, &self->error);
  else if (version != NULL &&
           (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0))
    (void)error_set(&self->error, "jsonrpc: expected \"2.0\"");
  else if (method == NULL)
    (void)error_set(&self->error, "method: required");
  else if (!cJSON_IsString(method))
    (void)step_field_reject("method", "a string", method, &self->error);
  else
    return 0;
  return reject(self, STDIO_INVALID_REQUEST);
}

static enum stdio_method control_named(const char *name) {
  static const struct {
    const char *name;
    enum stdio_method method;
  } controls[] = {{"info", STDIO_INFO},
                  {"ping", STDIO_PING},
                  {"cancel", STDIO_CANCEL},
                  {"shutdown", STDIO_SHUTDOWN}};
  for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
    if (strcmp(controls[i].name, name) == 0)
      return controls[i].method;
  return STDIO_INVALID;
}

static int reject_method(struct stdio_request *self, const char *name) {
  if (strcmp(name, "initialize") == 0) {
    (void)error_set(&self->error, "this is the stdio door; MCP is --mcp");
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

/* The tool that a method or a parameter names. */
static int choose_tool(struct stdio_request *self, const struct stdio_rules *rules,
                       const struct tool *tool, int code) {
  if (rules->tool != NULL && tool != rules->tool) {
    (void)error_set(&self->error, "%s: this process serves %s only", tool->name, rules->tool->name);
    return reject(self, code);
  }
  self->tool = tool;
  return 0;
}

/* `execute`: the parameters may name the tool, and hold the arguments or be the arguments. */
static int read_execute(struct stdio_request *self, const struct stdio_rules *rules,
                        cJSON *params) {
  const cJSON *name = get(params, "tool");
  if (name == NULL) {
    self->tool = rules->tool != NULL ? rules->tool : tool_find(DEFAULT_TOOL);
    return 0;
  }
  if (!cJSON_IsString(name)) {
    (void)step_field_reject("tool", "a string", name, &self->error);
    return reject(self, STDIO_INVALID_PARAMS);
  }
  const struct tool *tool = tool_find(name->valuestring);
  if (tool == NULL) {
    (void)error_set(&self->error, "unknown tool: %.80s", name->valuestring);
    return reject(self, STDIO_INVALID_PARAMS);
  }
  cJSON *arguments = get(params, "arguments");
  if (arguments != NULL && !cJSON_IsObject(arguments)) {
    (void)step_field_reject("arguments", "an object", arguments, &self->error);
    return reject(self, STDIO_INVALID_PARAMS);
  }
  if (arguments != NULL)
    self->arguments = arguments;
  else
    cJSON_DeleteItemFromObjectCaseSensitive(params, "tool");
  return choose_tool(self, rules, tool, STDIO_INVALID_PARAMS);
}

/* What is in the parameters for the door. A model that has chosen the method may have named it
   among the arguments, all of which its host sends. */
static void take_own_params(struct stdio_request *self, cJSON *params, const char *method) {
  self->wants_progress = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(params, "_progress"));
  cJSON_DeleteItemFromObjectCaseSensitive(params, "_progress");
  const cJSON *name = get(params, "method");
  if (self->dialect == STDIO_PLAIN && cJSON_IsString(name) &&
      strcmp(name->valuestring, method) == 0)
    cJSON_DeleteItemFromObjectCaseSensitive(params, "method");
}

static int read_call(struct stdio_request *self, const struct stdio_rules *rules,
                     const char *method, cJSON *params) {
  const struct tool *tool = tool_find(method);
  if (tool == NULL && strcmp(method, "execute") != 0)
    return reject_method(self, method);
  self->method = STDIO_CALL;
  self->arguments = params;
  if (params != NULL)
    take_own_params(self, params, method);
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
  const char *method = get(self->tree, "method")->valuestring;
  cJSON *params = get(self->tree, "params");
  if (params != NULL && !cJSON_IsObject(params)) {
    (void)step_field_reject("params", "an object", params, &self->error);
    return reject(self, STDIO_INVALID_PARAMS);
  }
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
    cJSON_Delete(tree);
    stdio_request_init_error(self, rules, &error);
    return;
  }
  *self = (struct stdio_request){.tree = tree};
  if (!cJSON_IsObject(tree)) {
    self->dialect = rules->speaks_json_rpc ? STDIO_JSON_RPC : STDIO_PLAIN;
    self->id = unknown_id(self);
    (void)step_field_reject("request", "an object", tree, &self->error);
    (void)reject(self, STDIO_INVALID_REQUEST);
    return;
  }
  if (read_envelope(self, line, length) != 0 || read_method(self, rules, line, length) != 0)
    self->method = STDIO_INVALID;
  /* A notification has no answer, whatever is wrong with what it asks for. */
  bool is_request = self->dialect == STDIO_PLAIN || self->code == STDIO_INVALID_REQUEST ||
                    cJSON_GetObjectItemCaseSensitive(tree, "id") != NULL;
  if (!is_request)
    self->id = (struct json_member){0};
}

void stdio_request_release(struct stdio_request *self) {
  cJSON_Delete(self->tree);
  *self = (struct stdio_request){0};
}
