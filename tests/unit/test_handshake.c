#include "agent/doors/redis/link/command.h"
#include "agent/doors/redis/link/handshake.h"
#include "tests/test.h"

static char user[] = "smith", password[] = "secret", master[] = "pipes", getter[] = "get";
static struct redis_address host = {.port = 1};
#define OF_SENTINEL                                                                                \
  { .master = master, .hosts = &host, .host_count = 1 }

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

static const struct handshake_probe no_probe;

static void expect_sent(struct redis_url url, const char *expected) {
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name", &no_probe);
  assert_int_equal(handshake.length, strlen(expected));
  assert_memory_equal(handshake.text, expected, handshake.length);
  handshake_release(&handshake);
}

#define SETNAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$8\r\nits-name\r\n"

TEST(it_sends_what_the_url_asks_for) {
  char me[] = "me", with_end[] = "se cret\r\n";
  expect_sent((struct redis_url){0}, SETNAME);
  expect_sent((struct redis_url){.password = with_end},
              "*2\r\n$4\r\nAUTH\r\n$9\r\nse cret\r\n\r\n" SETNAME);
  expect_sent((struct redis_url){.user = me, .password = with_end},
              "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$9\r\nse cret\r\n\r\n" SETNAME);
  expect_sent((struct redis_url){.database = 4294967295},
              SETNAME "*2\r\n$6\r\nSELECT\r\n$10\r\n4294967295\r\n");
  expect_sent((struct redis_url){.user = me, .password = with_end, .database = 3},
              "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$9\r\nse cret\r\n\r\n" SETNAME
              "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n");
}

TEST(the_probe_follows_wherever_the_write_ended) {
  struct redis_url url = {0};
  const struct handshake_probe probe = {.text = "the probe", .length = 9, .count = 1};
  static const char all[] = SETNAME "the probe";
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name", &probe);
  for (size_t sent = 0; sent < sizeof all; sent++) {
    handshake.sent = sent;
    struct iovec rest = handshake_unsent(&handshake);
    assert_int_equal(rest.iov_len, sizeof all - 1 - sent);
    assert_memory_equal(rest.iov_base, all + sent, rest.iov_len);
  }
  handshake_release(&handshake);
}

/* A refusal of one of the first leaves the others where they are. */
TEST(what_must_not_stand_alone_leaves_after_the_replies_to_the_first) {
  static const char first[] = "*1\r\n$5\r\nMULTI\r\n",
                    others[] = "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n*1\r\n$7\r\nDISCARD\r\n";
  struct redis_url url = {0};
  char text[sizeof first + sizeof others];
  (void)snprintf(text, sizeof text, "%s%s", first, others);
  const struct handshake_probe probe = {
      .text = text, .length = strlen(text), .count = 3, .first = 1};
  struct handshake handshake;
  struct handshake_refusal refusal;
  redisReply ok = {.type = REDIS_REPLY_STATUS, .str = password};
  handshake_init(&handshake, &url, "its-name", &probe);
  for (int replied = 0; replied < 2; replied++) {
    assert_int_equal(handshake_unsent(&handshake).iov_len,
                     replied == 0 ? strlen(SETNAME) + strlen(first) : 0);
    handshake.sent += handshake_unsent(&handshake).iov_len;
    assert_int_equal(handshake_take_reply(&handshake, &ok, &refusal), HANDSHAKE_MORE);
  }
  struct iovec rest = handshake_unsent(&handshake);
  assert_int_equal(rest.iov_len, strlen(others));
  assert_memory_equal(rest.iov_base, others, rest.iov_len);
  assert_int_equal(handshake_take_reply(&handshake, &ok, &refusal), HANDSHAKE_MORE);
  assert_int_equal(handshake_take_reply(&handshake, &ok, &refusal), HANDSHAKE_DONE);
  handshake_release(&handshake);
}

