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
  assert_null(exec_table_first(&table, EXEC_QUEUED));
  (void)exec_table_get(&table, "new");
  (void)add(&table, "c", 9);
  (void)add(&table, "z", 3);
  (void)add(&table, "b", 5);
  (void)add(&table, "a", 5);
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    struct exec *oldest = exec_table_first(&table, EXEC_QUEUED);
    assert_string_equal(oldest->id, expected[i]);
    oldest->state = EXEC_RUNNING;
    table.queued--;
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
    oldest->state = EXEC_RUNNING;
  }
  exec_table_release(&table);
}

TEST(so_many_of_the_oldest_come_in_order) {
  struct exec_table table = {0};
  struct exec *oldest[4];
  char id[16];
  for (int i = 0; i < 100; i++) {
    (void)snprintf(id, sizeof id, "%02d", i);
    (void)add(&table, id, i * 37 % 100 / 2); /* two of each age */
  }
  assert_int_equal(exec_table_oldest(&table, EXEC_WAITING, oldest, 4), 0);
  assert_int_equal(exec_table_oldest(&table, EXEC_QUEUED, oldest, 4), 4);
  static const char *const expected[] = {"00", "73", "19", "46"};
  for (size_t i = 0; i < 4; i++)
    assert_string_equal(oldest[i]->id, expected[i]);
  assert_int_equal(exec_table_oldest(&table, EXEC_QUEUED, oldest, 1), 1);
  assert_string_equal(oldest[0]->id, "00");
  exec_table_release(&table);
}
