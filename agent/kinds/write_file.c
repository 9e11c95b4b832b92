#include <fcntl.h>

#include "agent/files/access/atomic_file.h"
#include "agent/kinds/kind.h"

struct write_file {
  struct step_bytes content;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct write_file *self = step->fields;
  (void)output;
  return atomic_file_write(AT_FDCWD, step->target, self->content.text, self->content.length, error);
}

static const struct step_field fields[] = {
    STEP_FIELD("content", bytes, struct write_file, content, .required = true)};

const struct kind write_file_kind = {KIND_WIRE("writeFile", 3, "path", struct write_file),
                                     .work = work};
