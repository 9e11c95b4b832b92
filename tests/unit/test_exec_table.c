#include "agent/frontends/request_files/exec_table.h"

#include "tests/test.h"

static struct exec *add(struct exec_table *table, const char *id, long seconds) {
  struct exec *exec = exec_table_get(table, id, true);
  exec->file.st_mtim.tv_sec = seconds;
  exec_table_set(table, exec, EXEC_QUEUED);
  return exec;
}

TEST(the_oldest_comes_first_and_of_the_same_age_the_first_by_name) {
  struct exec_table table = {0};
  static const char *const expected[] = {"z", "a", "b", "c"};
  assert_null(exec_table_first(&table, EXEC_QUEUED));
  (void)exec_table_get(&table, "new", true);
  (void)add(&table, "c", 9);
  (void)add(&table, "z", 3);
  (void)add(&table, "b", 5);
  (void)add(&table, "a", 5);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    struct exec *oldest = exec_table_first(&table, EXEC_QUEUED);
    assert_string_equal(oldest->id, expected[i]);
    exec_table_set(&table, oldest, EXEC_RUNNING);
  }
  assert_null(exec_table_first(&table, EXEC_QUEUED));
  exec_table_release(&table);
}

/* Whose files have old times does not come before those that were found earlier. */
TEST(an_earlier_round_comes_before_an_older_file) {
  struct exec_table table = {0};
  static const char *const expected[] = {"b", "c", "a"};
  add(&table, "a", 1)->round = 8;
  add(&table, "b", 3)->round = 7;
  add(&table, "c", 5)->round = 7;
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    struct exec *oldest = exec_table_first(&table, EXEC_QUEUED);
    assert_string_equal(oldest->id, expected[i]);
    exec_table_set(&table, oldest, EXEC_RUNNING);
  }
  exec_table_release(&table);
}
