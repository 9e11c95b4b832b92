#include "agent/doors/mcp/reply.h"

#include <string.h>

#include "agent/tools/answer.h"

#define SERVER_NAME "sandbox-agent"
#define CACHE_MEMBERS ",\"ttlMs\":3600000,\"cacheScope\":\"public\""

/* For the model, below 2 KB: longer ones are cut by clients. */
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
    "- Each stream is cut after 50 KB. Filter the output, or write it to a file and read the part "
    "that matters.\n"
    "- Prefer read_file (offset and limit page through long files), edit_file, grep, "
    "list_directory and directory_tree to cat, sed, find and ls: they need no quoting, and say "
    "exactly what is wrong. edit_file replaces text that occurs exactly once, all edits or none.\n"
    "- Calls run at the same time when they are sent together: wait for a result that the next "
    "call needs.";

static void add(struct buffer *out, const char *text) {
  buffer_add_string(out, text);
}

static void add_text(struct buffer *out, const char *text) {
  buffer_add_json(out, text, strlen(text));
}

static void add_raw(struct buffer *out, struct json_member raw) {
  buffer_add(out, raw.text, raw.length);
}

static void add_bool(struct buffer *out, bool value) {
  add(out, value ? "true" : "false");
}

/* Up to the member that is `error` or `result`. */
static void open_response(struct buffer *out, struct json_member id, const char *member) {
  add(out, "{\"jsonrpc\":\"2.0\",");
  if (id.text != NULL) {
    add(out, "\"id\":");
    add_raw(out, id);
    add(out, ",");
  }
  add(out, "\"");
  add(out, member);
  add(out, "\":{");
}

/* --- errors ---------------------------------------------------------------------------------- */

static void open_error(struct buffer *out, struct json_member id, int code, const char *message) {
  open_response(out, id, "error");
  add(out, "\"code\":-");
  buffer_add_number(out, (unsigned long long)-code);
  add(out, ",\"message\":");
  add_text(out, message);
}

void mcp_add_error(struct buffer *out, struct json_member id, int code, const char *message) {
  open_error(out, id, code, message);
  add(out, "}}");
}

void mcp_add_version_error(struct buffer *out, struct json_member id, int code, const char *message,
                           const char *requested) {
  open_error(out, id, code, message);
  add(out, ",\"data\":{\"supported\":[");
  add_text(out, mcp_version_name(MCP_MODERN));
  add(out, "]");
  if (requested != NULL) {
    add(out, ",\"requested\":");
    add_text(out, requested);
  }
  add(out, "}}}");
}

/* --- results --------------------------------------------------------------------------------- */

static void add_server(struct buffer *out, const char *name, const struct mcp_server *server) {
  add_text(out, name);
  add(out, ":{\"name\":\"" SERVER_NAME "\",\"version\":");
  add_text(out, server->program_version);
  add(out, "}");
}

/* Where the version has it, the end of every result. */
static void close_result(struct buffer *out, enum mcp_version version,
                         const struct mcp_server *server) {
  if (version >= MCP_MODERN) {
    add(out, ",\"resultType\":\"complete\",\"_meta\":{");
    add_server(out, "io.modelcontextprotocol/serverInfo", server);
    add(out, "}");
  }
  add(out, "}}");
}

static void add_capabilities(struct buffer *out) {
  add(out, ",\"capabilities\":{\"tools\":{}},\"instructions\":");
  add_text(out, instructions);
}

void mcp_add_initialized(struct buffer *out, struct json_member id, enum mcp_version version,
                         const struct mcp_server *server) {
  open_response(out, id, "result");
  add(out, "\"protocolVersion\":");
  add_text(out, mcp_version_name(version));
  add_capabilities(out);
  add(out, ",");
  add_server(out, "serverInfo", server);
  close_result(out, version, server);
}

void mcp_add_discovered(struct buffer *out, struct json_member id,
                        const struct mcp_server *server) {
  open_response(out, id, "result");
  add(out, "\"supportedVersions\":[");
  add_text(out, mcp_version_name(MCP_MODERN));
  add(out, "]");
  add_capabilities(out);
  add(out, CACHE_MEMBERS);
  close_result(out, MCP_MODERN, server);
}

