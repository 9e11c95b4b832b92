#include "agent/files/tree/reference.h"

#include <stdlib.h>
#include <string.h>

#include "agent/files/access/lexical_path.h"
#include "base/memory.h"

char *reference_below(const char *repository, const char *root) {
  if (repository == NULL)
    return NULL;
  char *reference = lexical_path_new(repository, REFERENCE_DIRECTORY);
  char *start = lexical_path_new(repository, root);
  const char *below = lexical_path_below(reference, start);
  char *copy = below != NULL && below[0] != '\0' ? memory_copy(below, strlen(below)) : NULL;
  free(reference);
  free(start);
  return copy;
}
