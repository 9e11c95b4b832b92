#include "agent/files/access/atomic_file.h"
#include "agent/kinds/kind.h"

static int work(const struct step *step, struct output *output, struct error *error) {
  struct atomic_file_chunk chunk = *(const struct atomic_file_chunk *)step->fields;
  chunk.path = step->target;
  (void)output;
  return atomic_file_append(&chunk, error);
}

static const struct step_field fields[] = {
    STEP_FIELD("content", bytes, struct atomic_file_chunk, base64, .required = true),
    STEP_FIELD("append", flag, struct atomic_file_chunk, append),
    STEP_FIELD("renameTo", text, struct atomic_file_chunk, rename_to, .minimum = 1)};

/* Not read_only, because a chunk must not be appended twice. */
const struct kind write_bytes_kind = {KIND_WIRE("writeBytes", 7, "path", struct atomic_file_chunk),
                                      .work = work,
                                      .other_path = offsetof(struct atomic_file_chunk, rename_to)};
