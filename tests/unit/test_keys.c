#include "agent/frontends/redis/keys.h"
#include "tests/test.h"

TEST(the_names_are_those_of_the_contract_with_the_job_id_verbatim) {
  static const char *const job_ids[] = {"pipe-42", "{pipe:42} %s", ""};
  for (size_t i = 0; i < sizeof job_ids / sizeof *job_ids; i++) {
    struct keys keys;
    keys_init(&keys, job_ids[i]);
    const struct {
      const char *name, *suffix;
    } rows[] = {{keys.in, "in"},
                {keys.events, "events"},
                {keys.results, "results"},
                {keys.inflight, "inflight"},
                {keys.started, "started"},
                {keys.committed, "committed"},
                {keys.heartbeat, "heartbeat"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
      char expected[64];
      snprintf(expected, sizeof expected, "sandbox:%s:%s", job_ids[i], rows[k].suffix);
      assert_string_equal(rows[k].name, expected);
    }
    keys_release(&keys);
    assert_null(keys.in);
    assert_null(keys.heartbeat);
  }
}
