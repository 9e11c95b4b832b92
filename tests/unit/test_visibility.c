#include <sys/mman.h>
#include <unistd.h>

#include "agent/doors/redis/visibility.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

/* What the log has behind the time, to be emptied. */
static void expect_log(const struct log *log, const char *expected) {
  static const char time[] = "00:00:00.000 ";
  char text[512] = "";
  assert_true(pread(log->fd, text, sizeof text - 1, 0) >= 0);
  assert_int_equal(ftruncate(log->fd, 0), 0);
  assert_int_equal(lseek(log->fd, 0, SEEK_SET), 0);
  assert_string_equal(text[0] != '\0' ? text + strlen(time) : text, expected);
}

TEST(it_tells_once_and_when_it_is_over) {
  struct log log = {.least = LOG_INFO, .fd = memfd_create("log", MFD_CLOEXEC)};
  struct visibility visibility;
  virtual_time_ms = 5000;
  virtual_unix_offset_ms = 0;
  visibility_init(&visibility, &log);
  virtual_time_ms += VISIBILITY_MS - 1;
  visibility_check(&visibility, false);
  visibility_confirm(&visibility);
  virtual_time_ms += VISIBILITY_MS - 1;
  visibility_check(&visibility, false);
  expect_log(&log, "");
  virtual_time_ms++;
  visibility_check(&visibility, false);
  expect_log(&log, "WARN  redis heartbeat: not visible for 10 s\n");
  virtual_time_ms += 2500;
  visibility_check(&visibility, false);
  expect_log(&log, "");
  visibility_confirm(&visibility);
  expect_log(&log, "INFO  redis heartbeat: visible again after 12.5 s\n");
  visibility_confirm(&visibility);
  expect_log(&log, "");
  virtual_time_ms += VISIBILITY_MS;
  visibility_check(&visibility, true);
  expect_log(&log, "WARN  redis heartbeat: not visible for 10 s: redis has no room for the key\n");
  close(log.fd);
}
