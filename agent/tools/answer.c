#include "agent/tools/answer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"

/* --- a command --- */

static void begin_part(struct buffer *text, size_t begin) {
  if (text->length > begin)
    buffer_add(text, "\n", 1);
}

static void add_stream(struct buffer *text, size_t begin, const char *name,
                       const struct run_stream *stream) {
  size_t length = stream->length;
  while (!stream->truncated && length > 0 && stream->bytes[length - 1] == '\n')
    length--;
  if (length == 0)
    return;
  begin_part(text, begin);
  buffer_add_string(text, name);
  buffer_add(text, stream->bytes, length);
  if (stream->truncated)
    buffer_add_string(text, ANSWER_CUT_MARK);
}

void answer_command(const struct run_result *result, struct buffer *text) {
  size_t begin = text->length;
  add_stream(text, begin, "", &result->output);
  add_stream(text, begin, "STDERR: ", &result->errors);
  if (result->timed_out) {
    begin_part(text, begin);
    buffer_add_string(text, "(command timed out)");
  }
  if (result->exit_code != 0) {
    begin_part(text, begin);
    buffer_add_string(text, "(exit code: ");
    buffer_add_number(text, (unsigned long long)result->exit_code);
    buffer_add_string(text, ")");
  }
  if (text->length == begin)
    buffer_add_string(text, "(no output)");
}

/* --- the file kinds --- */

static void add_note(struct buffer *text, const char *note, size_t length) {
  if (text->length > 0 && text->bytes[text->length - 1] != '\n')
    buffer_add(text, "\n", 1);
  buffer_add_string(text, "... (");
  buffer_add(text, note, length);
  buffer_add_string(text, ")");
}

/* Returns whether it was too long. */
static bool cut(struct buffer *text) {
  static const char note[] = "truncated at 100 KB";
  if (text->length <= ANSWER_MAX)
    return false;
  const char *newline = memrchr(text->bytes, '\n', ANSWER_MAX + 1);
  text->length =
      newline != NULL ? (size_t)(newline - text->bytes) : utf8_cut(text->bytes, ANSWER_MAX);
  add_note(text, note, sizeof note - 1);
  return true;
}

static bool begins_with(const char *text, size_t length, const char *prefix) {
  size_t prefix_length = strlen(prefix);
  return length >= prefix_length && memcmp(text, prefix, prefix_length) == 0;
}

void answer_warnings(const struct run_result *result, const char *subject, struct buffer *text) {
  bool is_cut = cut(text);
  const char *at = result->errors.bytes;
  size_t left = result->errors.length;
  while (left > 0) {
    const char *newline = memchr(at, '\n', left);
    size_t length = newline != NULL ? (size_t)(newline - at) : left;
    size_t skipped = begins_with(at, length, subject) ? strlen(subject) : 0;
    bool is_moot = is_cut && begins_with(at + skipped, length - skipped, "truncated at ");
    if (length > skipped && !is_moot)
      add_note(text, at + skipped, length - skipped);
    size_t line = length + (newline != NULL);
    at += line;
    left -= line;
  }
}

struct run_stream answer_body(const struct run_result *result) {
  const struct run_stream *content = &result->output;
  const char *end = content->length > 0 ? memchr(content->bytes, '\n', content->length) : NULL;
  if (end == NULL)
    return (struct run_stream){0};
  return (struct run_stream){.bytes = end + 1,
                             .length = content->length - (size_t)(end + 1 - content->bytes)};
}

void answer_image(const char *type, size_t type_length, size_t bytes, struct buffer *text) {
  buffer_add_string(text, "(");
  buffer_add(text, type, type_length);
  buffer_add_string(text, ", ");
  buffer_add_number(text, bytes);
  buffer_add_string(text, " bytes: not shown as text)");
}

void answer_content(const struct run_result *result, struct buffer *text) {
  buffer_add(text, result->output.bytes, result->output.length);
}

/* The next element of a JSON array, to be deleted; NULL after the last one. One at a time: the
   whole of 16 MiB would take ten times as much memory, and most of it is never shown. */
static cJSON *next_element(const char **at, const char *end) {
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = memory_allocate, .free_fn = free});
  if (end - *at < 2) /* "]" */
    return NULL;
  ++*at; /* the bracket, or a comma */
  return cJSON_ParseWithLengthOpts(*at, (size_t)(end - *at), at, false);
}

static void add_elements(const struct run_result *result, struct buffer *text,
                         void (*add)(const cJSON *element, struct buffer *text)) {
  const char *at = result->output.bytes;
  const char *end = result->output.length > 0 ? at + result->output.length : at;
  cJSON *element;
  while (text->length <= ANSWER_MAX && (element = next_element(&at, end)) != NULL) {
    add(element, text);
    cJSON_Delete(element);
  }
}

static const char *text_of(const cJSON *element, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(element, name));
  return text != NULL ? text : "";
}

static void add_entry(const cJSON *element, struct buffer *text) {
  const char *path = text_of(element, "path");
  const char *slash = strrchr(path, '/');
  const cJSON *size = cJSON_GetObjectItemCaseSensitive(element, "size_bytes");
  char size_text[24] = "-";
  if (cJSON_IsNumber(size))
    (void)snprintf(size_text, sizeof size_text, "%.0f", size->valuedouble);
  bool is_directory = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(element, "is_directory"));
  char columns[40];
  (void)snprintf(columns, sizeof columns, "%-6s %8s  ", is_directory ? "dir" : "file", size_text);
  buffer_add_string(text, columns);
  printable_add(text, slash != NULL ? slash + 1 : path);
  buffer_add(text, "\n", 1);
}

void answer_listing(const struct run_result *result, struct buffer *text) {
  add_elements(result, text, add_entry);
  if (text->length == 0)
    buffer_add_string(text, "(empty directory)");
}

static void add_match(const cJSON *element, struct buffer *text) {
  const cJSON *line = cJSON_GetObjectItemCaseSensitive(element, "line");
  const cJSON *count = cJSON_GetObjectItemCaseSensitive(element, "count");
  const char *separator = strcmp(text_of(element, "kind"), "context") == 0 ? "-" : ":";
  if (text->length > 0)
    buffer_add(text, "\n", 1);
  printable_add(text, text_of(element, "path"));
  const cJSON *number = line != NULL ? line : count;
  if (number == NULL)
    return;
  buffer_add_string(text, separator);
  buffer_add_number(text, (unsigned long long)number->valuedouble);
  if (line == NULL)
    return;
  buffer_add_string(text, separator);
  buffer_add_string(text, text_of(element, "text"));
}

void answer_matches(const struct run_result *result, struct buffer *text) {
  add_elements(result, text, add_match);
  if (text->length == 0)
    buffer_add_string(text, "(no matches)");
}
