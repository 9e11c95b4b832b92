#include "agent/files/access/atomic_file.h"
#include "agent/kinds/kind.h"

struct write_bytes {
  struct step_bytes content;
  char *rename_to;
  bool append;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct write_bytes *self = step->fields;
  const struct atomic_file_chunk chunk = {.path = step->target,
                                          .base64 = self->content.text,
                                          .length = self->content.length,
                                          .append = self->append,
                                          .rename_to = self->rename_to};
  (void)output;
  return atomic_file_append(&chunk, error);
}

static const struct step_field fields[] = {
    STEP_FIELD("content", bytes, struct write_bytes, content, .required = true),
    STEP_FIELD("append", flag, struct write_bytes, append),
    STEP_FIELD("renameTo", text, struct write_bytes, rename_to, .minimum = 1)};

/* Not read_only, because a chunk must not be appended twice. */
const struct kind write_bytes_kind = {KIND_WIRE("writeBytes", 7, "path", struct write_bytes),
                                      .work = work,
                                      .other_path = offsetof(struct write_bytes, rename_to)};
