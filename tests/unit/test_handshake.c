/* The handshake of a client, by what a server gets and answers. */
#include <unistd.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "tests/support/fake_redis.h"
#include "tests/support/logged.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

static char user[] = "smith", password[] = "secret", getter[] = "get";

/* How often the password was overwritten. Replaces the C library's function, so that a test sees
   it. */
static int erased;

void explicit_bzero(void *memory, size_t length) {
  const void *volatile before = memory; /* of which the compiler knows that it is only written */
  erased += memmem(before, length, password, strlen(password)) != NULL;
  volatile char *bytes = memory;
  for (size_t i = 0; i < length; i++)
    bytes[i] = 0;
}

struct trial {
  struct loop loop;
  struct log log; /* at level debug, in a file */
  struct fake_redis *server;
  struct redis_address hosts[2]; /* twice the server */
  struct redis_url url;
  struct handshake_commands final_commands;
  bool is_early;
  struct redis_connection *client;
  char answers[8][128]; /* in order; "": none */
  int connection;       /* the one that is answered */
  size_t answered;
  struct recorder recorder;
  char value[16];
  char error[256];
};

static void on_ready(void *owner, const redisReply *value) {
  struct trial *trial = owner;
  (void)snprintf(trial->value, sizeof trial->value, "%s", value->str != NULL ? value->str : "nil");
  recorder_add(&trial->recorder, "ready");
}

static void on_reply(void *owner, const redisReply *reply) {
  (void)reply;
  recorder_add(&((struct trial *)owner)->recorder, "reply");
}

/* What is wrong will be so the next time: one attempt is enough. */
static void on_unreachable(void *owner) {
  struct trial *trial = owner;
  recorder_add(&trial->recorder, "again");
  redis_connection_stop(trial->client);
}

static void on_failed(void *owner, const struct error *error) {
  struct trial *trial = owner;
  (void)snprintf(trial->error, sizeof trial->error, "%s", error->text);
  recorder_add(&trial->recorder, "failed");
}

static const char *answer(void *owner, const char *command) {
  (void)command;
  struct trial *trial = owner;
  if (trial->connection != fake_redis_connections(trial->server))
    trial->answered = 0;
  trial->connection = fake_redis_connections(trial->server);
  size_t number = trial->answered++;
  return number < 8 && trial->answers[number][0] != '\0' ? trial->answers[number] : NULL;
}

