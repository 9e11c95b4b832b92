#include "agent/frontends/mcp/http_rules.h"

#include <string.h>

#include "base/base64.h"

/* The version of a request that names none (MCP 2025-06-18, "Protocol Version Header"). */
#define DEFAULT_VERSION MCP_2025_03_26

/* --- versions -------------------------------------------------------------------------------- */

static bool is_modern_name(const char *version) {
  return version != NULL && mcp_version_find(version) == MCP_MODERN;
}

static enum mcp_error reject_version(const struct mcp_session *session, struct json_member id,
                                     const char *requested, struct buffer *answer) {
  mcp_add_version_error(session, answer, id, requested);
  return MCP_UNSUPPORTED_VERSION;
}

/* Gives the session the version that the field names. */
static enum mcp_error use_named(struct mcp_session *session, const char *name,
                                struct json_member id, struct buffer *answer) {
  enum mcp_version version = name != NULL ? mcp_version_find(name) : DEFAULT_VERSION;
  if (version == MCP_VERSIONS || !mcp_session_serves(session, version))
    return reject_version(session, id, name != NULL ? name : mcp_version_name(version), answer);
  mcp_session_use(session, version);
  return MCP_NO_ERROR;
}

/* --- modern requests ------------------------------------------------------------------------- */

#define ENCODED_PREFIX "=?base64?"
#define ENCODED_SUFFIX "?="

/* Whether the base64 between the bounds is that of the text. */
static bool is_encoding_of(const char *base64, size_t length, const char *text) {
  struct base64_reader reader = base64_reader(base64, length);
  size_t left = strlen(text);
  char piece[192];
  for (;;) {
    ssize_t got = base64_read(&reader, piece, sizeof piece);
    if (got <= 0)
      return got == 0 && left == 0;
    if ((size_t)got > left || memcmp(piece, text, (size_t)got) != 0)
      return false;
    text += got;
    left -= (size_t)got;
  }
}

static bool is_name(const char *field, const char *name) {
  const size_t prefix = strlen(ENCODED_PREFIX), suffix = strlen(ENCODED_SUFFIX);
  const size_t length = strlen(field);
  if (length < prefix + suffix || memcmp(field, ENCODED_PREFIX, prefix) != 0 ||
      strcmp(field + length - suffix, ENCODED_SUFFIX) != 0)
    return strcmp(field, name) == 0;
  return is_encoding_of(field + prefix, length - prefix - suffix, name);
}

/* Returns the field that is missing or differs from the message, or NULL. */
static const char *find_mismatch(const struct mcp_http_fields *fields,
                                 const struct mcp_message *message) {
  const char *version =
      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message->meta, MCP_META_VERSION));
  const char *name =
      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message->params, "name"));
  if (version != NULL && (fields->version == NULL || strcmp(fields->version, version) != 0))
    return "MCP-Protocol-Version";
  if (fields->method == NULL || strcmp(fields->method, message->method) != 0)
    return "Mcp-Method";
  if (strcmp(message->method, "tools/call") == 0 && name != NULL &&
      (fields->name == NULL || !is_name(fields->name, name)))
    return "Mcp-Name";
  return NULL;
}

static enum mcp_error check_fields(const struct mcp_http_fields *fields,
                                   const struct mcp_message *message, struct buffer *answer) {
  const char *field = find_mismatch(fields, message);
  struct error text;
  if (field == NULL)
    return MCP_NO_ERROR;
  (void)error_set(&text, "Header mismatch: %s is missing or differs from the body", field);
  mcp_add_error(answer, message->id, MCP_HEADER_MISMATCH, text.text);
  return MCP_HEADER_MISMATCH;
}

/* Notifications need no fields, because they are ignored. */
static enum mcp_error check_modern(struct mcp_session *session,
                                   const struct mcp_http_fields *fields,
                                   const struct mcp_message *message, struct buffer *answer) {
  bool is_request = message->kind == MCP_REQUEST;
  if (!mcp_session_serves(session, MCP_MODERN))
    return reject_version(session, is_request ? message->id : (struct json_member){0},
                          mcp_version_name(MCP_MODERN), answer);
  mcp_session_use(session, MCP_MODERN);
  return is_request ? check_fields(fields, message, answer) : MCP_NO_ERROR;
}

/* --- all messages ---------------------------------------------------------------------------- */

static bool is_request_of(const struct mcp_message *message, const char *method) {
  return message->kind == MCP_REQUEST && strcmp(message->method, method) == 0;
}

static struct mcp_http_verdict check_message(struct mcp_session *session,
                                             const struct mcp_http_fields *fields,
                                             const struct mcp_message *message,
                                             struct buffer *answer) {
  struct mcp_http_verdict verdict = {.has_calls = is_request_of(message, "tools/call"),
                                     .is_initialize = is_request_of(message, "initialize")};
  const struct json_member id =
      message->kind == MCP_REQUEST ? message->id : (struct json_member){0};
  verdict.is_modern = is_modern_name(fields->version) ||
                      cJSON_GetObjectItemCaseSensitive(message->meta, MCP_META_VERSION) != NULL;
  if (message->kind == MCP_INVALID)
    return verdict;
  if (verdict.is_modern)
    verdict.error = check_modern(session, fields, message, answer);
  else if (!verdict.is_initialize)
    verdict.error = use_named(session, fields->version, id, answer);
  else if (session->serves_legacy)
    mcp_session_use(session, session->version);
  else
    verdict.is_modern = true;
  return verdict;
}

struct mcp_http_verdict mcp_http_check(struct mcp_session *session,
                                       const struct mcp_http_fields *fields,
                                       const struct mcp_line *line, struct buffer *answer) {
  struct mcp_line copy = *line;
  struct mcp_message message;
  if (!line->is_batch && mcp_line_next(&copy, &message))
    return check_message(session, fields, &message, answer);
  return (struct mcp_http_verdict){
      .has_calls = true,
      .error = use_named(session, fields->version, (struct json_member){0}, answer)};
}

int mcp_http_status(enum mcp_error error, bool is_modern) {
  switch (error) {
  case MCP_NO_ERROR:
    return 200;
  case MCP_METHOD_NOT_FOUND:
    return is_modern ? 404 : 200;
  case MCP_INVALID_PARAMS:
    return is_modern ? 400 : 200;
  default:
    return 400;
  }
}
