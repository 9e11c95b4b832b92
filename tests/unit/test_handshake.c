#include "agent/doors/redis/client/handshake.h"
#include "agent/doors/redis/net/command.h"
#include "tests/test.h"

/* What was overwritten last. Replaces the C library's function, so that a test sees it. */
static const void *erased;
static size_t erased_length;

void explicit_bzero(void *memory, size_t length) {
  erased = memory;
  erased_length = length;
  volatile char *bytes = memory;
  for (size_t i = 0; i < length; i++)
    bytes[i] = 0;
}

static void expect_sent(struct redis_url url, const char *expected) {
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name");
  assert_int_equal(handshake.length, strlen(expected));
  assert_memory_equal(handshake.text, expected, handshake.length);
  handshake_release(&handshake);
}

#define SETNAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$8\r\nits-name\r\n"

TEST(it_sends_what_the_url_asks_for) {
  char user[] = "me";
  char password[] = "se cret\r\n";
  expect_sent((struct redis_url){0}, SETNAME);
  expect_sent((struct redis_url){.password = password},
              "*2\r\n$4\r\nAUTH\r\n$9\r\nse cret\r\n\r\n" SETNAME);
  expect_sent((struct redis_url){.user = user, .password = password},
              "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$9\r\nse cret\r\n\r\n" SETNAME);
  expect_sent((struct redis_url){.database = 4294967295},
              SETNAME "*2\r\n$6\r\nSELECT\r\n$10\r\n4294967295\r\n");
  expect_sent((struct redis_url){.user = user, .password = password, .database = 3},
              "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$9\r\nse cret\r\n\r\n" SETNAME
              "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n");
}

TEST(the_probe_follows_wherever_the_write_ended) {
  struct redis_url url = {0};
  const struct handshake_probe probe = {.text = "the probe", .length = 9, .count = 1};
  static const char all[] = SETNAME "the probe";
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name");
  handshake_add_probe(&handshake, &probe);
  for (size_t sent = 0; sent < sizeof all; sent++) {
    struct iovec rest[HANDSHAKE_PIECES];
    char text[sizeof all] = "";
    handshake.sent = sent;
    handshake_rest(&handshake, rest);
    memcpy(text, rest[0].iov_base, rest[0].iov_len);
    memcpy(text + rest[0].iov_len, rest[1].iov_base, rest[1].iov_len);
    assert_int_equal(rest[0].iov_len + rest[1].iov_len, sizeof all - 1 - sent);
    assert_string_equal(text, all + sent);
  }
  handshake_release(&handshake);
}

TEST(a_refused_probe_names_its_command) {
  struct redis_url url = {0};
  const char *const commands[][COMMAND_LIST_WORDS] = {{"MULTI"}, {"LREM", "the key", "-1", ""}};
  char *text = command_list_new(commands, 2);
  const struct handshake_probe probe = {.text = text, .length = strlen(text), .count = 2};
  static const char *const names[] = {"CLIENT SETNAME", "MULTI", "LREM the key"};
  for (int refused = 1; refused < 3; refused++) {
    char ok[] = "OK", no[] = "NOPERM no";
    redisReply good = {.type = REDIS_REPLY_STATUS, .str = ok};
    redisReply bad = {.type = REDIS_REPLY_ERROR, .str = no};
    struct handshake_refusal refusal;
    struct handshake handshake;
    handshake_init(&handshake, &url, "its-name");
    handshake_add_probe(&handshake, &probe);
    for (int i = 0; i < refused; i++)
      assert_int_equal(handshake_take(&handshake, &good, &refusal), HANDSHAKE_GOES_ON);
    assert_int_equal(handshake_take(&handshake, &bad, &refusal), HANDSHAKE_REFUSED);
    assert_string_equal(refusal.command, names[refused]);
    handshake_release(&handshake);
  }
  free(text);
}

struct denial {
  const char *command;
  const char *key; /* NULL: none */
  const char *server_text;
  const char *text;
};

TEST(a_denied_probe_names_the_missing_rule) {
  static const struct denial denials[] = {
      {"SET", "j:heartbeat", "NOPERM No permissions to access a key",
       "NOPERM: the user needs ~j:heartbeat"},
      {"GET", "j:x",
       "NOPERM this user has no permissions to access one of the keys used as arguments",
       "NOPERM: the user needs ~j:x"},
      {"SET", "j:x", "NOPERM User o'get has no permissions to run the 'set' command",
       "NOPERM: the user needs +set"},
      {"GET", "j:x", "NOPERM User get has no permissions to run the 'get' command",
       "NOPERM: the user needs +get"},
      {"MULTI", NULL,
       "NOPERM this user has no permissions to run the 'multi' command or its "
       "subcommand",
       "NOPERM: the user needs +multi"},
      {"MULTI", NULL, "NOPERM for a reason of get's own", "NOPERM for a reason of ***'s own"},
      {"GET", "j:x", "NOPERM User get has no permissions to run the 'pass' command",
       "NOPERM User *** has no permissions to run the '****' command"},
  };
  char user[] = "get", password[] = "pass";
  struct redis_url url = {.user = user, .password = password};
  for (size_t i = 0; i < sizeof denials / sizeof *denials; i++) {
    const char *words[] = {denials[i].command, denials[i].key};
    char *text = command_new(words, denials[i].key != NULL ? 2 : 1);
    char ok[] = "OK", no[128];
    strcpy(no, denials[i].server_text);
    redisReply good = {.type = REDIS_REPLY_STATUS, .str = ok};
    redisReply bad = {.type = REDIS_REPLY_ERROR, .str = no};
    struct handshake_refusal refusal;
    struct handshake handshake;
    handshake_init(&handshake, &url, "its-name");
    handshake_add_probe(
        &handshake, &(struct handshake_probe){.text = text, .length = strlen(text), .count = 1});
    assert_int_equal(handshake_take(&handshake, &good, &refusal), HANDSHAKE_GOES_ON);
    assert_int_equal(handshake_take(&handshake, &good, &refusal), HANDSHAKE_GOES_ON);
    assert_int_equal(handshake_take(&handshake, &bad, &refusal), HANDSHAKE_REFUSED);
    assert_string_equal(refusal.text, denials[i].text);
    handshake_release(&handshake);
    free(text);
  }
}

