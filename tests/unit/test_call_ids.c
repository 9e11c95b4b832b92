#include "agent/frontends/call_ids.h"

#include "tests/support/quoted.h"
#include "tests/test.h"

static struct json_member member(const char *id) {
  return (struct json_member){.text = quoted(id), .length = strlen(id)};
}

static bool is_same(const char *one, const char *other) {
  struct call_ids *ids = calloc(1, sizeof *ids);
  struct call_id entry = {0};
  assert_non_null(ids);
  call_ids_add(ids, &entry, member(one), &entry);
  bool same = call_ids_find(ids, member(other)) != NULL;
  call_ids_remove(ids, &entry);
  free(ids);
  return same;
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
      {true, "9007199254740993", "9007199254740993.0"},
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

enum { CALLS = 5000 };

/* More calls than chains, in any order. */
TEST(each_call_is_found_until_it_is_removed) {
  static struct call_ids ids;
  static struct call_id calls[CALLS];
  for (int i = 0; i < CALLS; i++)
    call_ids_add(&ids, &calls[i], member(formatted("'c%d'", i)), &calls[i]);
  for (int i = 0, at = 0; i < CALLS; i++, at = (at + 1777) % CALLS) {
    assert_ptr_equal(call_ids_find(&ids, member(formatted("'\\u0063%d'", at))), &calls[at]);
    call_ids_remove(&ids, &calls[at]);
    call_ids_remove(&ids, &calls[at]);
    assert_null(call_ids_find(&ids, member(formatted("'c%d'", at))));
  }
  for (size_t i = 0; i < CALL_IDS_CHAINS; i++)
    assert_true(ids.chains[i].first == NULL && ids.chains[i].last == NULL);
}

TEST(of_calls_with_one_id_the_oldest_is_found) {
  static struct call_ids ids;
  struct call_id calls[4] = {0};
  for (int i = 0; i < 4; i++)
    call_ids_add(&ids, &calls[i], member(i % 2 == 0 ? "1" : "1.0"), &calls[i]);
  static const int order[] = {1, 0, 3, 2}, oldest[] = {0, 2, 2};
  for (int i = 0; i < 3; i++) {
    call_ids_remove(&ids, &calls[order[i]]);
    assert_ptr_equal(call_ids_find(&ids, member("1")), &calls[oldest[i]]);
  }
  call_ids_remove(&ids, &calls[2]);
  assert_null(call_ids_find(&ids, member("1")));
}
