#include "base/list.h"
#include "tests/test.h"

struct letter {
  char name;
  struct list_node node;
};

static const char *names_of(const struct list *list) {
  static char names[8];
  size_t length = 0;
  LIST_FOR_EACH (const struct letter, letter, list, node)
    names[length++] = letter->name;
  names[length] = '\0';
  return names;
}

TEST(an_element_leaves_the_list_from_any_place) {
  struct letter a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'};
  struct list list = {0};
  assert_string_equal(names_of(&list), "");
  list_append(&list, &a.node);
  list_append(&list, &b.node);
  list_append(&list, &c.node);
  assert_string_equal(names_of(&list), "abc");
  list_remove(&list, &b.node);
  assert_string_equal(names_of(&list), "ac");
  list_remove(&list, &c.node);
  list_append(&list, &b.node);
  assert_string_equal(names_of(&list), "ab");
  list_remove(&list, &a.node);
  list_remove(&list, &b.node);
  assert_null(list.first);
  assert_null(list.last);
}

TEST(the_current_element_may_be_removed_during_a_walk) {
  struct letter letters[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}};
  struct list list = {0};
  for (int i = 0; i < 3; i++)
    list_append(&list, &letters[i].node);
  LIST_FOR_EACH (struct letter, letter, &list, node)
    if (letter->name != 'b')
      list_remove(&list, &letter->node);
  assert_string_equal(names_of(&list), "b");
}
