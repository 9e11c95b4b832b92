/* How a connection reacts to the replies of a server to the handshake. */

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "tests/support/fake_redis.h"
#include "tests/support/logged.h"
#include "tests/support/loop.h"
#include "tests/support/recorder.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

static char user[] = "smith", password[] = "secret", getter[] = "get";

/* How many times the password was overwritten. The function below replaces the one of the C
   library. */
static int erased;

void explicit_bzero(void *memory, size_t length) {
  const void *volatile before = memory; /* the compiler knows that it is only written */
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
  struct redis_connection *connection;
  char answers[8][128]; /* in order; "": none */
  int number;           /* of the connection that is answered */
  size_t answered;
  struct recorder recorder;
  char error[256];
};

static void on_ready(void *owner, const struct reply *value) {
  (void)value;
  recorder_add(&((struct trial *)owner)->recorder, "ready");
}

/* The next attempt would have the same outcome. */
static void on_unreachable(void *owner) {
  struct trial *trial = owner;
  recorder_add(&trial->recorder, "again");
  redis_connection_stop(trial->connection);
}

static void on_failed(void *owner, const struct error *error) {
  struct trial *trial = owner;
  (void)snprintf(trial->error, sizeof trial->error, "%s", error->text);
  recorder_add(&trial->recorder, "failed");
}

