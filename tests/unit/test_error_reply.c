#include "agent/doors/redis/net/error_reply.h"
#include "tests/test.h"

TEST(some_errors_are_transient) {
  static const struct {
    const char *text;
    bool is_transient;
  } rows[] = {
      {"OOM command not allowed when used memory > 'maxmemory'.", true},
      {"LOADING Redis is loading the dataset in memory", true},
      {"READONLY You can't write against a read only replica.", true},
      {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist.",
       true},
      {"CLUSTERDOWN The cluster is down", true},
      {"BUSY Redis is busy running a script.", true},
      {"TRYAGAIN Multiple keys request during rehashing of slot", true},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", true},
      {"NOREPLICAS Not enough good replicas to write.", true},
      {"MOVED 3999 127.0.0.1:6381", true},
      {"ASK 3999 127.0.0.1:6381", true},
      {"UNBLOCKED force unblock from blocking operation, instance state changed", true},
      {"ERR max number of clients reached", true},
      {"WRONGPASS invalid username-password pair or user is disabled.", false},
      {"NOAUTH Authentication required.", false},
      {"NOPERM this user has no permissions to run the 'brpop' command", false},
      {"DENIED Redis is running in protected mode", false},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", false},
      {"CROSSSLOT Keys in request don't hash to the same slot", false},
      {"ERR unknown command 'XADD'", false},
      {"ERR DB index is out of range", false},
      {"ERR", false},
      {"", false},
      /* The whole first word decides. */
      {"BUSYGROUP Consumer Group name already exists", false},
      {"BUSYKEY Target key name already exists.", false},
      {"LOAD", false},
      {"OOM", false},
      {"loading is what it says", false},
      {" LOADING Redis", false},
      {"ERR LOADING is not a command", false},
      {"ERR max number of arguments", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (error_reply_is_transient(rows[i].text) != rows[i].is_transient)
      fail_msg("%s", rows[i].text);
}

TEST(only_moved_names_a_node) {
  assert_string_equal(error_reply_redirect("MOVED 3999 127.0.0.1:6381"), "127.0.0.1:6381");
  assert_string_equal(error_reply_redirect("MOVED 3999 :6381"), ":6381");
  static const char *const texts[] = {"ASK 3999 127.0.0.1:6381", "MOVED 3999", "MOVED", "",
                                      "ERR MOVED 3999 127.0.0.1:6381"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_null(error_reply_redirect(texts[i]));
}

TEST(keys_in_several_slots_come_with_advice) {
  const char *text = error_reply_explain("CROSSSLOT Keys in request don't hash to the same slot");
  assert_non_null(strstr(text, "CROSSSLOT"));
  assert_non_null(strstr(text, "put the job id in braces, like {pipe-42}"));
  assert_string_equal(error_reply_explain("NOAUTH Authentication required."),
                      "NOAUTH Authentication required.");
}

TEST(of_execabort_only_the_reason_is_shown) {
  assert_string_equal(
      error_reply_explain("EXECABORT Transaction discarded because of: NOPERM this user has no "
                          "permissions to run the 'exec' command"),
      "NOPERM this user has no permissions to run the 'exec' command");
  static const char others[] = "EXECABORT Transaction discarded because of previous errors.";
  assert_string_equal(error_reply_explain(others), others);
}
