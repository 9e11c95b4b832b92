#include "client/steps/event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "wire/json.h"

static void parse_entry_id(const char *entry, uint64_t *ms, uint64_t *number) {
  char *end;
  *ms = strtoull(entry, &end, 10);
  *number = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
}

int entry_compare(const char *entry, const char *other) {
  uint64_t ms, number, other_ms, other_number;
  parse_entry_id(entry, &ms, &number);
  parse_entry_id(other, &other_ms, &other_number);
  if (ms != other_ms)
    return ms < other_ms ? -1 : 1;
  return number < other_number ? -1 : number > other_number;
}

void entry_before(char out[ENTRY_ID_SIZE], const char *entry) {
  uint64_t ms, number;
  parse_entry_id(entry, &ms, &number);
  if (number > 0)
    number--;
  else if (ms > 0)
    ms--, number = UINT64_MAX;
  (void)snprintf(out, ENTRY_ID_SIZE, "%" PRIu64 "-%" PRIu64, ms, number);
}

const char *event_entry_id(const struct reply *entry) {
  return entry->type == REPLY_ARRAY && entry->elements == 2 &&
                 entry->element[0]->type == REPLY_STRING && entry->element[0]->len < ENTRY_ID_SIZE
             ? entry->element[0]->str
             : "";
}

/* Adds the character of an escape, which was checked, and returns the end of the escape. */
static const char *add_escape(struct buffer *out, const char *at, const char *end) {
  static const char letters[] = "bfnrt", controls[] = "\b\f\n\r\t";
  const char *letter = strchr(letters, at[1]);
  char utf16[UTF16_DECODED_MAX(4)];
  size_t length = 0;
  if (at[1] != 'u') {
    buffer_add(out, letter != NULL ? &controls[letter - letters] : at + 1, 1);
    return at + 2;
  }
  do { /* a surrogate pair is two escapes */
    char digits[5] = {at[2], at[3], at[4], at[5]};
    const unsigned long unit = strtoul(digits, NULL, 16);
    utf16[length++] = (char)(unit >> 8);
    utf16[length++] = (char)unit;
    at += 6;
  } while (length == 2 && (utf16[0] & 0xFC) == 0xD8 && end - at >= 6 && at[0] == '\\' &&
           at[1] == 'u');
  buffer_add(out, utf16, utf16_decode(utf16, length, true));
  return at;
}

/* Decodes the inside of a string. Text without escapes is not copied. */
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

/* Decodes base64. Returns NULL if it is none. */
static const char *decode_raw(const char *text, size_t length, struct buffer *space,
                              size_t *decoded) {
  struct base64_reader reader = base64_reader(text, length);
  const size_t most = length / 4 * 3 + 3;
  space->length = 0;
  char *out = buffer_space(space, most);
  const ssize_t count = base64_read(&reader, out, most);
  *decoded = count > 0 ? (size_t)count : 0;
  return count >= 0 ? out : NULL;
}

/* A member of the event; a string is without its quotes. */
struct event_member {
  const char *name, *value;
  size_t name_length, length;
  char token;
};

static bool is_named(const struct event_member *self, const char *name) {
  return self->name_length == strlen(name) && memcmp(self->name, name, self->name_length) == 0;
}

/* Returns false at the end, and if the text is not an event. */
static bool read_member(struct json_text *text, struct event_member *self) {
  do
    if (json_text_next(text) != JSON_TEXT_WHOLE)
      return false;
  while (text->token == ',' || text->token == '{');
  if (text->token != '"')
    return false;
  *self = (struct event_member){.name = text->bytes + text->start + 1,
                                .name_length = text->at - text->start - 2};
  if (json_text_next(text) != JSON_TEXT_WHOLE || text->token != ':' ||
      json_text_next(text) != JSON_TEXT_WHOLE)
    return false;
  const size_t quote = text->token == '"';
  self->token = text->token;
  self->value = text->bytes + text->start + quote;
  self->length = text->at - text->start - 2 * quote;
  return true;
}