static const char *answer(void *owner, const char *command) {
  (void)command;
  struct trial *trial = owner;
  if (trial->number != fake_redis_connections(trial->server))
    trial->answered = 0;
  trial->number = fake_redis_connections(trial->server);
  size_t answered = trial->answered++;
  return answered < 8 && trial->answers[answered][0] != '\0' ? trial->answers[answered] : NULL;
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
  if (trial->connection != NULL)
    redis_connection_free(trial->connection);
  fake_redis_free(trial->server);
  close(trial->log.fd);
  loop_release(&trial->loop);
  free(trial);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

/* The owner can do without the first command if it is WATCH. */
static bool on_rejected(void *owner, int index, const char *text) {
  struct trial *trial = owner;
  return index == 0 && strstr(trial->final_commands.text, "WATCH") != NULL &&
         strncmp(text, "NOPERM", 6) == 0;
}

static void start(struct trial *trial) {
  static const struct redis_connection_handler handler = {.ready = on_ready,
                                                          .unreachable = on_unreachable,
                                                          .rejected = on_rejected,
                                                          .failed = on_failed};
  struct redis_connection_options options = {.url = &trial->url,
                                             .role = "test",
                                             .name = "its-name",
                                             .final_commands = trial->final_commands};
  trial->connection =
      redis_connection_new(trial->loop.base, &trial->log, &options, &handler, trial);
  assert_false(redis_connection_start(trial->connection));
}

static void expect(struct trial *trial, const char *transcript) {
  recorder_expect(&trial->loop, &trial->recorder, transcript);
}

/* "SET a;GET b", encoded. */
static struct handshake_commands commands_of(const char *text, char out[256]) {
  struct handshake_commands final_commands = {.text = out};
  char copy[64], *rest = strcpy(copy, text);
  out[0] = '\0';
  for (char *command; *text != '\0' && (command = strsep(&rest, ";")) != NULL;
       final_commands.count++) {
    const char *words[4];
    for (size_t i = 0; (words[i] = strsep(&command, " ")) != NULL; i++)
      ;
    char *encoded = command_new(words);
    strcat(out, encoded);
    free(encoded);
  }
  final_commands.length = strlen(out);
  return final_commands;
}

TRIAL_TEST(the_password_is_overwritten) {
  trial->url.password = password;
  erased = 0;
  start(trial);
  expect(trial, "ready");
  assert_int_equal(erased, 1);
  assert_string_equal(password, "secret"); /* the URL's copy stays */
}

enum verdict { READY, AGAIN, FAILED };

struct row {
  const char *name;
  const struct redis_url *url; /* its credentials, database and number of hosts */
  const char *final_commands;  /* its commands; WATCH names several keys */
  const char *replies;         /* "OK;ERR no" */
  enum verdict verdict;
  const char *command, *text; /* of the error; without a text it is the last reply */
};

static const struct redis_url plain = {0}, full = {.password = password, .database = 1},
                              with_user = {.user = user, .password = password},
                              of_get = {.user = getter, .password = password},
                              of_sentinel = {.host_count = 2};

static const struct row rows[] = {
    {"it is done after the last reply", &full, "", "OK;OK;OK", READY, NULL, NULL},
    {"a refusal is final", &full, "", "WRONGPASS invalid", FAILED, "AUTH", NULL},
    {"a rejected database is final", &full, "", "OK;OK;ERR DB index is out of range", FAILED,
     "SELECT", NULL},
    {"a transient error asks for another attempt", &full, "", "LOADING it is", AGAIN, NULL, NULL},
    {"so does one at the name", &full, "", "OK;ERR max number of clients reached", AGAIN, NULL,
     NULL},
    {"it goes on without a name: command", &full, "", "OK;ERR unknown command;OK", READY, NULL,
     NULL},
    {"it goes on without a name: spaces", &full, "", "OK;ERR Client names cannot have spaces;OK",
     READY, NULL, NULL},
    {"it goes on without a name: permission", &full, "",
     "OK;NOPERM no permissions to run 'client|setname';OK", READY, NULL, NULL},
    {"an error that is not about the name is final", &full, "",
     "OK;NOAUTH Authentication required.", FAILED, "CLIENT SETNAME", NULL},
    {"protected mode is final", &full, "", "OK;DENIED protected mode", FAILED, "CLIENT SETNAME",
     NULL},
    {"a refused name may be the last reply", &plain, "", "ERR unknown command", READY, NULL, NULL},
    {"arguments are not shown", &with_user, "",
     "ERR unknown command 'AUTH', with args beginning with: 'smith' 'secret'", FAILED, "AUTH",
     "ERR unknown command 'AUTH'"},
    {"user and password are masked", &with_user, "", "WRONGPASS secret is not of smith", FAILED,
     "AUTH", "WRONGPASS ****** is not of *****"},
    {"it goes on without permission for ROLE", &of_sentinel, "",
     "OK;NOPERM this user has no permissions to run the 'role' command", READY, NULL, NULL},
    {"a transient error at ROLE asks for another attempt", &of_sentinel, "", "OK;LOADING it is",
     AGAIN, NULL, NULL},
    {"another error at ROLE is final", &of_sentinel, "", "OK;NOAUTH Authentication required.",
     FAILED, "ROLE", NULL},
    {"a rejected command is named", &plain, "MULTI;LREM the:key -1", "OK;NOPERM no", FAILED,
     "MULTI", NULL},
    {"with its key", &plain, "MULTI;LREM the:key -1", "OK;OK;NOPERM no", FAILED, "LREM the:key",
     NULL},
    {"a denial names the missing rule", &of_get, "SET j:heartbeat",
     "OK;OK;NOPERM No permissions to access a key", FAILED, "SET j:heartbeat",
     "NOPERM: the user needs ~j:heartbeat"},
    {"a denial names the missing rule", &of_get, "GET j:x",
     "OK;OK;NOPERM this user has no permissions to access one of the keys used as arguments",
     FAILED, "GET j:x", "NOPERM: the user needs ~j:x"},
    {"a denial names the missing rule", &of_get, "SET j:x",
     "OK;OK;NOPERM User o'get has no permissions to run the 'set' command", FAILED, "SET j:x",
     "NOPERM: the user needs +set"},
    {"a denial names the missing rule", &of_get, "GET j:x",
     "OK;OK;NOPERM User get has no permissions to run the 'get' command", FAILED, "GET j:x",
     "NOPERM: the user needs +get"},
    {"a denial names the missing rule", &of_get, "MULTI",
     "OK;OK;NOPERM this user has no permissions to run the 'multi' command or its subcommand",
     FAILED, "MULTI", "NOPERM: the user needs +multi"},
    {"unless it is unknown", &of_get, "MULTI", "OK;OK;NOPERM for a reason of get's own", FAILED,
     "MULTI", "NOPERM for a reason of ***'s own"},
    {"unless it is unknown", &of_get, "GET j:x",
     "OK;OK;NOPERM User get has no permissions to run the 'secret' command", FAILED, "GET j:x",
     "NOPERM User *** has no permissions to run the '******' command"},
    {"a denial for several keys is left to a later command, which names the key", &plain,
     "WATCH a b;GET a",
     "OK;NOPERM No permissions to access a key;NOPERM No permissions to access a key", FAILED,
     "GET a", "NOPERM: the user needs ~a"},
    {"another error of it is final", &plain, "WATCH a b;GET a",
     "OK;CROSSSLOT Keys in request don't hash to the same slot", FAILED, "WATCH a",
     "CROSSSLOT: in a cluster, put the job id in braces, like {pipe-42}"},
};

static void expect_verdict(struct trial *trial, const struct row *row) {
  static const char *const transcripts[] = {"ready", "again", "failed"};
  char text[256], replies[128], expected[200], *rest = strcpy(replies, row->replies);
  const char *reply = NULL;
  trial->url = *row->url;
  trial->url.hosts = trial->hosts;
  if (trial->url.host_count == 0)
    trial->url.host_count = 1;
  trial->final_commands = commands_of(row->final_commands, text);
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

TEST(each_reply_to_the_handshake_has_its_outcome, set_up, tear_down) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    expect_verdict(*state, &rows[i]);
    tear_down(state);
    set_up(state);
  }
}