TEST(the_value_is_that_of_one_command) {
  static const struct {
    int type;
    const char *value;
  } rows[] = {{REDIS_REPLY_STRING, "1:2:3"}, {REDIS_REPLY_NIL, NULL}, {REDIS_REPLY_STATUS, NULL}};
  const struct handshake_probe probe = {.text = "", .count = 2, .value = 0};
  struct redis_url url = {0};
  struct handshake_refusal refusal;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[] = "1:2:3", other[] = "OK";
    redisReply value = {.type = rows[i].type, .str = text, .len = strlen(text)},
               ok = {.type = REDIS_REPLY_STRING, .str = other, .len = 2};
    struct handshake handshake;
    handshake_init(&handshake, &url, "its-name", &probe);
    (void)handshake_take_reply(&handshake, &ok, &refusal);
    assert_int_equal(handshake_take_reply(&handshake, &value, &refusal), HANDSHAKE_MORE);
    assert_int_equal(handshake_take_reply(&handshake, &ok, &refusal), HANDSHAKE_DONE);
    redisReply taken = handshake_take_value(&handshake);
    assert_int_equal(taken.type, rows[i].value != NULL ? REDIS_REPLY_STRING : REDIS_REPLY_NIL);
    if (rows[i].value != NULL)
      assert_string_equal(taken.str, rows[i].value);
    free(taken.str);
    handshake_release(&handshake);
  }
}

TEST(the_password_is_overwritten) {
  struct redis_url url = {.password = password};
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name", &no_probe);
  const void *text = handshake.text;
  size_t length = handshake.length;
  handshake_release(&handshake);
  assert_ptr_equal(erased, text);
  assert_int_equal(erased_length, length);
  assert_null(handshake.text);
  handshake_release(&handshake);
  assert_string_equal(password, "secret"); /* that of the url is the caller's */
}

#define OK "OK"

/* What a handshake makes of its replies: of the last one, this; of those before, that more are due.
 */
struct exchange {
  const char *name;
  const struct redis_url *url;
  const char *probe;   /* its commands; WATCH names several keys */
  const char *replies; /* "OK;ERR no" */
  enum handshake_result verdict;
  const char *command, *text; /* of the refusal; no text: the last reply */
};

static const struct redis_url plain = {0}, full = {.password = password, .database = 1},
                              with_user = {.user = user, .password = password},
                              of_get = {.user = getter, .password = password},
                              of_sentinel = OF_SENTINEL;

