/* cJSON reads numbers as doubles and decodes strings, so ids and tokens are copied from the
   text. */
#include "agent/frontends/mcp/message.h"

#include <string.h>

#include "base/check.h"
#include "wire/step_field.h"

/* An integer may have any number of digits. 1.0 is one, as in JSON Schema. */
static bool is_integer(struct json_member raw) {
  const char *at = raw.text, *end = at + raw.length;
  at += at < end && *at == '-';
  while (at < end && *at >= '0' && *at <= '9')
    at++;
  at += at < end && *at == '.';
  while (at < end && *at == '0')
    at++;
  return at == end;
}

/* Returns the text of a member if it is a string or an integer. */
static struct json_member read_name(struct json_member object, const cJSON *tree,
                                    const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(tree, name);
  struct json_member text;
  if ((!cJSON_IsString(value) && !cJSON_IsNumber(value)) ||
      !json_member_find(object.text, object.length, name, &text) ||
      (cJSON_IsNumber(value) && !is_integer(text)))
    return (struct json_member){0};
  return text;
}

struct json_member mcp_outline_id(const char *outline, size_t length) {
  struct error error;
  struct json_member id = {0};
  cJSON *tree = length > 0 ? json_tree_parse(outline, length, &error) : NULL;
  if (tree != NULL)
    id = read_name((struct json_member){outline, length}, tree, "id");
  cJSON_Delete(tree);
  return id;
}

/* Rejects a name that an object has twice. json_tree_parse has bounded the depth. */
static int check_names(const cJSON *root, struct error *error) {
  const cJSON *parents[JSON_TEXT_DEPTH_MAX + 1];
  size_t depth = 0;
  for (const cJSON *node = root; node != NULL;) {
    if (cJSON_IsObject(node) && step_field_names_unique(node, "", error) != 0)
      return -1;
    if (node->child != NULL) {
      CHECK(depth <= JSON_TEXT_DEPTH_MAX);
      parents[depth++] = node;
      node = node->child;
      continue;
    }
    while (depth > 0 && node->next == NULL)
      node = parents[--depth];
    node = depth > 0 ? node->next : NULL;
  }
  return 0;
}

int mcp_line_parse(struct mcp_line *self, const char *text, size_t length, struct error *error) {
  *self = (struct mcp_line){.text = {.bytes = text, .length = length}};
  self->root = json_tree_parse(text, length, error);
  if (self->root == NULL)
    return -1;
  if (check_names(self->root, error) != 0) {
    mcp_line_release(self);
    return -1;
  }
  self->is_batch = cJSON_IsArray(self->root);
  self->count = self->is_batch ? cJSON_GetArraySize(self->root) : 1;
  self->next = self->is_batch ? self->root->child : self->root;
  return 0;
}

void mcp_line_release(struct mcp_line *self) {
  cJSON_Delete(self->root);
  *self = (struct mcp_line){0};
}

static const cJSON *member_of(const cJSON *object, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(object, name);
}

static void read_params(struct mcp_message *out, struct json_member text, const cJSON *tree) {
  const cJSON *params = member_of(tree, "params");
  out->params_unusable = params != NULL && !cJSON_IsNull(params) && !cJSON_IsObject(params);
  if (!cJSON_IsObject(params) || !json_member_find(text.text, text.length, "params", &text))
    return;
  const cJSON *meta = member_of(params, "_meta");
  out->params = params;
  out->target = read_name(text, params, "requestId");
  if (!cJSON_IsObject(meta) || !json_member_find(text.text, text.length, "_meta", &text))
    return;
  out->meta = meta;
  out->token = read_name(text, meta, "progressToken");
  out->is_modern = member_of(meta, MCP_META_VERSION) != NULL ||
                   member_of(meta, MCP_META_CAPABILITIES) != NULL ||
                   member_of(meta, MCP_META_CLIENT) != NULL;
}

static void invalidate(struct mcp_message *out, const char *reason) {
  out->kind = MCP_INVALID;
  out->reason = reason;
}

static void classify(struct mcp_message *out, struct json_member text, const cJSON *tree) {
  *out = (struct mcp_message){0};
  if (!cJSON_IsObject(tree)) {
    invalidate(out, "expected an object");
    return;
  }
  const cJSON *id = member_of(tree, "id"), *version = member_of(tree, "jsonrpc");
  const cJSON *named = member_of(tree, "method");
  const char *method = cJSON_GetStringValue(named);
  out->id = read_name(text, tree, "id");
  if (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0) {
    invalidate(out, "jsonrpc: expected \"2.0\"");
  } else if (named == NULL &&
             (member_of(tree, "result") != NULL || member_of(tree, "error") != NULL)) {
    out->kind = MCP_RESPONSE;
  } else if (method == NULL) {
    invalidate(out, "method: expected a string");
  } else if (id != NULL && out->id.text == NULL) {
    invalidate(out, "id: expected a string or an integer");
  } else {
    out->kind = id != NULL ? MCP_REQUEST : MCP_NOTIFICATION;
    out->method = method;
    read_params(out, text, tree);
  }
}

bool mcp_line_next(struct mcp_line *self, struct mcp_message *out) {
  struct json_member text = {.text = self->text.bytes, .length = self->text.length};
  if (self->next == NULL)
    return false;
  if (self->is_batch)
    CHECK(json_element_next(&self->text, &text));
  classify(out, text, self->next);
  self->next = self->is_batch ? self->next->next : NULL;
  return true;
}
