#include "agent/files/access/media_file.h"

#include <stdbool.h>
#include <string.h>

#include "agent/files/access/regular_file.h"
#include "base/utf8.h"

static bool has(const struct buffer *file, size_t at, const char *bytes, size_t length) {
  return file->length >= at + length && memcmp(file->bytes + at, bytes, length) == 0;
}

/* A character may be cut at the end of what was read. */
static bool is_text(const struct buffer *file) {
  size_t whole = utf8_cut(file->bytes, file->length);
  return utf8_valid_prefix(file->bytes, whole) == whole;
}

/* NULL: no image. */
static const char *image_type(const struct buffer *file) {
  if (has(file, 0, "\x89PNG\r\n\x1A\n", 8))
    return "image/png";
  if (has(file, 0, "\xFF\xD8\xFF", 3))
    return "image/jpeg";
  bool is_gif = has(file, 0, "GIF87a", 6) || has(file, 0, "GIF89a", 6);
  bool is_webp = has(file, 0, "RIFF", 4) && has(file, 8, "WEBP", 4);
  if ((!is_gif && !is_webp) || is_text(file))
    return NULL;
  return is_gif ? "image/gif" : "image/webp";
}

static int add_image(const char *type, const struct buffer *file, struct buffer *to,
                     struct error *error) {
  if (file->length > MEDIA_FILE_IMAGE_MAX)
    return error_set(error, "image exceeds 5 MB limit");
  buffer_add_string(to, type);
  buffer_add_string(to, "\n");
  buffer_add_base64(to, file->bytes, file->length);
  return 0;
}

static int add_text(const struct line_range *range, const struct buffer *file, struct buffer *to,
                    struct error *error) {
  if (file->length > REGULAR_FILE_MAX)
    return error_set(error, REGULAR_FILE_TOO_LARGE);
  buffer_add_string(to, "text/plain\n");
  return line_range_cut(range, file->bytes, file->length, to, error);
}

int media_file_cut(const char *path, const struct line_range *range, struct buffer *to,
                   struct error *error) {
  struct buffer file = {0};
  uint64_t size;
  int result = regular_file_bytes(path, 0, (size_t)MEDIA_FILE_IMAGE_MAX + 1, &file, &size, error);
  if (result == 0) {
    const char *type = image_type(&file);
    result = type != NULL ? add_image(type, &file, to, error) : add_text(range, &file, to, error);
  }
  buffer_release(&file);
  return result;
}
