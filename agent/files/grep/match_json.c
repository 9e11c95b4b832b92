#include "agent/files/grep/match_json.h"

#include <string.h>

#include "base/utf8.h"

#define ELLIPSIS "\xE2\x80\xA6"

void match_json_begin(struct match_json *self, struct buffer *out) {
  *self = (struct match_json){.out = out, .is_empty = true};
  buffer_add(out, "[", 1);
}

void match_json_end(struct match_json *self) {
  buffer_add(self->out, "]", 1);
  buffer_release(&self->path);
}

void match_json_file(struct match_json *self, const char *path, size_t length) {
  self->path.length = 0;
  buffer_add_json(&self->path, path, length);
}

static bool open_entry(struct match_json *self) {
  if (self->out->length >= MATCH_JSON_BYTES_MAX)
    return false;
  buffer_add_string(self->out, self->is_empty ? "{\"path\":" : ",{\"path\":");
  buffer_add(self->out, self->path.bytes, self->path.length);
  self->is_empty = false;
  return true;
}

/* Length in bytes of the first `characters` characters, or of the whole text. */
static size_t cut(const char *text, size_t length, size_t characters) {
  if (length <= characters)
    return length;
  size_t at = 0;
  for (; characters > 0 && at < length; characters--) {
    size_t size = utf8_sequence(text + at, length - at);
    at += size > 0 ? size : utf8_broken(text + at, length - at);
  }
  return at;
}

bool match_json_line(struct match_json *self, size_t number, const char *text, size_t length,
                     bool is_match) {
  if (!open_entry(self))
    return false;
  buffer_add_string(self->out, ",\"line\":");
  buffer_add_number(self->out, number);
  buffer_add_string(self->out, ",\"text\":");
  size_t shown = cut(text, length, MATCH_JSON_CHARACTERS);
  buffer_add_json(self->out, text, shown);
  if (shown < length) {
    self->out->length--; /* within the quotes */
    buffer_add_string(self->out, ELLIPSIS "\"");
  }
  buffer_add_string(self->out, is_match ? ",\"kind\":\"match\"}" : ",\"kind\":\"context\"}");
  return true;
}

bool match_json_path(struct match_json *self) {
  if (!open_entry(self))
    return false;
  buffer_add(self->out, "}", 1);
  return true;
}

bool match_json_count(struct match_json *self, size_t count) {
  if (!open_entry(self))
    return false;
  buffer_add_string(self->out, ",\"count\":");
  buffer_add_number(self->out, count);
  buffer_add(self->out, "}", 1);
  return true;
}
