#include <stdio.h>
#include <string.h>

#include "client/tar/tar.h"
#include "client/tar/tar_format.h"

static int put_zeros(const struct tar_sink *sink, uint64_t count) {
  static const char zeros[2 * TAR_BLOCK];
  int result = 0;
  while (count > 0 && result == 0) {
    const size_t length = count < sizeof zeros ? (size_t)count : sizeof zeros;
    result = sink->put(sink->owner, zeros, length);
    count -= length;
  }
  return result;
}

static uint64_t padding(uint64_t size) {
  return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

/* Writes an octal number, or one of base 256 if it has too many digits. */
static void set_number(char *field, size_t size, uint64_t number) {
  char digits[32];
  const int length =
      snprintf(digits, sizeof digits, "%0*llo", (int)size - 1, (unsigned long long)number);
  if ((size_t)length < size) {
    memcpy(field, digits, size);
    return;
  }
  for (size_t i = size; i > 0; i--, number >>= 8)
    field[i - 1] = (char)(number & 0xFF);
  field[0] = (char)0x80;
}

static int put_header(const struct tar_sink *sink, const char *name, const char *link, char type,
                      const struct stat *status, uint64_t size) {
  struct tar_header header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
  memcpy(header.name, name, strnlen(name, sizeof header.name));
  memcpy(header.link, link, strnlen(link, sizeof header.link));
  set_number(header.mode, sizeof header.mode, status->st_mode & TREE_MODE);
  set_number(header.uid, sizeof header.uid, 0);
  set_number(header.gid, sizeof header.gid, 0);
  set_number(header.size, sizeof header.size, size);
  set_number(header.mtime, sizeof header.mtime,
             status->st_mtime > 0 ? (uint64_t)status->st_mtime : 0);
  memset(header.checksum, ' ', sizeof header.checksum);
  unsigned sum = 0;
  for (size_t i = 0; i < sizeof header; i++)
    sum += ((const unsigned char *)&header)[i];
  (void)snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
  return sink->put(sink->owner, (const char *)&header, sizeof header);
}

/* A text that is too long for a header becomes the content of an extra entry before it. */
static int put_long(const struct tar_sink *sink, char type, const char *text) {
  const struct stat status = {.st_mode = 0644};
  const size_t length = strlen(text) + 1;
  if (length <= sizeof((struct tar_header *)NULL)->name)
    return 0;
  int result = put_header(sink, "././@LongLink", "", type, &status, length);
  if (result == 0)
    result = sink->put(sink->owner, text, length);
  return result == 0 ? put_zeros(sink, padding(length)) : result;
}

int tar_begin_entry(const struct tar_sink *sink, const struct tree_entry *entry) {
  const char *link = entry->link != NULL ? entry->link : "";
  const char type = entry->link != NULL               ? TAR_SYMBOLIC_LINK
                    : S_ISDIR(entry->status->st_mode) ? TAR_DIRECTORY
                                                      : TAR_FILE;
  int result = put_long(sink, TAR_GNU_LINK, link);
  if (result == 0)
    result = put_long(sink, TAR_GNU_NAME, entry->name);
  return result == 0 ? put_header(sink, entry->name, link, type, entry->status, entry->size)
                     : result;
}

int tar_end_entry(const struct tar_sink *sink, const struct tree_entry *entry, uint64_t put) {
  return put_zeros(sink, entry->size - put + padding(entry->size));
}

int tar_end(const struct tar_sink *sink) {
  return put_zeros(sink, (uint64_t)2 * TAR_BLOCK);
}

/* --- a directory ------------------------------------------------------------------------------ */

struct pack {
  const struct tar_sink *sink;
  uint64_t put; /* bytes of this file */
};

static int on_begin(void *owner, const struct tree_entry *entry) {
  struct pack *self = owner;
  self->put = 0;
  return tar_begin_entry(self->sink, entry);
}

static int on_put(void *owner, const char *bytes, size_t length) {
  struct pack *self = owner;
  self->put += length;
  return self->sink->put(self->sink->owner, bytes, length);
}

static int on_end(void *owner, const struct tree_entry *entry) {
  struct pack *self = owner;
  return entry->size > 0 ? tar_end_entry(self->sink, entry, self->put) : 0;
}

int tar_pack(const char *directory, const struct tar_sink *sink, const struct tree_report *report,
             struct error *error) {
  struct pack self = {.sink = sink};
  const struct tree_reader reader = {on_begin, on_end, on_put, &self, report};
  const int result = tree_read(directory, &reader, error);
  return result == 0 ? tar_end(sink) : result;
}
