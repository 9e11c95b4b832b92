/* Any bytes as the arguments of each tool, and as the output of its step. An accepted call is a
   step; a refused one has an error text. No answer is longer than its limit. */
#include "agent/tools/answer.h"
#include "agent/tools/tool.h"
#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "wire/json.h"

/* Space for the lines after a truncated answer, "Error: " and the parts of a command. */
#define FRAME_MAX 1024

static cJSON *parse(const char *text, size_t length) {
  struct error error;
  cJSON *tree = json_tree_parse(text, length, &error);
  if (cJSON_IsObject(tree))
    return tree;
  cJSON_Delete(tree);
  return NULL;
}

static void answer(const struct tool_call *call, const uint8_t *data, size_t size) {
  struct buffer text = {0};
  struct execution_result end = {.output = {.bytes = (const char *)data, .length = size}};
  if (size % 2 == 0) {
    end.output.truncated = true;
    end.output.tail = (const char *)data;
    end.output.tail_length = size;
    end.output.total = 2 * size;
  }
  (void)tool_call_answer(call, &end, &text);
  demand(text.length <= 2 * size + FRAME_MAX);
  text.length = 0;
  end.errors =
      (struct captured_stream){.bytes = (const char *)data, .length = size < 256 ? size : 256};
  (void)tool_call_answer(call, &end, &text);
  buffer_release(&text);
}

/* Returns whether the arguments were accepted. */
static bool try(const struct tool *tool, cJSON *arguments, const struct tool_settings *settings,
                const uint8_t *data, size_t size) {
  struct buffer text = {0};
  struct tool_call *call = tool_call_new(tool, arguments, settings, "id", &text);
  demand((call == NULL) == (text.length > strlen(TOOL_ERROR)));
  buffer_release(&text);
  if (call == NULL)
    return false;
  struct request request = {0};
  tool_call_request(call, &request);
  demand(request.step.timeout_seconds == call->timeout);
  demand(request.step.timeout_seconds >= 1 && request.step.timeout_seconds <= 600);
  demand(request.step.working_directory[0] == '/');
  answer(call, data, size);
  step_release(&request.step);
  tool_call_free(call);
  return true;
}

/* The answers for any output of a step. */
static const char *const good_arguments[] = {
    "{\"command\":\"x\",\"args\":[]}",
    "{\"path\":\"a\",\"offset\":2,\"limit\":3}",
    "{\"path\":\"a\",\"content\":\"\"}",
    "{\"path\":\"a\",\"edits\":[{\"old_string\":\"\",\"new_string\":\"\"}]}",
    "{\"path\":\"a\"}",
    "{\"pattern\":\"a\"}",
    "{}"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const struct tool_settings settings = {
      .limits = {.timeout_default = 30, .timeout_maximum = 600, .clamps_timeout = size % 2 == 0},
      .directory = "/box",
      .shell = size % 3 == 0 ? NULL : "sh"};
  for (size_t i = 0; tool_at(i) != NULL; i++) {
    cJSON *good = cJSON_Parse(good_arguments[i]);
    demand(try(tool_at(i), good, &settings, data, size));
    cJSON_Delete(good);
    cJSON *arguments = parse((const char *)data, size); /* its texts are moved */
    (void)try(tool_at(i), arguments, &settings, data, size);
    cJSON_Delete(arguments);
  }
  return 0;
}