/* A command for each key follows, and names it. Any other error refuses at once. */
TEST(a_denial_for_several_keys_is_left_to_later_commands) {
  struct redis_url url = {0};
  const char *const commands[][COMMAND_LIST_WORDS] = {{"WATCH", "a", "b"}, {"GET", "a"}};
  char *text = command_list_new(commands, 2);
  const struct handshake_probe probe = {
      .text = text, .length = strlen(text), .count = 2, .joint = 1};
  static char denied[] = "NOPERM No permissions to access a key", ok[] = "OK",
              crossed[] = "CROSSSLOT Keys in request don't hash to the same slot";
  redisReply good = {.type = REDIS_REPLY_STATUS, .str = ok};
  redisReply no = {.type = REDIS_REPLY_ERROR, .str = denied};
  redisReply other = {.type = REDIS_REPLY_ERROR, .str = crossed};
  struct handshake_refusal refusal;
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name");
  handshake_add_probe(&handshake, &probe);
  assert_int_equal(handshake_take(&handshake, &good, &refusal), HANDSHAKE_GOES_ON);
  assert_int_equal(handshake_take(&handshake, &no, &refusal), HANDSHAKE_GOES_ON);
  assert_int_equal(handshake_take(&handshake, &no, &refusal), HANDSHAKE_REFUSED);
  assert_string_equal(refusal.command, "GET a");
  handshake_release(&handshake);
  handshake_init(&handshake, &url, "its-name");
  handshake_add_probe(&handshake, &probe);
  assert_int_equal(handshake_take(&handshake, &good, &refusal), HANDSHAKE_GOES_ON);
  assert_int_equal(handshake_take(&handshake, &other, &refusal), HANDSHAKE_REFUSED);
  assert_string_equal(refusal.command, "WATCH a");
  handshake_release(&handshake);
  free(text);
}

TEST(the_password_is_overwritten) {
  char password[] = "secret";
  struct redis_url url = {.password = password};
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name");
  const void *text = handshake.text;
  size_t length = handshake.length;
  handshake_release(&handshake);
  assert_ptr_equal(erased, text);
  assert_int_equal(erased_length, length);
  assert_null(handshake.text);
  handshake_release(&handshake);
  assert_string_equal(password, "secret"); /* that of the url is the caller's */
}

struct answer {
  const char *text; /* an error, or NULL: OK */
  enum handshake_verdict verdict;
  const char *command;
};

/* A handshake of three commands, and the replies to them. */
static void expect_verdicts(const struct answer *answers, int count) {
  char password[] = "secret";
  char ok[] = "OK";
  struct redis_url url = {.password = password, .database = 1};
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name");
  for (int i = 0; i < count; i++) {
    char text[128] = "";
    redisReply reply = {.type = REDIS_REPLY_STATUS, .str = ok, .len = 2};
    if (answers[i].text != NULL) {
      strcpy(text, answers[i].text);
      reply = (redisReply){.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(text)};
    }
    struct handshake_refusal refusal;
    assert_int_equal(handshake_take(&handshake, &reply, &refusal), answers[i].verdict);
    assert_string_equal(refusal.command, answers[i].command);
    if (answers[i].verdict == HANDSHAKE_LATER || answers[i].verdict == HANDSHAKE_REFUSED)
      assert_string_equal(refusal.text, answers[i].text);
  }
  handshake_release(&handshake);
}

TEST(it_is_done_after_the_last_reply) {
  const struct answer answers[] = {{NULL, HANDSHAKE_GOES_ON, "AUTH"},
                                   {NULL, HANDSHAKE_GOES_ON, "CLIENT SETNAME"},
                                   {NULL, HANDSHAKE_DONE, "SELECT"}};
  expect_verdicts(answers, 3);
}