static const struct exchange exchanges[] = {
    {"it is done after the last reply", &full, "", "OK;OK;OK", HANDSHAKE_DONE, "SELECT", NULL},
    {"a refusal is final", &full, "", "WRONGPASS invalid", HANDSHAKE_REFUSED, "AUTH", NULL},
    {"so is that of a database", &full, "", "OK;OK;ERR DB index is out of range", HANDSHAKE_REFUSED,
     "SELECT", NULL},
    {"a transient error asks for another attempt", &full, "", "LOADING it is", HANDSHAKE_RETRY,
     "AUTH", NULL},
    {"so does one about the name", &full, "", "OK;ERR max number of clients reached",
     HANDSHAKE_RETRY, "CLIENT SETNAME", NULL},
    {"it goes on without a name: command", &full, "", "OK;ERR unknown command;OK", HANDSHAKE_DONE,
     "SELECT", NULL},
    {"it goes on without a name: spaces", &full, "", "OK;ERR Client names cannot have spaces;OK",
     HANDSHAKE_DONE, "SELECT", NULL},
    {"it goes on without a name: permission", &full, "",
     "OK;NOPERM no permissions to run 'client|setname';OK", HANDSHAKE_DONE, "SELECT", NULL},
    {"an error that is not about the name refuses", &full, "", "OK;NOAUTH Authentication required.",
     HANDSHAKE_REFUSED, "CLIENT SETNAME", NULL},
    {"protected mode as well", &full, "", "OK;DENIED protected mode", HANDSHAKE_REFUSED,
     "CLIENT SETNAME", NULL},
    {"a refused name may be the last reply", &plain, "", "ERR unknown command", HANDSHAKE_DONE,
     "CLIENT SETNAME", NULL},
    {"arguments are not shown", &with_user, "",
     "ERR unknown command 'AUTH', with args beginning with: 'smith' 'secret'", HANDSHAKE_REFUSED,
     "AUTH", "ERR unknown command 'AUTH'"},
    {"user and password are masked", &with_user, "", "WRONGPASS secret is not of smith",
     HANDSHAKE_REFUSED, "AUTH", "WRONGPASS ****** is not of *****"},
    {"it goes on without permission for ROLE: the first write finds out", &of_sentinel, "",
     "OK;NOPERM this user has no permissions to run the 'role' command", HANDSHAKE_DONE, "ROLE",
     NULL},
    {"ROLE may be refused for now", &of_sentinel, "", "OK;LOADING it is", HANDSHAKE_RETRY, "ROLE",
     NULL},
    {"any other error is an error like any other", &of_sentinel, "",
     "OK;NOAUTH Authentication required.", HANDSHAKE_REFUSED, "ROLE", NULL},
    {"a refused probe names its command", &plain, "MULTI;LREM the:key -1", "OK;NOPERM no",
     HANDSHAKE_REFUSED, "MULTI", NULL},
    {"and its key", &plain, "MULTI;LREM the:key -1", "OK;OK;NOPERM no", HANDSHAKE_REFUSED,
     "LREM the:key", NULL},
    {"a denied probe names the missing rule", &of_get, "SET j:heartbeat",
     "OK;OK;NOPERM No permissions to access a key", HANDSHAKE_REFUSED, "SET j:heartbeat",
     "NOPERM: the user needs ~j:heartbeat"},
    {"a denied probe names the missing rule", &of_get, "GET j:x",
     "OK;OK;NOPERM this user has no permissions to access one of the keys used as arguments",
     HANDSHAKE_REFUSED, "GET j:x", "NOPERM: the user needs ~j:x"},
    {"a denied probe names the missing rule", &of_get, "SET j:x",
     "OK;OK;NOPERM User o'get has no permissions to run the 'set' command", HANDSHAKE_REFUSED,
     "SET j:x", "NOPERM: the user needs +set"},
    {"a denied probe names the missing rule", &of_get, "GET j:x",
     "OK;OK;NOPERM User get has no permissions to run the 'get' command", HANDSHAKE_REFUSED,
     "GET j:x", "NOPERM: the user needs +get"},
    {"a denied probe names the missing rule", &of_get, "MULTI",
     "OK;OK;NOPERM this user has no permissions to run the 'multi' command or its subcommand",
     HANDSHAKE_REFUSED, "MULTI", "NOPERM: the user needs +multi"},
    {"unless it is not known", &of_get, "MULTI", "OK;OK;NOPERM for a reason of get's own",
     HANDSHAKE_REFUSED, "MULTI", "NOPERM for a reason of ***'s own"},
    {"unless it is not known", &of_get, "GET j:x",
     "OK;OK;NOPERM User get has no permissions to run the 'secret' command", HANDSHAKE_REFUSED,
     "GET j:x", "NOPERM User *** has no permissions to run the '******' command"},
    {"a denial for several keys is left to a later command, which names the key", &plain,
     "WATCH a b;GET a",
     "OK;NOPERM No permissions to access a key;NOPERM No permissions to access a key",
     HANDSHAKE_REFUSED, "GET a", "NOPERM: the user needs ~a"},
    {"any other error of it refuses at once", &plain, "WATCH a b;GET a",
     "OK;CROSSSLOT Keys in request don't hash to the same slot", HANDSHAKE_REFUSED, "WATCH a",
     "CROSSSLOT: in a cluster, put the job id in braces, like {pipe-42}"},
};

static enum handshake_result take(struct handshake *handshake, const char *text,
                                  struct handshake_refusal *refusal) {
  char copy[128];
  strcpy(copy, text);
  redisReply reply = {.type = strcmp(text, OK) == 0 ? REDIS_REPLY_STATUS : REDIS_REPLY_ERROR,
                      .str = copy,
                      .len = strlen(copy)};
  return handshake_take_reply(handshake, &reply, refusal);
}

