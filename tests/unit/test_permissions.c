#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/command.h"
#include "agent/redis/permissions.h"

#define KEY "sandbox:{j}:"

static const struct {
  const char *command; /* its words, one space between them */
  const char *name;
} expected[] = {
    {"WATCH " KEY "in " KEY "events " KEY "results " KEY "inflight " KEY "started " KEY "committed",
     "WATCH " KEY "in"},
    {"LLEN " KEY "in", "LLEN " KEY "in"},
    {"XLEN " KEY "events", "XLEN " KEY "events"},
    {"LLEN " KEY "results", "LLEN " KEY "results"},
    {"LLEN " KEY "inflight", "LLEN " KEY "inflight"},
    {"GET " KEY "started", "GET " KEY "started"},
    {"GET " KEY "committed", "GET " KEY "committed"},
    {"MULTI", "MULTI"},
    {"XADD " KEY "events * data ", "XADD " KEY "events"},
    {"LPUSH " KEY "results ", "LPUSH " KEY "results"},
    {"LREM " KEY "inflight -1 ", "LREM " KEY "inflight"},
    {"LTRIM " KEY "inflight 0 -2", "LTRIM " KEY "inflight"},
    {"RPUSH " KEY "inflight ", "RPUSH " KEY "inflight"},
    {"LINDEX " KEY "inflight -1", "LINDEX " KEY "inflight"},
    {"XREVRANGE " KEY "events + - COUNT 1", "XREVRANGE " KEY "events"},
    {"SET " KEY "started ", "SET " KEY "started"},
    {"DEL " KEY "started", "DEL " KEY "started"},
    {"SET " KEY "committed ", "SET " KEY "committed"},
    {"EXPIRE " KEY "in 1", "EXPIRE " KEY "in"},
    {"EXPIRE " KEY "results 1", "EXPIRE " KEY "results"},
    {"PERSIST " KEY "in", "PERSIST " KEY "in"},
    {"DISCARD", "DISCARD"},
};

enum { EXPECTED = sizeof expected / sizeof *expected };

static void make(struct permissions *permissions) {
  struct keys keys;
  keys_init(&keys, "{j}");
  permissions_init(permissions, &keys);
  keys_release(&keys); /* they are not needed any more */
}

static void every_command_and_every_key_is_asked_for(void **state) {
  (void)state;
  struct permissions permissions;
  make(&permissions);
  struct login_probe probe = permissions_probe(&permissions);
  assert_int_equal(probe.count, EXPECTED);
  const char *at = probe.text, *end = probe.text + probe.length;
  for (size_t i = 0; i < EXPECTED; i++) {
    struct command_word words[7] = {{.text = NULL}};
    char text[256];
    assert_true(command_read(&at, end, words, 7));
    char *out = text;
    for (size_t k = 0; k < 7 && words[k].text != NULL; k++)
      out += sprintf(out, "%s%.*s", k > 0 ? " " : "", (int)words[k].length, words[k].text);
    assert_string_equal(text, expected[i].command);
    assert_string_equal(probe.names[i], expected[i].name);
  }
  assert_ptr_equal(at, end);
  permissions_release(&permissions);
}

/* Nothing of what writes is done: it stands between MULTI and DISCARD, which ends the watch, too.
 */
static void nothing_is_done(void **state) {
  (void)state;
  struct permissions permissions;
  make(&permissions);
  bool inside = false;
  for (size_t i = 0; i < PERMISSIONS_COUNT; i++) {
    const char *name = permissions.names[i];
    if (strcmp(name, "MULTI") == 0)
      inside = true;
    else if (strcmp(name, "DISCARD") == 0)
      inside = false;
    else if (!inside)
      assert_true(strncmp(name + 1, "LEN ", 4) == 0 || strncmp(name, "GET ", 4) == 0 ||
                  strncmp(name, "WATCH ", 6) == 0);
  }
  assert_false(inside);
  permissions_release(&permissions);
}

/* It has room beside all that a login may say itself. */
static void it_fits_into_a_login(void **state) {
  (void)state;
  char word[] = "x";
  struct redis_url url = {.user = word, .password = word, .database = 1, .master = word};
  struct permissions permissions;
  struct login login;
  make(&permissions);
  login_init(&login, &url, "its-name");
  int before = login.count;
  struct login_probe probe = permissions_probe(&permissions);
  login_add_probe(&login, &probe);
  assert_int_equal(login.count, before + PERMISSIONS_COUNT);
  assert_true(login.count <= LOGIN_COMMANDS_MAX);
  login_release(&login);
  permissions_release(&permissions);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_command_and_every_key_is_asked_for),
      cmocka_unit_test(nothing_is_done),
      cmocka_unit_test(it_fits_into_a_login),
  };
  return cmocka_run_group_tests_name("permissions", tests, NULL, NULL);
}
