#include "agent/frontends/redis/connection/error_reply.h"
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

TEST(rejections_of_a_login_have_codes) {
  static const struct connection_error rows[] = {
      {"WRONGPASS invalid username-password pair or user is disabled.",
       CONNECTION_ERROR_WRONG_PASSWORD},
      {"ERR invalid password", CONNECTION_ERROR_WRONG_PASSWORD},
      {"NOAUTH Authentication required.", CONNECTION_ERROR_NO_PASSWORD},
      {"ERR Client sent AUTH, but no password is set", CONNECTION_ERROR_NEEDLESS_PASSWORD},
      {"ERR AUTH <password> called without any password configured for the default user. Are you "
       "sure your configuration is correct?",
       CONNECTION_ERROR_NEEDLESS_PASSWORD},
      {"NOPERM this user has no permissions to run the 'brpop' command", CONNECTION_ERROR_NO_RIGHT},
      {"LOADING Redis is loading the dataset in memory", CONNECTION_ERROR_LOADING},
      {"ERR unknown command 'XADD'", 0},
      {"", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (error_reply_code(rows[i].text) != rows[i].code)
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

static void is_explained(const char *text, const struct redis_url *url, const char *expected) {
  assert_string_equal(error_reply_explain(text, url).text, expected);
}

static const struct redis_url nobody;

TEST(keys_in_several_slots_come_with_advice) {
  is_explained("CROSSSLOT Keys in request don't hash to the same slot", &nobody,
               "CROSSSLOT: in a cluster, put the job id in braces, like {pipe-42}");
  is_explained("NOAUTH Authentication required.", &nobody, "NOAUTH Authentication required.");
}

TEST(only_the_reason_of_an_execabort_is_shown) {
  is_explained("EXECABORT Transaction discarded because of: NOPERM this user has no "
               "permissions to run the 'exec' command",
               &nobody, "NOPERM this user has no permissions to run the 'exec' command");
  static const char others[] = "EXECABORT Transaction discarded because of previous errors.";
  is_explained(others, &nobody, others);
}

/* A password may consist of asterisks, in a URL that was copied after it was redacted. */
TEST(user_and_password_are_not_shown) {
  char smith[] = "smith", secret[] = "secret", stars[] = "***", star[] = "*", empty[] = "";
  const struct {
    char *user, *password;
    const char *text, *expected;
  } rows[] = {
      {smith, secret, "WRONGPASS secret is not of smith", "WRONGPASS ****** is not of *****"},
      {NULL, secret, "secretsecret secre", "************ secre"},
      {NULL, secret, "ERR unknown command 'AUTH', with args beginning with: 'sec",
       "ERR unknown command 'AUTH'"},
      {NULL, stars, "WRONGPASS *** and ****", "WRONGPASS *** and ****"},
      {star, star, "* * *", "* * *"},
      {smith, stars, "*** smith", "*** *****"},
      {smith, smith, "smithsmith", "**********"},
      {NULL, empty, "WRONGPASS no", "WRONGPASS no"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    is_explained(rows[i].text,
                 &(struct redis_url){.user = rows[i].user, .password = rows[i].password},
                 rows[i].expected);
}

/* A cut does not leave the beginning of a password. */
TEST(a_long_text_is_redacted_before_it_is_cut) {
  enum { CAPACITY = sizeof((struct error_reply_text *)NULL)->text };
  char text[2 * CAPACITY], secret[] = "secret";
  memset(text, 'x', sizeof text);
  memcpy(text + CAPACITY - 4, "secret", sizeof "secret");
  struct error_reply_text shown =
      error_reply_explain(text, &(struct redis_url){.password = secret});
  assert_int_equal(strlen(shown.text), CAPACITY - 1);
  assert_string_equal(shown.text + CAPACITY - 5, "x***");
}