static int set_up(void **state) {
  struct trial *trial = calloc(1, sizeof *trial);
  loop_init(&trial->loop);
  trial->log = logged_open(LOG_DEBUG);
  trial->server = fake_redis_new(trial->loop.base, false);
  fake_redis_answer_with(trial->server, answer, trial);
  for (size_t i = 0; i < 8; i++)
    strcpy(trial->answers[i], "+OK\r\n");
  trial->url = fake_redis_url(trial->server);
  trial->hosts[0] = trial->hosts[1] = trial->url.hosts[0];
  *state = trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  if (trial->client != NULL)
    redis_connection_free(trial->client);
  fake_redis_free(trial->server);
  close(trial->log.fd);
  loop_release(&trial->loop);
  free(trial);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static void start(struct trial *trial) {
  static const struct redis_connection_handler handler = {
      .ready = on_ready, .reply = on_reply, .unreachable = on_unreachable, .failed = on_failed};
  struct redis_connection_options options = {.url = &trial->url,
                                             .role = "test",
                                             .name = "its-name",
                                             .final_commands = trial->final_commands,
                                             .early = trial->is_early};
  trial->client = redis_connection_new(trial->loop.base, &trial->log, &options, &handler, trial);
  assert_false(redis_connection_start(trial->client));
}

static void expect(struct trial *trial, const char *transcript) {
  recorder_expect(&trial->loop, &trial->recorder, transcript);
}

/* "SET a;GET b", encoded. */
static struct handshake_commands probe_of(const char *text, char out[256]) {
  struct handshake_commands final_commands = {.text = out,
                                              .multi_key = strncmp(text, "WATCH", 5) == 0};
  char copy[64], *rest = strcpy(copy, text);
  out[0] = '\0';
  for (char *command; *text != '\0' && (command = strsep(&rest, ";")) != NULL;
       final_commands.count++) {
    const char *words[4];
    size_t count = 0;
    while ((words[count] = strsep(&command, " ")) != NULL)
      count++;
    char *encoded = command_new(words, count);
    strcat(out, encoded);
    free(encoded);
  }
  final_commands.length = strlen(out);
  return final_commands;
}

TEST(it_sends_what_the_url_asks_for, set_up, tear_down) {
  static char with_end[] = "se cret\r\n";
  static const struct {
    const char *user, *password;
    unsigned database;
    const char *expected[4];
  } rows[] = {
      {NULL, NULL, 0, {"CLIENT SETNAME its-name"}},
      {NULL, with_end, 0, {"AUTH se cret\r\n", "CLIENT SETNAME its-name"}},
      {user, with_end, 0, {"AUTH smith se cret\r\n", "CLIENT SETNAME its-name"}},
      {NULL, NULL, 4294967295, {"CLIENT SETNAME its-name", "SELECT 4294967295"}},
      {user, with_end, 3, {"AUTH smith se cret\r\n", "CLIENT SETNAME its-name", "SELECT 3"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct trial *trial = *state;
    trial->url.user = (char *)(uintptr_t)rows[i].user;
    trial->url.password = (char *)(uintptr_t)rows[i].password;
    trial->url.database = rows[i].database;
    start(trial);
    expect(trial, "ready");
    for (size_t k = 0; k < 4; k++) {
      const char *command = fake_redis_command(trial->server, k);
      assert_int_equal(command == NULL, rows[i].expected[k] == NULL);
      if (command != NULL)
        assert_string_equal(command, rows[i].expected[k]);
    }
    tear_down(state);
    set_up(state);
  }
}

/* A refusal of one of the first leaves the others where they are. */
TRIAL_TEST(what_must_not_stand_alone_leaves_after_the_replies_to_the_first) {
  char text[256];
  trial->final_commands = probe_of("MULTI;DEL k;DISCARD", text);
  trial->final_commands.first = 1;
  trial->answers[1][0] = '\0';
  start(trial);
  LOOP_UNTIL(&trial->loop, fake_redis_commands(trial->server) == 2);
  loop_settle(&trial->loop);
  assert_int_equal(fake_redis_commands(trial->server), 2);
  assert_string_equal(fake_redis_command(trial->server, 1), "MULTI");
  fake_redis_send(trial->server, "+OK\r\n");
  expect(trial, "ready");
  assert_string_equal(fake_redis_command(trial->server, 2), "DEL k");
  assert_string_equal(fake_redis_command(trial->server, 3), "DISCARD");
}

TEST(the_value_is_that_of_one_command, set_up, tear_down) {
  static const char *const rows[][2] = {
      {"$5\r\n1:2:3\r\n", "1:2:3"}, {"$-1\r\n", "nil"}, {"+1:2:3\r\n", "nil"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct trial *trial = *state;
    char text[256];
    trial->final_commands = probe_of("GET a;GET b", text);
    strcpy(trial->answers[1], rows[i][0]);
    strcpy(trial->answers[2], "$2\r\nOK\r\n");
    start(trial);
    expect(trial, "ready");
    assert_string_equal(trial->value, rows[i][1]);
    tear_down(state);
    set_up(state);
  }
}

TRIAL_TEST(with_a_name_alone_it_may_be_ready_before_the_reply) {
  trial->is_early = true;
  strcpy(trial->answers[0], "-ERR unknown command 'CLIENT'\r\n");
  start(trial);
  expect(trial, "ready");
  redis_connection_send(trial->client, "*1\r\n$4\r\nPING\r\n");
  expect(trial, "ready reply");
}

TRIAL_TEST(a_refusal_of_the_server_ends_also_one_that_is_ready) {
  trial->is_early = true;
  strcpy(trial->answers[0], "-NOAUTH Authentication required.\r\n");
  start(trial);
  expect(trial, "ready failed");
}

TRIAL_TEST(what_must_succeed_is_waited_for) {
  trial->is_early = true;
  trial->url.database = 3;
  strcpy(trial->answers[1], "-ERR DB index is out of range\r\n");
  start(trial);
  expect(trial, "failed");
}

TRIAL_TEST(the_password_is_overwritten) {
  trial->url.password = password;
  erased = 0;
  start(trial);
  expect(trial, "ready");
  assert_int_equal(erased, 1);
  assert_string_equal(password, "secret"); /* that of the url is its owner's */
}

/* It is ready, tries again, or has given up. */
enum verdict { READY, AGAIN, FAILED };

struct exchange {
  const char *name;
  const struct redis_url *url; /* its credentials and database; of several hosts or of one */
  const char *final_commands;  /* its commands; WATCH names several keys */
  const char *replies;         /* "OK;ERR no" */
  enum verdict verdict;
  const char *command, *text; /* of the refusal; no text: the last reply */
};

static const struct redis_url plain = {0}, full = {.password = password, .database = 1},
                              with_user = {.user = user, .password = password},
                              of_get = {.user = getter, .password = password},
                              of_sentinel = {.host_count = 2};

static const struct exchange exchanges[] = {
    {"it is done after the last reply", &full, "", "OK;OK;OK", READY, NULL, NULL},
    {"a refusal is final", &full, "", "WRONGPASS invalid", FAILED, "AUTH", NULL},
    {"so is that of a database", &full, "", "OK;OK;ERR DB index is out of range", FAILED, "SELECT",
     NULL},
    {"a transient error asks for another attempt", &full, "", "LOADING it is", AGAIN, NULL, NULL},
    {"so does one about the name", &full, "", "OK;ERR max number of clients reached", AGAIN, NULL,
     NULL},
    {"it goes on without a name: command", &full, "", "OK;ERR unknown command;OK", READY, NULL,
     NULL},
    {"it goes on without a name: spaces", &full, "", "OK;ERR Client names cannot have spaces;OK",
     READY, NULL, NULL},
    {"it goes on without a name: permission", &full, "",
     "OK;NOPERM no permissions to run 'client|setname';OK", READY, NULL, NULL},
    {"an error that is not about the name refuses", &full, "", "OK;NOAUTH Authentication required.",
     FAILED, "CLIENT SETNAME", NULL},
    {"protected mode as well", &full, "", "OK;DENIED protected mode", FAILED, "CLIENT SETNAME",
     NULL},
    {"a refused name may be the last reply", &plain, "", "ERR unknown command", READY, NULL, NULL},
    {"arguments are not shown", &with_user, "",
     "ERR unknown command 'AUTH', with args beginning with: 'smith' 'secret'", FAILED, "AUTH",
     "ERR unknown command 'AUTH'"},
    {"user and password are masked", &with_user, "", "WRONGPASS secret is not of smith", FAILED,
     "AUTH", "WRONGPASS ****** is not of *****"},
    {"it goes on without permission for ROLE: the first write finds out", &of_sentinel, "",
     "OK;NOPERM this user has no permissions to run the 'role' command", READY, NULL, NULL},
    {"ROLE may be refused for now", &of_sentinel, "", "OK;LOADING it is", AGAIN, NULL, NULL},
    {"any other error is an error like any other", &of_sentinel, "",
     "OK;NOAUTH Authentication required.", FAILED, "ROLE", NULL},
    {"a refused probe names its command", &plain, "MULTI;LREM the:key -1", "OK;NOPERM no", FAILED,
     "MULTI", NULL},
    {"and its key", &plain, "MULTI;LREM the:key -1", "OK;OK;NOPERM no", FAILED, "LREM the:key",
     NULL},
    {"a denied probe names the missing rule", &of_get, "SET j:heartbeat",
     "OK;OK;NOPERM No permissions to access a key", FAILED, "SET j:heartbeat",
     "NOPERM: the user needs ~j:heartbeat"},
    {"a denied probe names the missing rule", &of_get, "GET j:x",
     "OK;OK;NOPERM this user has no permissions to access one of the keys used as arguments",
     FAILED, "GET j:x", "NOPERM: the user needs ~j:x"},
    {"a denied probe names the missing rule", &of_get, "SET j:x",
     "OK;OK;NOPERM User o'get has no permissions to run the 'set' command", FAILED, "SET j:x",
     "NOPERM: the user needs +set"},
    {"a denied probe names the missing rule", &of_get, "GET j:x",
     "OK;OK;NOPERM User get has no permissions to run the 'get' command", FAILED, "GET j:x",
     "NOPERM: the user needs +get"},
    {"a denied probe names the missing rule", &of_get, "MULTI",
     "OK;OK;NOPERM this user has no permissions to run the 'multi' command or its subcommand",
     FAILED, "MULTI", "NOPERM: the user needs +multi"},
    {"unless it is not known", &of_get, "MULTI", "OK;OK;NOPERM for a reason of get's own", FAILED,
     "MULTI", "NOPERM for a reason of ***'s own"},
    {"unless it is not known", &of_get, "GET j:x",
     "OK;OK;NOPERM User get has no permissions to run the 'secret' command", FAILED, "GET j:x",
     "NOPERM User *** has no permissions to run the '******' command"},
    {"a denial for several keys is left to a later command, which names the key", &plain,
     "WATCH a b;GET a",
     "OK;NOPERM No permissions to access a key;NOPERM No permissions to access a key", FAILED,
     "GET a", "NOPERM: the user needs ~a"},
    {"any other error of it refuses at once", &plain, "WATCH a b;GET a",
     "OK;CROSSSLOT Keys in request don't hash to the same slot", FAILED, "WATCH a",
     "CROSSSLOT: in a cluster, put the job id in braces, like {pipe-42}"},
};

static void expect_verdict(struct trial *trial, const struct exchange *row) {
  static const char *const transcripts[] = {"ready", "again", "failed"};
  char text[256], replies[128], expected[200], *rest = strcpy(replies, row->replies);
  const char *reply = NULL;
  trial->url = *row->url;
  trial->url.hosts = trial->hosts;
  if (trial->url.host_count == 0)
    trial->url.host_count = 1;
  trial->final_commands = probe_of(row->final_commands, text);
  for (size_t i = 0; (reply = strsep(&rest, ";")) != NULL; i++)
    (void)snprintf(trial->answers[i], sizeof trial->answers[i], "%s%s\r\n",
                   strcmp(reply, "OK") == 0 ? "+" : "-", reply);
  start(trial);
  expect(trial, transcripts[row->verdict]);
  const char *why = row->text != NULL ? row->text : strrchr(row->replies, ';');
  why = why == NULL ? row->replies : why + (row->text == NULL);
  if (row->verdict == AGAIN && logged_count(&trial->log, why) == 0)
    fail_msg("%s: the log lacks %s", row->name, why);
  (void)snprintf(expected, sizeof expected, " refuses %s: %s",
                 row->command != NULL ? row->command : "", why);
  if (row->verdict == FAILED && strstr(trial->error, expected) == NULL)
    fail_msg("%s: %s", row->name, trial->error);
}

TEST(replies_lead_to_a_verdict, set_up, tear_down) {
  for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) {
    expect_verdict(*state, &exchanges[i]);
    tear_down(state);
    set_up(state);
  }
}

/* A server that says the same to everything is no Redis. */
TEST(an_answer_of_another_type_is_refused_for_now, set_up, tear_down) {
  static const char *const answers[] = {"$-1\r\n", ":1\r\n", "$2\r\nOK\r\n"};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    struct trial *trial = *state;
    strcpy(trial->answers[0], answers[i]);
    start(trial);
    expect(trial, "again");
    assert_int_equal(logged_count(&trial->log, "the answer to CLIENT SETNAME is none of redis"), 1);
    tear_down(state);
    set_up(state);
  }
}

TEST(a_replica_is_refused_for_now, set_up, tear_down) {
  static const char *const roles[] = {"*1\r\n$6\r\nmaster\r\n", "*1\r\n$5\r\nslave\r\n"};
  for (size_t i = 0; i < 2; i++) {
    struct trial *trial = *state;
    trial->url.hosts = trial->hosts;
    trial->url.host_count = 2;
    strcpy(trial->answers[1], roles[i]);
    start(trial);
    expect(trial, i == 0 ? "ready" : "again");
    assert_string_equal(fake_redis_command(trial->server, 1), "ROLE");
    if (i == 1)
      assert_true(logged_count(&trial->log, "it is a replica, not yet the master") > 0);
    tear_down(state);
    set_up(state);
  }
}
