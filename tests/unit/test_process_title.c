#include <string.h>

#include "base/process_title.h"
#include "tests/test.h"

/* As the kernel lays it out: the arguments, then the environment. */
static char memory[] = "./agent\0--once\0A=1\0B=2\0behind";
enum { ARGUMENTS = 15, ALL = 23 };
static char *argv[] = {memory, memory + 8, NULL};
static char *environment[] = {memory + 15, memory + 19, NULL};

static struct process_title find(void) {
  memcpy(memory, "./agent\0--once\0A=1\0B=2\0behind", sizeof memory);
  return process_title_find(2, argv, environment);
}

TEST(the_arguments_and_the_environment_behind_them_are_found, NULL, NULL) {
  struct process_title title = find();
  assert_ptr_equal(title.area, memory);
  assert_int_equal(title.arguments, ARGUMENTS);
  assert_int_equal(title.size, ALL);
}

TEST(an_environment_elsewhere_is_left_alone, NULL, NULL) {
  char other[] = "A=1";
  char *elsewhere[] = {other, NULL};
  (void)find();
  struct process_title title = process_title_find(2, argv, elsewhere);
  assert_int_equal(title.size, ARGUMENTS);
  assert_int_equal(process_title_find(0, argv, environment).size, 0);
}

TEST(a_short_title_clears_the_arguments, NULL, NULL) {
  struct process_title title = find();
  process_title_set(&title, "short");
  assert_memory_equal(memory, "short\0\0\0\0\0\0\0\0\0\0A=1\0B=2\0behind", sizeof memory);
}

TEST(a_long_title_goes_on_in_the_environment, NULL, NULL) {
  struct process_title title = find();
  process_title_set(&title, "0123456789abcdefgh");
  assert_memory_equal(memory, "0123456789abcdefgh\0B=2\0behind", sizeof memory);
}

TEST(a_title_is_cut_where_the_memory_ends, NULL, NULL) {
  struct process_title title = find();
  process_title_set(&title, "0123456789abcdefghijklmnopqrstuvw");
  assert_memory_equal(memory, "0123456789abcdefghijkl\0behind", sizeof memory);
  process_title_set(&(struct process_title){0}, "none");
}