/* "SET a;GET b", encoded. */
static struct handshake_probe probe_of(const char *text, char out[256]) {
  struct handshake_probe probe = {.text = out, .multi_key = strncmp(text, "WATCH", 5) == 0};
  char copy[64], *rest = strcpy(copy, text);
  out[0] = '\0';
  for (char *command; *text != '\0' && (command = strsep(&rest, ";")) != NULL; probe.count++) {
    const char *words[4];
    size_t count = 0;
    while ((words[count] = strsep(&command, " ")) != NULL)
      count++;
    char *encoded = command_new(words, count);
    strcat(out, encoded);
    free(encoded);
  }
  probe.length = strlen(out);
  return probe;
}

static void expect_verdict(const struct exchange *row) {
  char text[256], replies[128], *rest = strcpy(replies, row->replies);
  struct handshake handshake;
  struct handshake_refusal refusal;
  const struct handshake_probe probe = probe_of(row->probe, text);
  handshake_init(&handshake, row->url, "its-name", &probe);
  enum handshake_result verdict = HANDSHAKE_MORE;
  const char *reply = NULL;
  while (rest != NULL) {
    if (verdict != HANDSHAKE_MORE)
      fail_msg("%s: no reply is due after %s", row->name, reply);
    reply = strsep(&rest, ";");
    verdict = take(&handshake, reply, &refusal);
  }
  if (verdict != row->verdict || strcmp(refusal.command, row->command) != 0)
    fail_msg("%s: %d, %s", row->name, verdict, refusal.command);
  if (verdict != HANDSHAKE_DONE && strcmp(refusal.text, row->text != NULL ? row->text : reply) != 0)
    fail_msg("%s: %s", row->name, refusal.text);
  handshake_release(&handshake);
}

/* A server that says the same to everything is no Redis. */
TEST(an_answer_of_another_type_is_refused_for_now) {
  static const int types[] = {REDIS_REPLY_NIL, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char word[] = "OK";
    redisReply reply = {.type = types[i], .str = word, .len = 2};
    struct redis_url url = {0};
    struct handshake_refusal refusal;
    struct handshake handshake;
    handshake_init(&handshake, &url, "its-name", &no_probe);
    assert_int_equal(handshake_take_reply(&handshake, &reply, &refusal), HANDSHAKE_RETRY);
    assert_string_equal(refusal.text, "the answer to CLIENT SETNAME is none of redis");
    handshake_release(&handshake);
  }
}

TEST(replies_lead_to_a_verdict) {
  for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++)
    expect_verdict(&exchanges[i]);
}

/* The last reply of a handshake with a server that a sentinel has named. */
static enum handshake_result verdict_on_role(redisReply *reply, struct handshake_refusal *refusal) {
  char ok[] = "OK";
  redisReply named = {.type = REDIS_REPLY_STATUS, .str = ok, .len = 2};
  struct redis_url url = OF_SENTINEL;
  struct handshake handshake;
  handshake_init(&handshake, &url, "its-name", &no_probe);
  assert_int_equal(handshake_take_reply(&handshake, &named, refusal), HANDSHAKE_MORE);
  enum handshake_result verdict = handshake_take_reply(&handshake, reply, refusal);
  assert_string_equal(refusal->command, "ROLE");
  handshake_release(&handshake);
  return verdict;
}

TEST(a_replica_is_refused_for_now) {
  expect_sent((struct redis_url)OF_SENTINEL, SETNAME "*1\r\n$4\r\nROLE\r\n");
  expect_sent((struct redis_url){.hosts = &host, .host_count = 2}, SETNAME "*1\r\n$4\r\nROLE\r\n");
  struct handshake_refusal refusal;
  char word[16] = "master";
  redisReply role = {.type = REDIS_REPLY_STRING, .str = word, .len = 6};
  redisReply *elements[] = {&role};
  redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements};
  assert_int_equal(verdict_on_role(&reply, &refusal), HANDSHAKE_DONE);
  strcpy(word, "slave");
  assert_int_equal(verdict_on_role(&reply, &refusal), HANDSHAKE_RETRY);
  assert_string_equal(refusal.text, HANDSHAKE_REPLICA);
}
