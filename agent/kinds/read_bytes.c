#include <inttypes.h>

#include "agent/files/access/regular_file.h"
#include "agent/kinds/kind.h"

/* The most bytes of one result (wire/PROTOCOL.md, readBytes). */
#define LENGTH_MAX 4194304

struct read_bytes {
  uint64_t offset;
  unsigned length;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct read_bytes *self = step->fields;
  struct buffer bytes = {0};
  uint64_t size;
  int result = regular_file_bytes(step->target, self->offset, self->length, &bytes, &size, error);
  if (result == 0) {
    buffer_add_format(&output->content, "{\"size\":%" PRIu64 ",\"content\":\"", size);
    buffer_add_base64(&output->content, bytes.bytes, bytes.length);
    buffer_add_string(&output->content, "\"}");
  }
  buffer_release(&bytes);
  return result;
}

static const struct step_field fields[] = {STEP_FIELD("offset", offset, struct read_bytes, offset),
                                           STEP_FIELD("length", count, struct read_bytes, length,
                                                      .maximum = LENGTH_MAX,
                                                      .fallback = LENGTH_MAX)};

const struct kind read_bytes_kind = {
    KIND_WIRE("readBytes", STEP_CHOICE_NO_NUMBER, "path", struct read_bytes), .work = work,
    .has_content = true, .read_only = true};
