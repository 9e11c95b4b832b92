#include "tests/support/logged.h"

#include <sys/mman.h>

#include "tests/test.h"

struct log logged_open(enum log_level least) {
  return (struct log){.least = least, .fd = memfd_create("log", MFD_CLOEXEC)};
}

int logged_count(const struct log *log, const char *text) {
  static char all[65536];
  ssize_t length = pread(log->fd, all, sizeof all - 1, 0);
  assert_in_range(length, 0, sizeof all - 2);
  all[length] = '\0';
  return logged_count_in(all, text);
}

int logged_count_in(const char *text, const char *part) {
  int found = 0;
  for (; (text = strstr(text, part)) != NULL; text += strlen(part))
    found++;
  return found;
}
