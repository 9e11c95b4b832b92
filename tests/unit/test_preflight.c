#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/delivery/delivery.h"
#include "tests/test.h"

#define KEY "sandbox:{j}:"

/* The words of the commands, separated by single spaces. */
static const char *const expected[] = {
    "WATCH " KEY "in " KEY "events " KEY "results " KEY "inflight " KEY "started " KEY
    "committed " KEY "heartbeat",
    "LLEN " KEY "in",
    "XLEN " KEY "events",
    "LLEN " KEY "results",
    "LLEN " KEY "inflight",
    "LLEN " KEY "control",
    "GET " KEY "started",
    "MULTI",
    "XADD " KEY "events * data ",
    "XTRIM " KEY "events MAXLEN 0",
    "LPUSH " KEY "results ",
    "LREM " KEY "inflight -1 ",
    "LTRIM " KEY "inflight 0 -2",
    "RPUSH " KEY "inflight ",
    "LINDEX " KEY "inflight -1",
    "XREVRANGE " KEY "events + - COUNT 1",
    "SET " KEY "started ",
    "DEL " KEY "started",
    "SET " KEY "committed ",
    "SET " KEY "heartbeat  EX 1",
    "DEL " KEY "heartbeat",
    "EXPIRE " KEY "in 1",
    "EXPIRE " KEY "results 1",
    "LREM " KEY "control -1 ",
    "PERSIST " KEY "in",
    "DISCARD",
    "WATCH " KEY "committed",
    "GET " KEY "committed",
    "MULTI",
};

enum { EXPECTED = sizeof expected / sizeof *expected };

static char *make(void) {
  struct keys keys;
  keys_init(&keys, "{j}");
  char *preflight = delivery_preflight(&keys, true);
  keys_release(&keys); /* the text has its own copy */
  return preflight;
}

static void read_command(const char **at, char out[256]) {
  struct command_word words[8] = {{.text = NULL}};
  assert_true(command_read(at, *at + strlen(*at), words, 8));
  for (size_t k = 0; k < 8 && words[k].text != NULL; k++)
    out += sprintf(out, "%s%.*s", k > 0 ? " " : "", (int)words[k].length, words[k].text);
}

TEST(every_command_and_every_key_is_checked) {
  char *preflight = make();
  const char *at = preflight;
  assert_int_equal(PREFLIGHT_COMMANDS, EXPECTED);
  for (size_t i = 0; i < EXPECTED; i++) {
    char text[256];
    read_command(&at, text);
    assert_string_equal(text, expected[i]);
  }
  assert_string_equal(at, "");
  free(preflight);
}

/* Redis executes no command that writes: each one is between MULTI and DISCARD, which also ends the
   watch. test_multi_refused.c checks that none is sent before MULTI is accepted. */
TEST(the_preflight_changes_nothing) {
  char *preflight = make();
  const char *at = preflight;
  bool inside = false;
  for (size_t i = 0; i < EXPECTED - 1; i++) {
    char name[256];
    read_command(&at, name);
    if (strcmp(name, "MULTI") == 0)
      inside = true;
    else if (strcmp(name, "DISCARD") == 0)
      inside = false;
    else if (!inside)
      assert_true(strncmp(name + 1, "LEN ", 4) == 0 || strncmp(name, "GET ", 4) == 0 ||
                  strncmp(name, "WATCH ", 6) == 0);
  }
  assert_false(inside);
  free(preflight);
}
