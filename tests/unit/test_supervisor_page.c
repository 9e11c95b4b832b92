#include <stdatomic.h>

#include "agent/process/supervisor_page.h"
#include "tests/test.h"

static struct supervisor_page page;
static struct supervisor_report report;

/* Writes a page as a supervisor leaves it. */
static void fill(void) {
  supervisor_report_release(&report);
  memset(&page, 0, sizeof page);
  atomic_store(&page.pid, 4242);
  page.status = 3 << 8;
  page.usage = (struct step_usage){.max_rss_bytes = -1, .user_us = 1000, .processes = 2};
  atomic_store(&page.alive_count, 2);
  for (int i = 0; i < 2; i++)
    page.alive[i] = (struct step_process){
        .pid = 7 + i, .parent = 1, .rss_bytes = -1, .state = 'S', .command = "sleep 60"};
  atomic_store(&page.ended, 1);
}

static void is_rejected(void) {
  supervisor_report_release(&report);
  assert_false(supervisor_report_read(&report, &page));
  assert_int_equal(report.status, SIGKILL);
  assert_int_equal(report.usage.user_us, -1);
  assert_int_equal(report.alive_count, 0);
  assert_null(report.alive);
  fill();
  assert_true(supervisor_report_read(&report, &page));
}

TEST(a_valid_report_is_copied, NULL, NULL) {
  fill();
  assert_true(supervisor_report_read(&report, &page));
  memset(&page, 0xFF, sizeof page);
  assert_int_equal(report.status, 3 << 8);
  assert_int_equal(report.usage.user_us, 1000);
  assert_int_equal(report.alive_count, 2);
  assert_int_equal(report.alive[1].pid, 8);
  assert_string_equal(report.alive[1].command, "sleep 60");
  supervisor_report_release(&report);
}

TEST(the_status_is_invalid_before_the_command_ends, NULL, NULL) {
  fill();
  atomic_store(&page.ended, 0);
  assert_true(supervisor_report_read(&report, &page));
  assert_int_equal(report.status, SIGKILL);
  assert_int_equal(report.usage.user_us, -1);
  supervisor_report_release(&report);
}

TEST(every_impossible_value_is_rejected, NULL, NULL) {
  static const int statuses[] = {-1, 0x80, 0x7F, 0xFF, 0x10000, 0x0100 | SIGKILL, INT32_MIN};
  static const int possible[] = {0, 0xFF00, 9, 0x80 | 6, 64};
  for (size_t i = 0; i < sizeof possible / sizeof *possible; i++) {
    fill();
    page.status = possible[i];
    assert_true(supervisor_report_read(&report, &page));
  }
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    fill();
    page.status = statuses[i];
    is_rejected();
  }
  atomic_store(&page.alive_count, SUPERVISOR_ALIVE_MAX + 1);
  is_rejected();
  atomic_store(&page.alive_count, 3000);
  is_rejected();
  atomic_store(&page.alive_count, UINT32_MAX);
  is_rejected();
  page.failure.stage = (enum exec_stage)(EXEC_REFUSED + 1);
  is_rejected();
  memset(&page.failure.stage, 0xFF, sizeof page.failure.stage);
  is_rejected();
  memset(page.failure.reason.text, 'x', sizeof page.failure.reason.text);
  is_rejected();
  page.failure.reason.why = 1;
  is_rejected();
  page.failure.reason.code = -1;
  is_rejected();
  page.usage.processes = -2;
  is_rejected();
  page.usage.written_bytes = INT64_MAX;
  is_rejected();
  page.alive[1].pid = 0;
  is_rejected();
  page.alive[1].state = '\n';
  is_rejected();
  page.alive[1].age_ms = INT64_MIN;
  is_rejected();
  memset(page.alive[0].command, 'x', sizeof page.alive[0].command);
  is_rejected();
  memset(page.alive[0].wait, 'x', sizeof page.alive[0].wait);
  is_rejected();
  memset(page.alive[0].syscall, 'x', sizeof page.alive[0].syscall);
  is_rejected();
  supervisor_report_release(&report);
}

/* Returns the same numbers in each run of the test. */
static unsigned random_number(void) {
  static unsigned state = 1;
  state = state * 1103515245 + 12345;
  return state >> 16;
}

/* The sanitizers report an access out of bounds. */
TEST(random_bytes_are_rejected_or_give_a_valid_report, NULL, NULL) {
  enum { ROUNDS = 20000 };
  unsigned char *bytes = (unsigned char *)&page;
  for (int round = 0; round < ROUNDS; round++) {
    fill();
    size_t size = round % 2 == 0 ? sizeof page : SUPERVISOR_PAGE_SHORT;
    for (unsigned n = 1 + random_number() % (round % 4 == 0 ? 2000 : 3); n > 0; n--)
      bytes[random_number() % size] = (unsigned char)random_number();
    if (!supervisor_report_read(&report, &page))
      continue;
    assert_in_range(report.alive_count, 0, SUPERVISOR_ALIVE_MAX);
    assert_in_range(report.stage, EXEC_DONE, EXEC_REFUSED);
    assert_true(strlen(error_why(&report.reason)) < sizeof report.reason.text);
    for (size_t i = 0; i < report.alive_count; i++)
      assert_true(strlen(report.alive[i].command) < sizeof report.alive[i].command);
  }
  supervisor_report_release(&report);
}
