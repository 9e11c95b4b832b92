#include "client/steps/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "wire/json.h"

static unsigned hex_digit(char digit) {
  return (unsigned)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
}

static uint32_t hex4(const char *text) {
  return hex_digit(text[0]) << 12 | hex_digit(text[1]) << 8 | hex_digit(text[2]) << 4 |
         hex_digit(text[3]);
}

static void add_utf8(struct buffer *out, uint32_t character) {
  char bytes[4];
  size_t length = 0;
  if (character < 0x80) {
    bytes[length++] = (char)character;
  } else if (character < 0x800) {
    bytes[length++] = (char)(0xC0 | character >> 6);
  } else if (character < 0x10000) {
    bytes[length++] = (char)(0xE0 | character >> 12);
    bytes[length++] = (char)(0x80 | (character >> 6 & 0x3F));
  } else {
    bytes[length++] = (char)(0xF0 | character >> 18);
    bytes[length++] = (char)(0x80 | (character >> 12 & 0x3F));
    bytes[length++] = (char)(0x80 | (character >> 6 & 0x3F));
  }
  if (character >= 0x80)
    bytes[length++] = (char)(0x80 | (character & 0x3F));
  buffer_add(out, bytes, length);
}

/* At an escape, which is whole; returns where it ends. */
static const char *add_escape(struct buffer *out, const char *at, const char *end) {
  static const char letters[] = "bfnrt", controls[] = "\b\f\n\r\t";
  const char *letter = strchr(letters, at[1]);
  if (at[1] != 'u') {
    buffer_add(out, letter != NULL ? &controls[letter - letters] : at + 1, 1);
    return at + 2;
  }
  uint32_t character = hex4(at + 2);
  at += 6;
  if (character >= 0xD800 && character < 0xDC00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
    character = 0x10000 + ((character - 0xD800) << 10) + (hex4(at + 2) - 0xDC00);
    at += 6;
  }
  add_utf8(out, character);
  return at;
}

/* The inside of a string. Without escapes it stays where it is. */
static const char *decode(const char *text, size_t length, struct buffer *space, size_t *decoded) {
  const char *end = text + length, *escape = memchr(text, '\\', length);
  *decoded = length;
  if (escape == NULL)
    return text;
  space->length = 0;
  for (const char *at = text; at < end; escape = memchr(at, '\\', (size_t)(end - at))) {
    const char *plain = escape != NULL ? escape : end;
    buffer_add(space, at, (size_t)(plain - at));
    at = escape != NULL ? add_escape(space, escape, end) : end;
    if (at >= end)
      break;
  }
  *decoded = space->length;
  return space->length > 0 ? space->bytes : "";
}

struct member {
  const char *name, *value;
  size_t name_length, length;
  char token;
};

static bool is_named(const struct member *self, const char *name) {
  return self->name_length == strlen(name) && memcmp(self->name, name, self->name_length) == 0;
}

/* A string's text is without its quotes. False at the end, and at what an event does not have. */
static bool next_member(struct json_text *text, struct member *self) {
  struct json_text *at = text;
  do
    if (json_text_next(at) != JSON_TEXT_WHOLE)
      return false;
  while (at->token == ',' || at->token == '{');
  if (at->token != '"')
    return false;
  *self = (struct member){.name = at->bytes + at->start + 1, .name_length = at->at - at->start - 2};
  if (json_text_next(at) != JSON_TEXT_WHOLE || at->token != ':' ||
      json_text_next(at) != JSON_TEXT_WHOLE)
    return false;
  self->token = at->token;
  self->value = at->bytes + at->start + (at->token == '"');
  self->length = at->at - at->start - (at->token == '"' ? 2 : 0);
  return true;
}

static bool read_kind(const struct member *member, enum step_event_kind *kind) {
  static const char *const names[] = {"started", "stdout", "stderr", "completed"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (member->length == strlen(names[i]) &&
        memcmp(member->value, names[i], member->length) == 0) {
      *kind = (enum step_event_kind)i;
      return true;
    }
  return false;
}

bool event_parse(struct event_view *self, const char *json, size_t length, struct buffer *space) {
  struct json_text text = {.bytes = json, .length = length};
  struct member member;
  bool has_kind = false;
  *self = (struct event_view){0};
  while (next_member(&text, &member)) {
    if (is_named(&member, "line"))
      self->line = decode(member.value, member.length, space, &self->line_length);
    else if (is_named(&member, "kind"))
      has_kind = read_kind(&member, &self->kind);
    else if (is_named(&member, "stepId")) {
      self->step_id = member.value;
      self->step_id_length = member.length;
    } else if (is_named(&member, "timestamp")) {
      self->timestamp = member.value;
      self->timestamp_length = member.length;
    } else if (is_named(&member, "seq")) {
      self->seq = member.value[0] == '-' ? 0 : strtoull(member.value, NULL, 10);
    } else if (is_named(&member, "partial")) {
      self->partial = member.length == 4;
    } else if (member.token == '[' || member.token == '{') {
      break; /* of started alone, and behind all that is read here */
    }
  }
  return has_kind && self->step_id != NULL && self->line != NULL;
}

bool event_read_completed(const struct event_view *self, int *exit_code, bool *timed_out) {
  char text[64], word[8];
  (void)snprintf(text, sizeof text, "%.*s", (int)self->line_length, self->line);
  if (self->kind != STEP_EVENT_COMPLETED ||
      sscanf(text, "exit=%d timedOut=%7s", exit_code, word) != 2)
    return false;
  *timed_out = strcmp(word, "True") == 0;
  return true;
}

/* So many digits; -1 where there are none. */
static int read_digits(const char *text, size_t count) {
  int value = 0;
  for (size_t i = 0; i < count; i++) {
    if (text[i] < '0' || text[i] > '9')
      return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

/* Not by sscanf(3), which takes longer than all else that a recording does with an event. */
bool event_read_time(const struct event_view *self, int64_t *unix_ms) {
  static const struct {
    size_t at, count;
  } parts[] = {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}, {20, 3}};
  int values[7];
  if (self->timestamp_length < 23)
    return false;
  for (size_t i = 0; i < 7; i++)
    if ((values[i] = read_digits(self->timestamp + parts[i].at, parts[i].count)) < 0)
      return false;
  struct tm tm = {.tm_year = values[0] - 1900,
                  .tm_mon = values[1] - 1,
                  .tm_mday = values[2],
                  .tm_hour = values[3],
                  .tm_min = values[4],
                  .tm_sec = values[5]};
  *unix_ms = (int64_t)timegm(&tm) * 1000 + values[6];
  return true;
}