void mcp_add_empty(struct buffer *out, struct json_member id, const char *list) {
  open_response(out, id, "result");
  if (list != NULL) {
    add_text(out, list);
    add(out, ":[]");
  }
  add(out, "}}");
}

/* --- tools ----------------------------------------------------------------------------------- */

bool mcp_has_structured(const struct mcp_server *server, enum mcp_version version) {
  return server->structured && version >= MCP_2025_06_18;
}

static void add_tool(struct buffer *out, const struct tool *tool, enum mcp_version version,
                     const struct mcp_server *server) {
  add(out, "{\"name\":");
  add_text(out, tool->name);
  if (version >= MCP_2025_06_18) {
    add(out, ",\"title\":");
    add_text(out, tool->title);
  }
  add(out, ",\"description\":");
  add_text(out, tool->description);
  add(out, ",\"inputSchema\":");
  tool_add_input_schema(tool, &server->tools, out);
  if (version >= MCP_2025_03_26) {
    add(out, ",\"annotations\":{\"title\":");
    add_text(out, tool->title);
    add(out, ",");
    add(out, tool->hints);
    add(out, "}");
  }
  if (tool_is_command(tool) && mcp_has_structured(server, version)) {
    add(out, ",\"outputSchema\":");
    add(out, answer_outcome_schema);
  }
  add(out, "}");
}

void mcp_add_tools(struct buffer *out, struct json_member id, enum mcp_version version,
                   const struct mcp_server *server) {
  const struct tool *tool;
  open_response(out, id, "result");
  add(out, "\"tools\":[");
  for (size_t i = 0; (tool = tool_at(i)) != NULL; i++) {
    if (i > 0)
      add(out, ",");
    add_tool(out, tool, version, server);
  }
  add(out, "]");
  if (version >= MCP_MODERN)
    add(out, CACHE_MEMBERS);
  close_result(out, version, server);
}

static void add_text_content(struct buffer *out, const struct buffer *text) {
  add(out, "{\"type\":\"text\",\"text\":");
  buffer_add_json(out, text->length > 0 ? text->bytes : "", text->length);
  add(out, "}");
}

/* Nothing in it needs an escape. */
static void add_image_content(struct buffer *out, const struct tool_image *image) {
  add(out, "{\"type\":\"image\",\"data\":\"");
  buffer_add(out, image->base64, image->length);
  add(out, "\",\"mimeType\":\"");
  buffer_add(out, image->type, image->type_length);
  add(out, "\"}");
}

void mcp_add_called(struct buffer *out, struct json_member id, enum mcp_version version,
                    const struct mcp_server *server, const struct mcp_called *called) {
  open_response(out, id, "result");
  add(out, "\"content\":[");
  if (called->image != NULL)
    add_image_content(out, called->image);
  else
    add_text_content(out, called->text);
  add(out, "]");
  if (called->structured != NULL) {
    add(out, ",\"structuredContent\":");
    answer_outcome(ANSWER_STRUCTURED, called->structured, out);
  }
  add(out, ",\"isError\":");
  add_bool(out, called->is_error);
  close_result(out, version, server);
}

/* --- progress -------------------------------------------------------------------------------- */

/* Seconds with three decimals. */
static void add_seconds(struct buffer *out, int64_t milliseconds) {
  uint64_t positive = milliseconds > 0 ? (uint64_t)milliseconds : 0;
  char decimals[4] = {'.', (char)('0' + positive / 100 % 10), (char)('0' + positive / 10 % 10),
                      (char)('0' + positive % 10)};
  buffer_add_number(out, positive / 1000);
  buffer_add(out, decimals, sizeof decimals);
}

void mcp_add_progress(struct buffer *out, struct json_member token, enum mcp_version version,
                      int64_t elapsed_ms, const char *message, size_t length) {
  add(out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
           "\"params\":{\"progressToken\":");
  add_raw(out, token);
  add(out, ",\"progress\":");
  add_seconds(out, elapsed_ms);
  if (version >= MCP_2025_03_26 && length > 0) {
    add(out, ",\"message\":");
    buffer_add_json(out, message, length);
  }
  add(out, "}}");
}
