#include "base/process_title.h"

#include <string.h>

/* Returns the end of the strings that lie one after the other in memory, starting at `end`. */
static char *find_end(char *end, char *const *texts) {
  for (; *texts != NULL && *texts == end; texts++)
    end += strlen(*texts) + 1;
  return end;
}

struct process_title process_title_find(int argc, char **argv, char *const *environment) {
  if (argc < 1)
    return (struct process_title){0};
  char *arguments_end = find_end(argv[0], argv);
  char *end = environment != NULL ? find_end(arguments_end, environment) : arguments_end;
  return (struct process_title){.area = argv[0],
                                .arguments = (size_t)(arguments_end - argv[0]),
                                .size = (size_t)(end - argv[0])};
}

void process_title_set(const struct process_title *self, const char *text) {
  if (self->area == NULL || self->size == 0)
    return;
  size_t length = strnlen(text, self->size - 1);
  size_t cleared = length < self->arguments ? self->arguments : length + 1;
  memcpy(self->area, text, length);
  memset(self->area + length, 0, cleared - length);
}
