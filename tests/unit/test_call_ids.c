#include "agent/frontends/call_ids.h"

#include "tests/test.h"

static struct json_member member(const char *id) {
  return (struct json_member){.text = quoted(id), .length = strlen(id)};
}

static bool is_same_in(const char *scope, const char *one, const char *other_scope,
                       const char *other) {
  struct call_ids *ids = calloc(1, sizeof *ids);
  struct call_id entry = {0};
  assert_non_null(ids);
  call_ids_add(ids, &entry, scope, member(one), &entry);
  bool same = call_ids_find(ids, other_scope, member(other)) != NULL;
  call_ids_remove(ids, &entry);
  free(ids);
  return same;
}

static bool is_same(const char *one, const char *other) {
  return is_same_in(NULL, one, NULL, other);
}

TEST(ids_are_equal_if_their_values_are) {
  static const struct {
    bool same;
    const char *one, *other;
  } rows[] = {
      {true, "1", "1"},
      {true, "1", "1.0"},
      {true, "1", "10e-1"},
      {true, "100", "1E+2"},
      {true, "120", "1.20e2"},
      {true, "0.001", "1e-3"},
      {true, "0", "-0.0"},
      {true, "0e7", "0"},
      {true, "-5", "-5.000"},
      {true, "9007199254740993", "9007199254740993"},
      {true, "1e99999999999", "1e99999999999"},
      {true, "'a'", "'a'"},
      {true, "'a'", "'\\u0061'"},
      {true, "'\\u0061\\u0061'", "'aa'"},
      {true, "'\\u0000'", "'\\u0000'"},
      {true, "'\\/'", "'/'"},
      {true, "''", "''"},
      {true, "null", "null"},
      {true, "{'a':1}", "{'a':1}"},
      {false, "1", "'1'"},
      {false, "1", "10"},
      {false, "1", "-1"},
      {false, "1", "0.1"},
      {false, "10", "100"},
      {false, "0", "1"},
      {false, "0", "''"},
      {false, "'e0'", "0"},
      {false, "'1e0'", "1"},
      {false, "9007199254740993", "9007199254740992"},
      {false, "18446744073709551615", "18446744073709551614"},
      {false, "1e99999999999", "1e99999999998"},
      {false, "1e-400", "0"},
      {false, "1e-320", "1.00001e-320"},
      {false, "'a'", "'A'"},
      {false, "'a'", "'\\u0062'"},
      {false, "'\\u0000'", "''"},
      {false, "'\\u0061aaaaaaaaaaaaaaaaaaaa'", "'a'"},
      {false, "null", "0"},
      {false, "null", "'null'"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (is_same(rows[i].one, rows[i].other) != rows[i].same ||
        is_same(rows[i].other, rows[i].one) != rows[i].same)
      fail_msg("%s and %s", rows[i].one, rows[i].other);
}

TEST(ids_of_different_scopes_are_not_equal) {
  assert_true(is_same_in("a", "1", "a", "1.0"));
  assert_true(is_same_in("", "1", "", "1"));
  assert_false(is_same_in("a", "1", "b", "1"));
  assert_false(is_same_in("a", "1", NULL, "1"));
  assert_false(is_same_in("", "1", NULL, "1"));
  assert_false(is_same_in("a", "'b'", "a'b", "''"));
}