/* A newer agent may write other kinds, which have the number after the last one. */
static enum step_event_kind read_kind(const struct event_member *member) {
  static const char *const names[] = {"started", "stdout", "stderr", "completed", "gap"};
  const size_t count = sizeof names / sizeof *names;
  size_t i = 0;
  while (i < count && (member->length != strlen(names[i]) ||
                       memcmp(member->value, names[i], member->length) != 0))
    i++;
  return (enum step_event_kind)i;
}

/* The members after the known ones may be anything. */
static bool parse(struct event_view *self, struct buffer *space) {
  struct json_text text = {.bytes = self->json, .length = self->length};
  struct event_member member;
  bool has_kind = false;
  while (read_member(&text, &member)) {
    while (text.depth > 1 && json_text_next(&text) == JSON_TEXT_WHOLE)
      continue;
    if (is_named(&member, "line"))
      self->line = decode(member.value, member.length, space, &self->line_length);
    else if (is_named(&member, "kind") && (has_kind = true))
      self->kind = read_kind(&member);
    else if (is_named(&member, "stepId"))
      self->step_id = member.value, self->step_id_length = member.length;
    else if (is_named(&member, "timestamp"))
      self->timestamp = member.value, self->timestamp_length = member.length;
    else if (is_named(&member, "seq"))
      self->seq = member.value[0] == '-' ? 0 : strtoull(member.value, NULL, 10);
    else if (is_named(&member, "partial"))
      self->partial = member.length == strlen("true");
    else if (is_named(&member, "encoding"))
      self->is_raw = true;
  }
  if (self->is_raw && self->line != NULL) {
    self->partial = true;
    self->line = decode_raw(self->line, self->line_length, space, &self->line_length);
  }
  return has_kind && self->step_id != NULL;
}

bool event_read_json(struct event_view *self, const char *entry, const char *json, size_t length,
                     struct buffer *space) {
  *self = (struct event_view){.entry = entry, .json = json, .length = length, .line = ""};
  return parse(self, space);
}

bool event_read(struct event_view *self, const struct reply *entry, struct buffer *space) {
  const char *id = event_entry_id(entry);
  const struct reply *fields = id[0] != '\0' ? entry->element[1] : NULL;
  if (fields == NULL || fields->type != REPLY_ARRAY || fields->elements < 2 ||
      fields->element[1]->type != REPLY_STRING ||
      !event_read_json(self, id, fields->element[1]->str, fields->element[1]->len, space))
    return false;
  self->logged_ms = strtoll(id, NULL, 10);
  return true;
}

bool event_is_of(const struct event_view *self, const char *step_id) {
  return self->step_id_length == strlen(step_id) &&
         strncasecmp(self->step_id, step_id, self->step_id_length) == 0;
}

bool event_read_completed(const struct event_view *self, struct completion *completion) {
  char text[64], word[8];
  (void)snprintf(text, sizeof text, "%.*s", (int)self->line_length, self->line);
  if (self->kind != STEP_EVENT_COMPLETED ||
      sscanf(text, "exit=%d timedOut=%7s", &completion->exit_code, word) != 2)
    return false;
  completion->timed_out = strcmp(word, "True") == 0;
  return true;
}

/* Returns -1 if these are not all digits. */
static int read_digits(const char *text, size_t count) {
  int value = 0;
  for (size_t i = 0; i < count; i++) {
    if (text[i] < '0' || text[i] > '9')
      return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

/* sscanf(3) takes longer than all other work of a recording. */
bool event_parse_time(const char *timestamp, size_t length, int64_t *unix_ms) {
  static const struct {
    size_t at, count;
  } parts[] = {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}, {20, 3}};
  int values[7];
  if (length < 23)
    return false;
  for (size_t i = 0; i < 7; i++)
    if ((values[i] = read_digits(timestamp + parts[i].at, parts[i].count)) < 0)
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

bool event_read_time(const struct event_view *self, int64_t *unix_ms) {
  return event_parse_time(self->timestamp, self->timestamp_length, unix_ms);
}
