/* Any bytes as a stream of lines in pieces of any size, and each line as a request. The lines do
   not depend on the pieces; each request is answered by one line of JSON, or by none if it is a
   notification. */
#include "agent/frontends/line_reader.h"
#include "agent/frontends/stdio/stdio_line.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "wire/json.h"

static const struct tool_settings settings = {
    .limits = {.timeout_default = 30, .timeout_maximum = 120, .clamps_timeout = true},
    .directory = "/d",
    .shell = "sh"};

/* Fails unless the answer is one line of JSON. */
static void check_answer(struct buffer *out) {
  struct error error;
  demand(out->length > 0 && out->bytes[out->length - 1] == '\n');
  demand(memchr(out->bytes, '\n', out->length - 1) == NULL);
  cJSON *tree = json_tree_parse(out->bytes, out->length, &error);
  demand(cJSON_IsObject(tree));
  cJSON_Delete(tree);
  buffer_release(out);
}

static void answer(const struct stdio_request *request, struct buffer *out) {
  const struct stdio_address *to = &request->from;
  if (request->method == STDIO_CALL) {
    struct buffer text = {0};
    struct tool_call *call =
        tool_call_new(request->tool, request->arguments, &settings, "1", &text);
    if (call == NULL)
      stdio_answer_refusal(out, to, text.bytes, text.length);
    else
      stdio_answer_json(out, to, "{}");
    tool_call_free(call);
    buffer_release(&text);
  } else if (request->method == STDIO_INVALID) {
    stdio_answer_error(out, to, request->code, request->error.text, strlen(request->error.text));
  } else {
    demand(request->method != STDIO_CANCEL || request->cancelled.length > 0);
    stdio_answer_json(out, to, "null");
  }
}

/* A copy of the exact size. */
static void check_line(const struct input_line *line, struct stdio_rules *rules) {
  struct stdio_request request;
  struct buffer out = {0};
  char *copy = memory_allocate(line->length);
  memcpy(copy, line->text, line->length);
  stdio_request_parse(&request, rules, copy, line->length);
  demand(request.from.id.text == NULL || request.from.id.length > 0);
  demand(request.method != STDIO_CALL || request.tool != NULL);
  answer(&request, &out);
  if (request.from.id.text != NULL)
    check_answer(&out);
  demand(out.length == 0);
  rules->speaks_json_rpc |= request.from.dialect == STDIO_JSON_RPC;
  stdio_request_release(&request);
  free(copy);
}

/* The lines, each with a newline; a line that is too long is "!". */
static void read_lines(struct buffer *out, const char *bytes, size_t length, size_t piece,
                       size_t limit) {
  struct line_reader reader = {.limit = limit};
  struct input_line line;
  for (size_t at = 0; at <= length; at += piece) {
    line_reader_add(&reader, bytes + at, length - at < piece ? length - at : piece);
    if (length - at < piece)
      line_reader_end(&reader);
    while (line_reader_next(&reader, &line)) {
      demand(line.too_long || (line.length <= limit && line.length > 0));
      buffer_add(out, line.too_long ? "!" : line.text, line.too_long ? 1 : line.length);
      buffer_add(out, "\n", 1);
    }
  }
  line_reader_release(&reader);
}

static void check_pieces(const char *bytes, size_t length, size_t piece, size_t limit) {
  struct buffer whole = {0}, pieces = {0};
  read_lines(&whole, bytes, length, length + 1, limit);
  read_lines(&pieces, bytes, length, piece, limit);
  demand(whole.length == pieces.length);
  demand(whole.length == 0 || memcmp(whole.bytes, pieces.bytes, whole.length) == 0);
  buffer_release(&whole);
  buffer_release(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  const char *bytes = (const char *)data + 2;
  size_t length = size - 2;
  struct stdio_rules rules = {.tool = data[1] % 8 < 7 ? tool_at(data[1] % 8) : NULL};
  struct line_reader reader = {.limit = SIZE_MAX};
  struct input_line line;
  check_pieces(bytes, length, (size_t)data[0] + 1, data[1]);
  line_reader_add(&reader, bytes, length);
  line_reader_end(&reader);
  while (line_reader_next(&reader, &line))
    check_line(&line, &rules);
  line_reader_release(&reader);
  return 0;
}