TEST(a_refusal_is_final) {
  const struct answer wrong[] = {{"WRONGPASS invalid", HANDSHAKE_REFUSED, "AUTH"}};
  const struct answer range[] = {{NULL, HANDSHAKE_GOES_ON, "AUTH"},
                                 {NULL, HANDSHAKE_GOES_ON, "CLIENT SETNAME"},
                                 {"ERR DB index is out of range", HANDSHAKE_REFUSED, "SELECT"}};
  expect_verdicts(wrong, 1);
  expect_verdicts(range, 3);
}

TEST(a_transient_error_asks_for_another_attempt) {
  const struct answer auth[] = {{"LOADING it is", HANDSHAKE_LATER, "AUTH"}};
  const struct answer name[] = {
      {NULL, HANDSHAKE_GOES_ON, "AUTH"},
      {"ERR max number of clients reached", HANDSHAKE_LATER, "CLIENT SETNAME"}};
  expect_verdicts(auth, 1);
  expect_verdicts(name, 2);
}

TEST(it_goes_on_without_a_name) {
  static const char *const texts[] = {"ERR unknown command", "ERR Client names cannot have spaces",
                                      "NOPERM no permissions to run 'client|setname'"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const struct answer answers[] = {{NULL, HANDSHAKE_GOES_ON, "AUTH"},
                                     {texts[i], HANDSHAKE_GOES_ON, "CLIENT SETNAME"},
                                     {NULL, HANDSHAKE_DONE, "SELECT"}};
    expect_verdicts(answers, 3);
  }
}

TEST(an_error_that_is_not_about_the_name_refuses) {
  static const char *const texts[] = {"NOAUTH Authentication required.", "DENIED protected mode"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const struct answer answers[] = {{NULL, HANDSHAKE_GOES_ON, "AUTH"},
                                     {texts[i], HANDSHAKE_REFUSED, "CLIENT SETNAME"}};
    expect_verdicts(answers, 2);
  }
}

/* Without a password and a database the name is all there is. */
TEST(a_refused_name_may_be_the_last_reply) {
  char text[] = "ERR unknown command";
  redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(text)};
  struct redis_url url = {0};
  struct handshake handshake;
  struct handshake_refusal refusal;
  handshake_init(&handshake, &url, "its-name");
  assert_int_equal(handshake_take(&handshake, &reply, &refusal), HANDSHAKE_DONE);
  handshake_release(&handshake);
}

TEST(user_and_password_are_masked) {
  char user[] = "smith";
  char password[] = "secret";
  struct redis_url url = {.user = user, .password = password};
  static const struct {
    const char *sent;
    const char *shown;
  } rows[] = {{"ERR unknown command 'AUTH', with args beginning with: 'smith' 'secret'",
               "ERR unknown command 'AUTH'"},
              {"WRONGPASS secret is not of smith", "WRONGPASS ****** is not of *****"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[128];
    strcpy(text, rows[i].sent);
    redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(text)};
    struct handshake handshake;
    struct handshake_refusal refusal;
    handshake_init(&handshake, &url, "its-name");
    assert_int_equal(handshake_take(&handshake, &reply, &refusal), HANDSHAKE_REFUSED);
    assert_string_equal(refusal.text, rows[i].shown);
    handshake_release(&handshake);
  }
}

/* The last reply of a handshake with a server that a sentinel has named. */
static enum handshake_verdict verdict_on_role(redisReply *reply,
                                              struct handshake_refusal *refusal) {
  char ok[] = "OK";
  char master[] = "pipes";
  redisReply named = {.type = REDIS_REPLY_STATUS, .str = ok, .len = 2};
  struct redis_url url = {.master = master};
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name");
  assert_int_equal(handshake_take(&handshake, &named, refusal), HANDSHAKE_GOES_ON);
  enum handshake_verdict verdict = handshake_take(&handshake, reply, refusal);
  assert_string_equal(refusal->command, "ROLE");
  handshake_release(&handshake);
  return verdict;
}

TEST(a_replica_is_refused_for_now) {
  char master[] = "pipes";
  expect_sent((struct redis_url){.master = master}, SETNAME "*1\r\n$4\r\nROLE\r\n");
  struct handshake_refusal refusal;
  char word[16] = "master";
  redisReply role = {.type = REDIS_REPLY_STRING, .str = word, .len = 6};
  redisReply *elements[] = {&role};
  redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements};
  assert_int_equal(verdict_on_role(&reply, &refusal), HANDSHAKE_DONE);
  strcpy(word, "slave");
  assert_int_equal(verdict_on_role(&reply, &refusal), HANDSHAKE_LATER);
  assert_string_equal(refusal.text, "it is a replica, not yet the master");
}

/* The first write finds out; any other error is an error like any other. */
TEST(it_goes_on_without_permission_for_role) {
  struct handshake_refusal refusal;
  char text[64] = "NOPERM this user has no permissions to run the 'role' command";
  redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(text)};
  assert_int_equal(verdict_on_role(&reply, &refusal), HANDSHAKE_DONE);
  strcpy(text, "LOADING it is");
  assert_int_equal(verdict_on_role(&reply, &refusal), HANDSHAKE_LATER);
  strcpy(text, "NOAUTH Authentication required.");
  assert_int_equal(verdict_on_role(&reply, &refusal), HANDSHAKE_REFUSED);
}
