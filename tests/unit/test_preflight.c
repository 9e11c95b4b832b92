#include "agent/doors/redis/delivery/pipeline.h"
#include "agent/doors/redis/link/command.h"
#include "tests/test.h"

#define KEY "sandbox:{j}:"

/* Their words, one space between them. */
static const char *const expected[] = {
    "WATCH " KEY "in " KEY "events " KEY "results " KEY "inflight " KEY "started " KEY
    "committed " KEY "heartbeat",
    "LLEN " KEY "in",
    "XLEN " KEY "events",
    "LLEN " KEY "results",
    "LLEN " KEY "inflight",
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
    "PERSIST " KEY "in",
    "DISCARD",
    "WATCH " KEY "committed",
    "GET " KEY "committed",
    "MULTI",
};

enum { EXPECTED = sizeof expected / sizeof *expected };

static void make(struct pipeline *permissions) {
  struct keys keys;
  keys_init(&keys, "{j}");
  pipeline_init(permissions, &keys, true, 0);
  keys_release(&keys); /* they are not needed any more */
}

static void read_command(const struct handshake_probe *probe, const char **at, char out[256]) {
  struct command_word words[8] = {{.text = NULL}};
  assert_true(command_read(at, probe->text + probe->length, words, 8));
  for (size_t k = 0; k < 8 && words[k].text != NULL; k++)
    out += sprintf(out, "%s%.*s", k > 0 ? " " : "", (int)words[k].length, words[k].text);
}

TEST(every_command_and_every_key_is_checked) {
  struct pipeline permissions;
  make(&permissions);
  struct handshake_probe probe = pipeline_preflight(&permissions);
  assert_int_equal(probe.count, EXPECTED);
  assert_string_equal(expected[probe.first - 1], "MULTI");
  assert_string_equal(expected[probe.value], "GET " KEY "committed");
  const char *at = probe.text;
  for (size_t i = 0; i < EXPECTED; i++) {
    char text[256];
    read_command(&probe, &at, text);
    assert_string_equal(text, expected[i]);
  }
  assert_ptr_equal(at, probe.text + probe.length);
  pipeline_release(&permissions);
}

/* Nothing of what writes is done: it stands between MULTI and DISCARD, which ends the watch, too; and
   none of it leaves before MULTI is accepted. */
TEST(the_preflight_changes_nothing) {
  struct pipeline permissions;
  make(&permissions);
  struct handshake_probe probe = pipeline_preflight(&permissions);
  const char *at = probe.text;
  bool inside = false;
  for (size_t i = 0; i < (size_t)probe.count; i++) {
    char name[256];
    read_command(&probe, &at, name);
    if (strcmp(name, "MULTI") == 0)
      inside = i + 1 == (size_t)probe.first;
    else if (strcmp(name, "DISCARD") == 0)
      inside = false;
    else if (!inside)
      assert_true(strncmp(name + 1, "LEN ", 4) == 0 || strncmp(name, "GET ", 4) == 0 ||
                  strncmp(name, "WATCH ", 6) == 0);
  }
  assert_false(inside);
  pipeline_release(&permissions);
}
