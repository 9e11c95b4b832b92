#include "agent/files/grep/match_list.h"

#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

#define ELLIPSIS "\xE2\x80\xA6"

void match_list_begin(struct match_list *self, struct buffer *out, bool as_lines) {
  *self = (struct match_list){.out = out, .as_lines = as_lines, .is_empty = true};
  buffer_add_string(out, as_lines ? "" : "[");
}

void match_list_end(struct match_list *self) {
  buffer_add_string(self->out, self->as_lines ? "" : "]");
  buffer_release(&self->path);
}

void match_list_file(struct match_list *self, const char *path, size_t length) {
  self->path.length = 0;
  if (self->as_lines)
    printable_add(&self->path, path, length);
  else
    buffer_add_json(&self->path, path, length);
}

static bool open_entry(struct match_list *self) {
  static const char *const before[2][2] = {{",{\"path\":", "{\"path\":"}, {"\n", ""}};
  if (self->out->length >= MATCH_LIST_BYTES_MAX)
    return false;
  buffer_add_string(self->out, before[self->as_lines][self->is_empty]);
  buffer_add(self->out, self->path.bytes, self->path.length);
  self->is_empty = false;
  return true;
}

/* A number, the last of the entry or with a text behind it. */
static void add_number(struct match_list *self, const char *name, const char *separator,
                       size_t number) {
  buffer_add_string(self->out, self->as_lines ? separator : name);
  buffer_add_number(self->out, number);
}

static void close_entry(struct match_list *self) {
  buffer_add_string(self->out, self->as_lines ? "" : "}");
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

/* In lines it ends before a NUL. */
static void add_text(struct match_list *self, const char *text, size_t length) {
  size_t shown = cut(text, length, MATCH_LIST_CHARACTERS);
  if (self->as_lines) {
    size_t before_nul = strnlen(text, shown);
    buffer_add(self->out, text, before_nul);
    buffer_add_string(self->out, before_nul == shown && shown < length ? ELLIPSIS : "");
    return;
  }
  buffer_add_json(self->out, text, shown);
  if (shown < length) {
    self->out->length--; /* within the quotes */
    buffer_add_string(self->out, ELLIPSIS "\"");
  }
}

bool match_list_line(struct match_list *self, size_t number, const char *text, size_t length,
                     bool is_match) {
  const char *separator = is_match ? ":" : "-";
  if (!open_entry(self))
    return false;
  add_number(self, ",\"line\":", separator, number);
  buffer_add_string(self->out, self->as_lines ? separator : ",\"text\":");
  add_text(self, text, length);
  if (!self->as_lines)
    buffer_add_string(self->out, is_match ? ",\"kind\":\"match\"" : ",\"kind\":\"context\"");
  close_entry(self);
  return true;
}

bool match_list_path(struct match_list *self) {
  if (!open_entry(self))
    return false;
  close_entry(self);
  return true;
}

bool match_list_count(struct match_list *self, size_t count) {
  if (!open_entry(self))
    return false;
  add_number(self, ",\"count\":", ":", count);
  close_entry(self);
  return true;
}
