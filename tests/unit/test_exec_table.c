#include "agent/doors/files/exec_table.h"

#include "tests/test.h"

static struct exec *add(struct exec_table *table, const char *id, long seconds) {
  struct exec *exec = exec_table_get(table, id);
  exec->mtime.tv_sec = seconds;
  exec->state = EXEC_QUEUED;
  table->queued++;
  return exec;
}

TEST(what_is_added_is_found) {
  struct exec_table table = {0};
  char id[16];
  for (int i = 0; i < 1000; i++) {
    (void)snprintf(id, sizeof id, "%d", i * 7919 % 1000);
    assert_non_null(exec_table_get(&table, id));
    assert_ptr_equal(exec_table_get(&table, id), exec_table_find(&table, id));
  }
  assert_int_equal(table.count, 1000);
  assert_null(exec_table_find(&table, "1000"));
  for (int i = 0; i < 1000; i++) {
    (void)snprintf(id, sizeof id, "%d", i);
    exec_table_remove(&table, exec_table_find(&table, id));
    assert_null(exec_table_find(&table, id));
  }
  assert_int_equal(table.count, 0);
  exec_table_release(&table);
}

TEST(the_oldest_comes_first_and_of_the_same_age_the_first_by_name) {
  struct exec_table table = {0};
  static const char *const expected[] = {"z", "a", "b", "c"};
  assert_null(exec_table_oldest(&table, EXEC_QUEUED));
  (void)exec_table_get(&table, "new");
  (void)add(&table, "c", 9);
  (void)add(&table, "z", 3);
  (void)add(&table, "b", 5);
  (void)add(&table, "a", 5);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    struct exec *oldest = exec_table_oldest(&table, EXEC_QUEUED);
    assert_string_equal(oldest->id, expected[i]);
    oldest->state = EXEC_RUNNING;
    table.queued--;
  }
  assert_null(exec_table_oldest(&table, EXEC_QUEUED));
  exec_table_release(&table);
}
