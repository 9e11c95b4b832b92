#include "agent/doors/redis/net/error_reply.h"
#include "tests/test.h"

TEST(these_errors_are_transient) {
  static const char *const texts[] = {
      "OOM command not allowed when used memory > 'maxmemory'.",
      "LOADING Redis is loading the dataset in memory",
      "READONLY You can't write against a read only replica.",
      "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist.",
      "CLUSTERDOWN The cluster is down",
      "BUSY Redis is busy running a script.",
      "TRYAGAIN Multiple keys request during rehashing of slot",
      "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
      "NOREPLICAS Not enough good replicas to write.",
      "MOVED 3999 127.0.0.1:6381",
      "ASK 3999 127.0.0.1:6381",
      "UNBLOCKED force unblock from blocking operation, instance state changed",
      "ERR max number of clients reached",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_true(error_reply_passes(texts[i]));
}

TEST(these_are_not) {
  static const char *const texts[] = {
      "WRONGPASS invalid username-password pair or user is disabled.",
      "NOAUTH Authentication required.",
      "NOPERM this user has no permissions to run the 'brpop' command",
      "DENIED Redis is running in protected mode",
      "WRONGTYPE Operation against a key holding the wrong kind of value",
      "CROSSSLOT Keys in request don't hash to the same slot",
      "ERR unknown command 'XADD'",
      "ERR DB index is out of range",
      "ERR",
      "",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_false(error_reply_passes(texts[i]));
}

TEST(the_whole_first_word_decides) {
  static const char *const texts[] = {
      "BUSYGROUP Consumer Group name already exists",
      "BUSYKEY Target key name already exists.",
      "LOAD",
      "OOM",
      "loading is what it says",
      " LOADING Redis",
      "ERR LOADING is not a command",
      "ERR max number of arguments",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_false(error_reply_passes(texts[i]));
}

TEST(only_moved_names_a_node) {
  assert_string_equal(error_reply_moved_to("MOVED 3999 127.0.0.1:6381"), "127.0.0.1:6381");
  assert_string_equal(error_reply_moved_to("MOVED 3999 :6381"), ":6381");
  static const char *const texts[] = {"ASK 3999 127.0.0.1:6381", "MOVED 3999", "MOVED", "",
                                      "ERR MOVED 3999 127.0.0.1:6381"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_null(error_reply_moved_to(texts[i]));
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
